"""GLUE's leaderboard: submission files for its server, its averages, and tasks side by side in a table."""

import logging
import pathlib
import zipfile

import numpy as np

from keras_bert.data.cells import finite_number
from keras_bert.data.text_files import split_tabs
from keras_bert.files import replacing, write_text
from keras_bert.tasks.classification.glue import TASKS

__all__ = ["averages", "table"]  # The public ones.
_LOG = logging.getLogger("keras_bert")
_SERVER_HEADER = "index\tprediction\n"
_COLUMNS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli_mismatched", "qnli", "rte", "wnli", "ax")
_IN_AVERAGE = [name for name in TASKS if name not in ("wnli", "ax")]  # The paper's nine columns.


def table(scores, others=None):
    """Returns a Markdown table of our dev scores (dicts of `score`, by task), and of `others` in percent, by name.

    The average follows Devlin et al., table 1: nine columns, one metric each, both MNLI sets separately, without WNLI.
    """
    names = [name for name in _COLUMNS if name in scores]
    rows = {"ours, dev": {name: 100 * scores[name][TASKS[name].main_metric] for name in names}, **(others or {})}
    titles = [f"{_title(name)} ({TASKS[name].main_metric.replace('_', ' ')})" for name in names]
    whole = all(name in scores for name in _IN_AVERAGE)
    lines = [f"| | {' | '.join(titles + ['average'] * whole)} |", "|---" * (1 + len(names) + whole) + "|"]
    for row, numbers in rows.items():
        cells = [numbers[name] for name in names]
        cells += [sum(numbers[name] for name in _IN_AVERAGE) / len(_IN_AVERAGE)] if whole else []
        lines.append(f"| {row} | {' | '.join('' if cell is None else f'{cell:.1f}' for cell in cells)} |")
    return "\n".join(lines) + "\n"


def averages(scores):
    """Returns a line with the leaderboard's averages, or "" if a task is missing."""
    if any(name not in scores for name in _IN_AVERAGE):
        return ""
    whole, without = average(scores)
    whole = "" if whole is None else f"{100 * whole:.1f} with WNLI, "
    return f"Leaderboard average (all metrics of each task): {whole}{100 * without:.1f} without WNLI.\n"


def _title(name):
    return {"mnli": "MNLI-m", "mnli_mismatched": "MNLI-mm", "ax": "AX"}.get(name, TASKS[name].title)


def average(scores):
    """Returns the leaderboard's average of all nine tasks (`None` without WNLI), and of eight tasks without WNLI.

    The score of a task is the mean of its metrics, for MNLI of both test sets. `scores` is a dict by task name.
    """
    means = {name: sum(values.values()) / len(values) for name, values in scores.items() if name != "ax"}
    means["mnli"] = (means["mnli"] + means.pop("mnli_mismatched")) / 2
    wnli = means.pop("wnli", None)
    without = sum(means.values()) / len(means)
    return (sum(means.values()) + wnli) / (len(means) + 1) if wnli is not None else None, without


def write_submission(task, predictions, folder, ids=None):
    """Writes the submission file of a task to a folder and returns its path.

    Predictions are class ids, or scores for STS-B, which are clipped to [0, 5]. `ids` are the server's indices of the
    predictions, by default in their order.
    """
    ids = list(range(len(predictions)) if ids is None else ids)
    if len(ids) != len(predictions):
        raise ValueError(f"`ids` and `predictions` must be equally long. Received: {len(ids)} and {len(predictions)}")
    rows = sorted(zip(ids, predictions, strict=True))
    lines = [f"{number}\t{_server_string(task, prediction)}\n" for number, prediction in rows]
    path = pathlib.Path(folder) / task.server_file
    write_text(path, _SERVER_HEADER + "".join(lines))
    return path


def zip_submission(folder, path, test_rows=None):
    """Validates the files of a folder like the server, and zips all eleven files that it requires.

    `test_rows` has the row counts by task name, by default the official ones. Returns the tasks without a file, which
    are filled with the majority label and logged.
    """
    contents, filled = {}, []
    for task in TASKS.values():
        rows = (test_rows or {}).get(task.name, task.test_rows)
        file = pathlib.Path(folder) / task.server_file
        if file.is_file():
            _check_submission(task, file, rows)
            contents[task.server_file] = file.read_bytes()
        else:
            filled.append(task.name)
            string = _server_string(task, task.majority)
            contents[task.server_file] = _SERVER_HEADER + "".join(f"{row}\t{string}\n" for row in range(rows))
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    if filled:
        _LOG.warning("%s: filled with the majority label: %s", path, ", ".join(filled))
    return filled


def _server_string(task, prediction):
    if not task.labels:
        if not np.isfinite(prediction):
            raise ValueError(f"`predictions` must be finite. Received: {prediction}")
        return f"{min(max(float(prediction), 0.0), 5.0):.3f}"
    if prediction not in range(len(task.labels)):
        raise ValueError(
            f"`predictions` of {task.name} must be class numbers below {len(task.labels)}. Received: {prediction}"
        )
    return task.strings[int(prediction)]


def _check_submission(task, path, rows):
    (_, header), *lines = split_tabs(path) or [(1, [])]
    if header != ["index", "prediction"]:
        raise ValueError(f"{path}:1: expected the columns index and prediction, got {', '.join(header)}")
    for number, (line, fields) in enumerate(lines):
        if len(fields) != 2:
            raise ValueError(f"{path}:{line}: expected 2 columns, got {len(fields)}")
        if fields[0] != str(number):
            raise ValueError(f"{path}:{line}: expected index {number}, got {fields[0]}")
        if task.labels and fields[1] not in task.strings:
            raise ValueError(f"{path}:{line}: unknown label {fields[1]!r}. Expected one of: {', '.join(task.strings)}")
        if not task.labels and not 0 <= finite_number(f"{path}:{line}", "prediction", fields[1]) <= 5:
            raise ValueError(f"{path}:{line}: expected a score from 0 to 5, got {fields[1]}")
    if len(lines) != rows:
        raise ValueError(f"{path}: expected {rows} predictions, got {len(lines)}. The test file has that many rows")

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
_COLUMNS = (
    "cola",
    "sst2",
    "mrpc",
    "stsb",
    "qqp",
    "mnli",
    "mnli_mismatched",
    "qnli",
    "rte",
    "wnli",
    "ax",
)
_IN_AVERAGE = [name for name in TASKS if name not in ("wnli", "ax")]  # The paper's nine columns.


def table(scores, others=None):
    """Returns a Markdown table of our dev scores (dicts of `score`, by task), and of `others` in percent, by name.

    The average follows Devlin et al., table 1: nine columns, one metric each, both MNLI sets separately, without WNLI.
    """
    names = [name for name in _COLUMNS if name in scores]
    is_whole = all(name in scores for name in _IN_AVERAGE)
    rows = {"ours, dev": {name: 100 * scores[name][TASKS[name].main_metric] for name in names}}
    rows.update(others or {})
    titles = []
    for name in names:
        metric = TASKS[name].main_metric.replace("_", " ")
        titles.append(f"{_title(name)} ({metric})")
    if is_whole:
        titles.append("average")
    lines = [f"| | {' | '.join(titles)} |", "|---" * (1 + len(titles)) + "|"]
    for row, numbers in rows.items():
        cells = [_cell(numbers[name]) for name in names]
        if is_whole:
            cells.append(_cell(sum(numbers[name] for name in _IN_AVERAGE) / len(_IN_AVERAGE)))
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(number):
    """Formats a number of the table, which may be unknown."""
    return "" if number is None else f"{number:.1f}"


def averages(scores):
    """Returns a line with the leaderboard's averages, or "" if a task is missing."""
    if any(name not in scores for name in _IN_AVERAGE):
        return ""
    with_wnli, without = average(scores)
    text = f"{100 * without:.1f} without WNLI"
    if with_wnli is not None:
        text = f"{100 * with_wnli:.1f} with WNLI, {text}"
    return f"Leaderboard average (all metrics of each task): {text}.\n"


def _title(name):
    """Returns what the paper calls a column."""
    titles = {"mnli": "MNLI-m", "mnli_mismatched": "MNLI-mm", "ax": "AX"}
    return titles.get(name, TASKS[name].title)


def average(scores):
    """Returns the leaderboard's average of all nine tasks (`None` without WNLI), and of eight tasks without WNLI.

    The score of a task is the mean of its metrics, for MNLI of both test sets. `scores` is a dict by task name.
    """
    means = {}
    for name, values in scores.items():
        if name != "ax":
            means[name] = sum(values.values()) / len(values)
    means["mnli"] = (means["mnli"] + means.pop("mnli_mismatched")) / 2
    wnli = means.pop("wnli", None)
    total = sum(means.values())
    without = total / len(means)
    if wnli is None:
        return None, without
    return (total + wnli) / (len(means) + 1), without


def write_submission(task, predictions, folder, ids=None):
    """Writes the submission file of a task to a folder and returns its path.

    Predictions are class ids, or scores for STS-B, which are clipped to [0, 5]. `ids` are the server's indices of the
    predictions, by default in their order.
    """
    ids = list(range(len(predictions))) if ids is None else list(ids)
    if len(ids) != len(predictions):
        raise ValueError(f"`ids` and `predictions` must be equally long. Received: {len(ids)} and {len(predictions)}")
    lines = [_SERVER_HEADER]
    for number, prediction in sorted(zip(ids, predictions, strict=True)):
        lines.append(f"{number}\t{_server_string(task, prediction)}\n")
    path = pathlib.Path(folder) / task.server_file
    write_text(path, "".join(lines))
    return path


def zip_submission(folder, path, test_rows=None):
    """Validates the files of a folder like the server, and zips all eleven files that it requires.

    `test_rows` has the row counts by task name, by default the official ones. Returns the tasks without a file, which
    are filled with the majority label and logged.
    """
    contents = {}
    filled = []
    for task in TASKS.values():
        rows = (test_rows or {}).get(task.name, task.test_rows)
        file = pathlib.Path(folder) / task.server_file
        if file.is_file():
            _check_submission(task, file, rows)
            contents[task.server_file] = file.read_bytes()
        else:
            filled.append(task.name)
            contents[task.server_file] = _majority_submission(task, rows)
    with (
        replacing(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, content in contents.items():
            archive.writestr(name, content)
    if filled:
        _LOG.warning("%s: filled with the majority label: %s", path, ", ".join(filled))
    return filled


def _majority_submission(task, rows):
    """Returns the content of a submission file with the majority label in each row."""
    string = _server_string(task, task.majority)
    return _SERVER_HEADER + "".join(f"{row}\t{string}\n" for row in range(rows))


def _server_string(task, prediction):
    """Returns a prediction as the server takes it."""
    if not task.labels:
        if not np.isfinite(prediction):
            raise ValueError(f"`predictions` must be finite. Received: {prediction}")
        clipped = min(max(float(prediction), 0.0), 5.0)
        return f"{clipped:.3f}"
    if prediction not in range(len(task.labels)):
        raise ValueError(
            f"`predictions` of {task.name} must be class numbers below {len(task.labels)}. Received: {prediction}"
        )
    return task.strings[int(prediction)]


def _check_submission(task, path, rows):
    """Raises an error for a submission file that the server refuses."""
    (_, header), *lines = split_tabs(path) or [(1, [])]
    if header != ["index", "prediction"]:
        raise ValueError(f"{path}:1: expected the columns index and prediction, got {', '.join(header)}")
    for number, (line, fields) in enumerate(lines):
        if len(fields) != 2:
            raise ValueError(f"{path}:{line}: expected 2 columns, got {len(fields)}")
        if fields[0] != str(number):
            raise ValueError(f"{path}:{line}: expected index {number}, got {fields[0]}")
        _check_server_string(task, f"{path}:{line}", fields[1])
    if len(lines) != rows:
        raise ValueError(f"{path}: expected {rows} predictions, got {len(lines)}. The test file has that many rows")


def _check_server_string(task, place, string):
    """Raises an error for a prediction that the server refuses."""
    if task.labels:
        if string not in task.strings:
            raise ValueError(f"{place}: unknown label {string!r}. Expected one of: {', '.join(task.strings)}")
    elif not 0 <= finite_number(place, "prediction", string) <= 5:
        raise ValueError(f"{place}: expected a score from 0 to 5, got {string}")

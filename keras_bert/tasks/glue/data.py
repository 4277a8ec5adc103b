"""Reads GLUE's official files, or TensorFlow Datasets' copies of them.

The official files are tab-separated without any quoting, one line a row; QNLI has lone quotes.
"""

import dataclasses
import logging
import pathlib

import numpy as np

from keras_bert.tasks.classification import Data, predict
from keras_bert.tasks.glue.tasks import TASKS
from keras_bert.tasks.rows import check_columns, read_lines
from keras_bert.tasks.table import Examples, finite_number
from keras_bert.training.metrics import matthews_correlation

_LOG = logging.getLogger("keras_bert")
# The ids of a pair in MRPC, and the coarse categories of the diagnostic set.
_PAIR_IDS = ("#1 ID", "#2 ID")
_COARSE = ("Lexical Semantics", "Predicate-Argument Structure", "Logic", "Knowledge")


def read_all(task, data_dir=None, skip_bad_rows=0, diagnostics=None):
    """A task of GLUE with all that its model is asked: for MNLI also the mismatched genres and the diagnostics.

    Args:
        task: one of `TASKS`.
        data_dir: the official files; `None` takes those of TensorFlow Datasets.
        skip_bad_rows: how many rows with a wrong number of columns a file may have.
        diagnostics: `diagnostic-full.tsv`, with which a model of MNLI is scored as on dev.

    Returns:
        `Data`. Test files that are not in `data_dir` are left out and logged.
    """
    tasks = [TASKS[name] for name in ((task.name, "mnli_mismatched", "ax") if task.name == "mnli" else [task.name])]

    def read_split(part, split):
        if data_dir is None:
            return read_tfds(part, split)
        if (part.name != task.name and not has(part, data_dir, split)) or split == "test":
            return _read_if_there(part, data_dir, split, skip_bad_rows)
        return read(part, data_dir, split, skip_bad_rows)

    train = read_split(task, "train")
    dev = {part.name: read_split(part, "dev") for part in tasks if "dev" in part.files}
    test = {part.name: read_split(part, "test") for part in tasks}
    categories = None
    if diagnostics is not None and task.name == "mnli":
        dev["ax"], categories = read_diagnostics(diagnostics)
    return Data(task, train, _there(dev), _there(test), categories)


def _read_if_there(task, data_dir, split, skip_bad_rows):
    if has(task, data_dir, split):
        return read(task, data_dir, split, skip_bad_rows)
    _LOG.warning("%s has no %s file of %s: nothing is predicted for it", data_dir, split, task.name)
    return None


def _there(examples):
    return {name: part for name, part in examples.items() if part is not None}


def read(task, data_dir, split, skip_bad_rows=0):
    """Reads a split from the official files.

    MRPC may also lie there as `msr_paraphrase_train.txt` and `msr_paraphrase_test.txt`; its dev rows are then those
    of `dev_ids.tsv` or, for train, of `dev.tsv`.

    Args:
        task: one of `TASKS`.
        data_dir: the folder of the task's files, or that of all tasks.
        split: "train", "dev" or "test"; the diagnostic set has "test" alone.
        skip_bad_rows: how many rows with a wrong number of columns are left out before it is an error.

    Returns:
        `Examples`; the test rows have no labels. The ids are the server's `index` in test, elsewhere the index of the
        file or else the row number.

    Example:
        read(TASKS["rte"], "glue", "dev")
    """
    path, keep = _locate(task, data_dir, split)
    if path is None:
        raise _missing(task, data_dir, task.files[split][0])
    header, rows = _read_rows(path, task.header if split != "test" else None, skip_bad_rows)
    columns = [task.text, *([task.pair] if task.pair else []), *([task.label] if split != "test" else [])]
    check_columns(path, 1, header, columns)
    if keep is not None:
        check_columns(path, 1, header, _PAIR_IDS)
        places = [header.index(column) for column in _PAIR_IDS]
        rows = [(line, number, row) for line, number, row in rows if keep(tuple(row[place] for place in places))]
        if not rows:
            raise ValueError(f"{path}: no rows of {split}. The ids of the dev rows are those of other data")
    return _examples(task, path, header, rows, labelled=split != "test")


def read_diagnostics(path):
    """Reads `diagnostic-full.tsv`: the diagnostic set with labels.

    Returns:
        `Examples`, and for each row its linguistic categories, coarse and fine ones: `("Logic", "Logic: Negation")`.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file. Expected diagnostic-full.tsv of the GLUE diagnostics")
    header, rows = _read_rows(path, None, 0)
    check_columns(path, 1, header, [*_COARSE, "Premise", "Hypothesis", "Label"])
    task = dataclasses.replace(TASKS["ax"], text="Premise", pair="Hypothesis", label="Label")
    return _examples(task, path, header, rows, labelled=True), [
        tuple(dict.fromkeys(name for coarse in _COARSE for name in _categories(coarse, row[header.index(coarse)])))
        for _, _, row in rows
    ]


def _categories(coarse, cell):
    return (coarse, *(f"{coarse}: {fine.strip()}" for fine in cell.split(";"))) if cell.strip() else ()


def has(task, data_dir, split):
    """Whether the official files of a split are there."""
    return _locate(task, data_dir, split)[0] is not None


def _locate(task, data_dir, split):
    """The file of a split or `None`, and which of its rows are meant if not all are."""
    _check_split(task, split)
    path, keep = _find(task, data_dir, task.files[split]), None
    if path is None and task.name == "mrpc":
        path, keep = _find_paraphrase_corpus(task, data_dir, split)
    return path, keep


def _check_split(task, split):
    if split not in task.files:
        raise ValueError(f"`split` of {task.name} must be one of {', '.join(task.files)}. Received: split={split!r}")


def _find(task, data_dir, names):
    folders = (pathlib.Path(data_dir) / task.title, pathlib.Path(data_dir))
    return next((path for name in names for folder in folders if (path := folder / name).is_file()), None)


def _missing(task, data_dir, name):
    folder = pathlib.Path(data_dir)
    return ValueError(
        f"`data_dir` has no {name} of {task.name}: neither {folder / task.title / name} nor {folder / name}. "
        "Give the folder of the official files; https://gluebenchmark.com/tasks has them"
    )


def _find_paraphrase_corpus(task, data_dir, split):
    """The file of the original corpus, and which rows of it, by their ids, are the split."""
    name = "msr_paraphrase_test.txt" if split == "test" else "msr_paraphrase_train.txt"
    path = _find(task, data_dir, [name])
    if path is None or split == "test":
        return path, None
    ids, dev = _find(task, data_dir, ["dev_ids.tsv"]), _find(task, data_dir, ["dev.tsv"])
    if ids is not None:
        of_dev = {tuple(line.split("\t")) for _, line in read_lines(ids)}
    elif dev is not None:
        header, rows = _read_rows(dev, None, 0)
        check_columns(dev, 1, header, _PAIR_IDS)
        of_dev = {tuple(row[header.index(column)] for column in _PAIR_IDS) for _, _, row in rows}
    else:
        raise ValueError(
            f"{path}: it holds train and dev together, and there is no dev.tsv. "
            "Put GLUE's dev_ids.tsv, the two ids of each dev row, or dev.tsv beside it"
        )
    return path, of_dev.__contains__ if split == "dev" else lambda pair: pair not in of_dev


def _read_rows(path, header, skip_bad_rows):
    """The columns, and (line number, row number, fields) of each row."""
    lines = [(number, line.split("\t")) for number, line in read_lines(path)]
    if header is None and lines:
        (_, header), *lines = lines
    if not lines:
        raise ValueError(f"{path}: no rows")
    rows, bad = [], []
    for row_number, (line, fields) in enumerate(lines):
        while len(fields) > len(header) and not fields[-1]:
            fields.pop()  # Tabs at the end of a line are no columns.
        if len(fields) == len(header):
            rows.append((line, row_number, fields))
            continue
        bad.append(line)
        if len(bad) > skip_bad_rows:
            raise ValueError(
                f"{path}:{line}: expected {len(header)} columns, got {len(fields)}. Mend the file or raise "
                f"`skip_bad_rows`. Received: skip_bad_rows={skip_bad_rows}"
            )
    if not rows:
        raise ValueError(f"{path}: no row has {len(header)} columns, first line {bad[0]}")
    if bad:
        _LOG.warning("%s: left out %d rows with a wrong number of columns, first line %d", path, len(bad), bad[0])
    return list(header), rows


def _examples(task, path, header, rows, labelled):
    text = header.index(task.text)
    pair = header.index(task.pair) if task.pair else None
    index = next((header.index(name) for name in ("index", "id") if name in header), None)
    return Examples(
        text=[row[text] for _, _, row in rows],
        pair=[row[pair] for _, _, row in rows] if task.pair else None,
        labels=_labels(task, path, rows, header.index(task.label)) if labelled else None,
        ids=[number if index is None else _id(path, line, row[index]) for line, number, row in rows],
    )


def _id(path, line, value):
    if not value.isdecimal():
        raise ValueError(f"{path}:{line}: the index must be a whole number. Received: {value!r}")
    return int(value)


def _labels(task, path, rows, place):
    if task.num_classes == 1:
        return [finite_number(path, line, task.label, row[place]) for line, _, row in rows]
    numbers = {string: number for number, string in enumerate(task.strings)}
    for line, _, row in rows:
        if row[place] not in numbers:
            raise ValueError(f"{path}:{line}: unknown label {row[place]!r}. Expected one of: {', '.join(numbers)}")
    return [numbers[row[place]] for _, _, row in rows]


def read_tfds(task, split):
    """Reads a split from TensorFlow Datasets, which fetches it first; rows in the official order."""
    _check_split(task, split)
    name = f"glue/{task.tfds or task.name}"
    source = {"train": "train", "dev": f"validation{task.suffix}", "test": f"test{task.suffix}"}[split]
    try:
        import tensorflow_datasets as tfds

        dataset, info = tfds.load(name, split=source, with_info=True)
        rows = sorted(tfds.as_numpy(dataset), key=lambda row: row["idx"])
    # It raises its own errors, those of the network's libraries and TensorFlow's.
    except Exception as error:
        raise ValueError(
            f"{name} could not be had from TensorFlow Datasets: {error}. "
            "Download the official files and give their folder by --data_dir"
        ) from error
    if task.labels and info.features["label"].names != list(task.labels):
        raise ValueError(f"{name} numbers its labels differently: {info.features['label'].names}")
    text, pair = task.tfds_columns or (task.text, task.pair)
    kind = int if task.labels else float
    return Examples(
        text=[row[text].decode("utf-8") for row in rows],
        pair=[row[pair].decode("utf-8") for row in rows] if pair else None,
        labels=[kind(row["label"]) for row in rows] if split != "test" else None,
        ids=[int(row["idx"]) for row in rows],
    )


def score_diagnostics(labels, logits, categories):
    """Matthews correlation of all rows of the diagnostic set, as "all", and of those of each linguistic category."""
    predictions = np.array(predict(TASKS["ax"], logits))
    labels, categories = np.asarray(labels), [("all", *names) for names in categories]
    return {
        name: matthews_correlation(labels[chosen], predictions[chosen])
        for name in sorted(set().union(*categories), key=lambda name: (name != "all", name))
        if len(chosen := [row for row, names in enumerate(categories) if name in names])
    }

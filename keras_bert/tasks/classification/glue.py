"""GLUE's tasks (Wang et al., 2019), from the official files (tab-separated, without quoting) or TensorFlow Datasets.

Label ids match TensorFlow Datasets and Hugging Face, so that models trained elsewhere are compatible.
"""

import dataclasses
import logging
import os
import pathlib
import threading
import urllib.error
import urllib.request
from typing import NamedTuple

import numpy as np

from keras_bert.data.cells import finite_number
from keras_bert.data.conversion import converted
from keras_bert.data.sources import check_columns
from keras_bert.data.tables import Table, table_row
from keras_bert.data.text_files import is_blank, split_tabs
from keras_bert.tasks.class_names import class_ids
from keras_bert.tasks.classification.examples import TaskSpec, TextData, TextExamples
from keras_bert.tasks.classification.predictions import predict
from keras_bert.training.metrics import accuracy, f1, matthews_correlation, pearson, spearman

__all__ = ["TASKS", "GlueTask", "read_all"]  # The public ones.
_SOURCE = "https://dl.fbaipublicfiles.com"  # From where TensorFlow Datasets download GLUE.
_ANSWER_S = 10  # Seconds in which it must answer.
_BY_HAND = "Download the official files and pass their folder as `data_dir`"
_LOG = logging.getLogger("keras_bert")
# Id columns of MRPC, and coarse categories of the diagnostic set.
_INDEX = ("index", "id")
_PAIR_IDS = ("#1 ID", "#2 ID")
_COARSE = ("Lexical Semantics", "Predicate-Argument Structure", "Logic", "Knowledge")
# The best on dev is selected (Devlin et al., 2019, section 4.1).
LEARNING_RATES = (5e-5, 4e-5, 3e-5, 2e-5)


@dataclasses.dataclass(frozen=True)
class GlueTask(TaskSpec):
    """A GLUE task as defined by the server; `title` is also the name of the official folder.

    `tfds` and `tfds_columns` are the name and the text columns in TensorFlow Datasets, if different.
    """

    strings: tuple  # The labels in the official files; empty for regression.
    test_rows: int  # Number of rows of the test file.
    server_file: str  # Name of the submission file.
    majority: float  # The most frequent class id of the training data, or the mean for regression.
    header: tuple | None = None  # Columns of train and dev, if the files have no header.
    suffix: str = ""  # Of the names of the dev and test files.
    tfds: str | None = None
    tfds_columns: tuple | None = None
    learning_rates: tuple = dataclasses.field(default=LEARNING_RATES, kw_only=True)

    official = True

    @property
    def files(self):
        """The possible file names of each split, most common first."""
        if self.name == "ax":
            return {"test": ("diagnostic.tsv", "AX.tsv")}
        return {
            "train": ("train.tsv",),
            "dev": (f"dev{self.suffix}.tsv",),
            "test": (f"test{self.suffix}.tsv",),
        }


_01 = ("0", "1")
_TWO_WAY = ("entailment", "not_entailment")
_THREE_WAY = ("entailment", "neutral", "contradiction")
_MNLI = GlueTask(
    name="mnli",
    title="MNLI",
    text="sentence1",
    pair="sentence2",
    label="gold_label",
    labels=_THREE_WAY,
    metrics=(accuracy,),
    strings=_THREE_WAY,
    test_rows=9796,
    server_file="MNLI-m.tsv",
    majority=2,
    suffix="_matched",
    tfds="mnli",
    tfds_columns=("premise", "hypothesis"),
)
_TASKS = (
    GlueTask(
        name="cola",
        title="CoLA",
        text="sentence",
        pair=None,
        label="label",
        labels=("unacceptable", "acceptable"),
        metrics=(matthews_correlation,),
        strings=_01,
        test_rows=1063,
        server_file="CoLA.tsv",
        majority=1,
        header=("source", "label", "star", "sentence"),
    ),
    GlueTask(
        name="sst2",
        title="SST-2",
        text="sentence",
        pair=None,
        label="label",
        labels=("negative", "positive"),
        metrics=(accuracy,),
        strings=_01,
        test_rows=1821,
        server_file="SST-2.tsv",
        majority=1,
    ),
    GlueTask(
        name="mrpc",
        title="MRPC",
        text="#1 String",
        pair="#2 String",
        label="Quality",
        labels=("not_equivalent", "equivalent"),
        metrics=(f1, accuracy),
        strings=_01,
        test_rows=1725,
        server_file="MRPC.tsv",
        majority=1,
        tfds_columns=("sentence1", "sentence2"),
    ),
    GlueTask(
        name="stsb",
        title="STS-B",
        text="sentence1",
        pair="sentence2",
        label="score",
        labels=(),
        metrics=(spearman, pearson),
        strings=(),
        test_rows=1379,
        server_file="STS-B.tsv",
        majority=2.701,
    ),
    GlueTask(
        name="qqp",
        title="QQP",
        text="question1",
        pair="question2",
        label="is_duplicate",
        labels=("not_duplicate", "duplicate"),
        metrics=(f1, accuracy),
        strings=_01,
        test_rows=390965,
        server_file="QQP.tsv",
        majority=0,
    ),
    _MNLI,
    # Other genres for the same model: only dev and test differ.
    dataclasses.replace(
        _MNLI,
        name="mnli_mismatched",
        suffix="_mismatched",
        test_rows=9847,
        server_file="MNLI-mm.tsv",
    ),
    GlueTask(
        name="qnli",
        title="QNLI",
        text="question",
        pair="sentence",
        label="label",
        labels=_TWO_WAY,
        metrics=(accuracy,),
        strings=_TWO_WAY,
        test_rows=5463,
        server_file="QNLI.tsv",
        majority=1,
    ),
    GlueTask(
        name="rte",
        title="RTE",
        text="sentence1",
        pair="sentence2",
        label="label",
        labels=_TWO_WAY,
        metrics=(accuracy,),
        strings=_TWO_WAY,
        test_rows=3000,
        server_file="RTE.tsv",
        majority=0,
    ),
    GlueTask(
        name="wnli",
        title="WNLI",
        text="sentence1",
        pair="sentence2",
        label="label",
        labels=("not_entailment", "entailment"),
        metrics=(accuracy,),
        strings=_01,
        test_rows=146,
        server_file="WNLI.tsv",
        majority=0,
    ),
    # The diagnostic set tests models trained on MNLI, so it has MNLI's majority class.
    dataclasses.replace(
        _MNLI,
        name="ax",
        title="diagnostic",
        metrics=(matthews_correlation,),
        test_rows=1104,
        server_file="AX.tsv",
        suffix="",
        tfds="ax",
    ),
)
TASKS = {task.name: task for task in _TASKS}


def read_all(task, data_dir=None, *, skip_bad_rows=0, diagnostics=None):
    """Reads the data of a GLUE task. MNLI includes the mismatched genres and the diagnostics.

    Args:
        task: a `GlueTask`, one of `TASKS`.
        data_dir: path of the folder of the official files, of which missing test files are logged. Defaults to those of
            TensorFlow Datasets.
        skip_bad_rows: int, the most rows with a wrong number of columns to skip per file. Defaults to 0.
        diagnostics: path of `diagnostic-full.tsv`, an additional dev set of MNLI. Defaults to `None`.

    Returns:
        Data for a `ClassificationTask`, with `train`, and dicts `dev` and `test` by name of the data set.

    Example:
        data = read_all(TASKS["mrpc"], "glue_data")
    """
    reader = _TaskReader(task, data_dir, skip_bad_rows)
    train = reader.read_split(task, "train")
    dev = reader.read_splits("dev")
    test = reader.read_splits("test")
    categories = None
    if diagnostics is not None and task.name == "mnli":
        dev["ax"], categories = read_diagnostics(diagnostics)
    return TextData(task, train, dev, test, categories)


@dataclasses.dataclass(frozen=True)
class _TaskReader:
    """Reads the splits of a task of GLUE, and those of other tasks that are for its model, see `read_all`."""

    task: GlueTask
    data_dir: str | os.PathLike | None
    skip_bad_rows: int

    @property
    def tasks(self):
        """The task, and those with other dev or test data for its model."""
        if self.task.name == "mnli":
            return [self.task, TASKS["mnli_mismatched"], TASKS["ax"]]
        return [self.task]

    def read_splits(self, split):
        """Returns the `TextExamples` of a split of all tasks that have it, by the name of the task."""
        examples_by_task = {}
        for task in self.tasks:
            if split in task.files:
                examples = self.read_split(task, split)
                if examples is not None:
                    examples_by_task[task.name] = examples
        return examples_by_task

    def read_split(self, task, split):
        """Returns the `TextExamples` of a split of one of the tasks; `None` if the file is missing and may be."""
        if self.data_dir is None:
            return read_tfds(task, split)
        is_optional = task.name != self.task.name or split == "test"
        if is_optional:
            path, _ = _locate(task, self.data_dir, split)
            if path is None:
                _LOG.warning("%s has no %s file for %s, so this split is skipped", self.data_dir, split, task.name)
                return None
        return read(task, self.data_dir, split, self.skip_bad_rows)


def read(task, data_dir, split, skip_bad_rows=0):
    """Reads `TextExamples` of a split, "train", "dev" or "test", from the official files; those of test have no labels.

    MRPC's files may also be `msr_paraphrase_train.txt` and `msr_paraphrase_test.txt`, with `dev_ids.tsv` or `dev.tsv`.
    `data_dir` is the folder of the task's files, or the parent folder of all tasks; the diagnostic set only has "test".
    The ids are the index column of the file (the server's index for test), or else the row numbers.
    """
    path, keep = _locate(task, data_dir, split)
    if path is None:
        folder = pathlib.Path(data_dir)
        name = task.files[split][0]
        raise ValueError(
            f"`data_dir` has no {name} of {task.name}: neither {folder / task.title / name} nor {folder / name}. "
            "Expected the folder of the official files from https://gluebenchmark.com/tasks"
        )
    is_labeled = split != "test"
    wanted = [task.text]
    if task.pair:
        wanted.append(task.pair)
    if is_labeled:
        wanted.append(task.label)
    if keep is not None:
        wanted += _PAIR_IDS
    header = task.header if is_labeled else None
    rows = _read_rows(path, wanted, header, skip_bad_rows)
    if keep is not None:
        rows = [row for row in rows if keep(_pair_ids(row.cells))]
        if not rows:
            raise ValueError(f"{path}: no {split} rows. The ids of the dev rows belong to other data")
    return _examples(task, path, rows, is_labeled)


def read_diagnostics(path):
    """Reads `diagnostic-full.tsv`, the diagnostic set with labels.

    Returns `TextExamples`, and the coarse and fine linguistic categories of each row, such as
    `("Logic", "Logic: Negation")`.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Expected the file diagnostic-full.tsv of the GLUE diagnostics")
    if not path.is_file():
        raise ValueError(f"{path}: no such file. Expected diagnostic-full.tsv of the GLUE diagnostics")
    rows = _read_rows(path, [*_COARSE, "Premise", "Hypothesis", "Label"])
    task = dataclasses.replace(TASKS["ax"], text="Premise", pair="Hypothesis", label="Label")
    examples = _examples(task, path, rows, is_labeled=True)
    return examples, [_categories(row.cells) for row in rows]


def _categories(cells):
    """Returns the coarse and fine categories of a row, a tuple without duplicates."""
    names = []
    for coarse in _COARSE:
        if cells[coarse].strip():
            names.append(coarse)
            for fine in cells[coarse].split(";"):
                names.append(f"{coarse}: {fine.strip()}")
    return tuple(dict.fromkeys(names))


def _locate(task, data_dir, split):
    """Returns the file of a split or `None`, and a filter for its rows or `None`."""
    _check_split(task, split)
    path = _find(task, data_dir, task.files[split])
    if path is None and task.name == "mrpc":
        return _find_paraphrase_corpus(task, data_dir, split)
    return path, None


def _check_split(task, split):
    if split not in task.files:
        raise ValueError(f"`split` of {task.name} must be one of {', '.join(task.files)}. Received: split={split!r}")


def _find(task, data_dir, names):
    """Returns the first file with one of the names, in the folder of the task or its parent; `None` without any."""
    folder = pathlib.Path(data_dir)
    for name in names:
        for path in (folder / task.title / name, folder / name):
            if path.is_file():
                return path
    return None


def _find_paraphrase_corpus(task, data_dir, split):
    """Returns the file of the original corpus, and a filter for its rows by id."""
    name = "msr_paraphrase_test.txt" if split == "test" else "msr_paraphrase_train.txt"
    path = _find(task, data_dir, [name])
    if path is None or split == "test":
        return path, None
    ids = _find(task, data_dir, ["dev_ids.tsv"])
    dev = _find(task, data_dir, ["dev.tsv"])
    if ids is not None:
        of_dev = {tuple(fields) for _, fields in split_tabs(ids)}
    elif dev is not None:
        of_dev = {_pair_ids(row.cells) for row in _read_rows(dev, _PAIR_IDS)}
    else:
        raise ValueError(
            f"{path}: contains train and dev rows together. "
            "Add GLUE's dev_ids.tsv, with the two ids of each dev row, or dev.tsv to its folder"
        )
    if split == "dev":
        return path, lambda pair: pair in of_dev
    return path, lambda pair: pair not in of_dev


def _pair_ids(cells):
    return tuple(cells[column] for column in _PAIR_IDS)


class _Row(NamedTuple):
    """A row of an official file: the number of its line, that of the row from 0, and its cells by column."""

    line: int
    number: int
    cells: dict


def _read_rows(path, wanted, header=None, skip_bad_rows=0):
    """Returns the `_Row`s of a file with the wanted columns; `header` has the names of its columns if it has none."""
    lines = [(number, fields) for number, fields in split_tabs(path) if not is_blank(fields)]
    if header is None and lines:
        (_, header), *lines = lines

    def parse(place, fields):
        while len(fields) > len(header) and not fields[-1]:
            fields.pop()  # Ignore tabs at the end of a line.
        return table_row(place, header, fields)

    rows = converted(Table(path), lines, parse, skip_bad_rows)
    index_columns = [name for name in _INDEX if name in header]
    check_columns(f"{path}:1", header, [*wanted, *index_columns])
    return [_Row(*row) for row in rows]


def _examples(task, path, rows, is_labeled):
    """Returns the `TextExamples` of rows of a file."""
    pair = None
    if task.pair:
        pair = [row.cells[task.pair] for row in rows]
    return TextExamples(
        text=[row.cells[task.text] for row in rows],
        pair=pair,
        labels=_labels(task, path, rows) if is_labeled else None,
        ids=_ids(path, rows),
    )


def _ids(path, rows):
    """Returns the ids of rows: their index if the file has a column for it, or else their numbers."""
    index = next((name for name in _INDEX if name in rows[0].cells), None)
    if index is None:
        return [row.number for row in rows]
    ids = []
    for row in rows:
        value = row.cells[index]
        if not value.isdecimal():
            raise ValueError(f"{path}:{row.line}: the index must be a whole number. Received: {value!r}")
        ids.append(int(value))
    return ids


def _labels(task, path, rows):
    """Returns the class ids of rows, or their numbers for regression."""
    numbers = {string: number for number, string in enumerate(task.strings)}
    labels = []
    for row in rows:
        place = f"{path}:{row.line}"
        value = row.cells[task.label]
        if task.num_classes == 1:
            labels.append(finite_number(place, task.label, value))
        else:
            labels.append(class_ids(place, value, numbers))
    return labels


def check_available(task):
    """Raises an error if TensorFlow Datasets have no files of a task on this machine and no network to get them.

    Needs no TensorFlow, so that a command without `data_dir` ends at once.
    """
    folder = os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    name = _tfds_name(task)
    if "://" in folder:
        return
    if any(pathlib.Path(folder).expanduser().glob(f"{name}/*/dataset_info.json")):
        return
    try:
        _check_network()
    except OSError as error:
        raise ValueError(
            f"{name} is not on this machine, and {_SOURCE}, from where it is downloaded, does not answer: "
            f"{getattr(error, 'reason', error)}. {_BY_HAND}"
        ) from None


def _tfds_name(task):
    return f"glue/{task.tfds or task.name}"


def _check_network():
    """Raises an `OSError` if the server of the data does not answer in time."""
    errors = []

    def ask():
        try:
            urllib.request.urlopen(_SOURCE, timeout=_ANSWER_S).close()
        except urllib.error.HTTPError:  # The server is there.
            errors.append(None)
        except OSError as error:
            errors.append(error)
        else:
            errors.append(None)

    # The time-out does not hold for the look-up of the name, nor for all addresses together.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_ANSWER_S)
    error = errors[0] if errors else TimeoutError(f"no answer in {_ANSWER_S} seconds")
    if error is not None:
        raise error


def read_tfds(task, split):
    """Reads a split from TensorFlow Datasets, in the official order."""
    _check_split(task, split)
    name = _tfds_name(task)
    splits = {"train": "train", "dev": f"validation{task.suffix}", "test": f"test{task.suffix}"}
    try:
        import tensorflow_datasets as tfds

        # Without a network, it would try for minutes and print a hundred lines.
        if not tfds.builder(name).is_prepared():
            _check_network()
        dataset, info = tfds.load(name, split=splits[split], with_info=True)
        rows = sorted(tfds.as_numpy(dataset), key=lambda row: row["idx"])
    # TensorFlow Datasets raises errors of its own, of network libraries and of TensorFlow.
    except Exception as error:
        raise ValueError(
            f"{name} could not be loaded from TensorFlow Datasets, {_SOURCE}: {error}. {_BY_HAND}"
        ) from error
    if task.labels and info.features["label"].names != list(task.labels):
        raise ValueError(f"{name} numbers its labels differently: {info.features['label'].names}")
    text_column, pair_column = task.tfds_columns or (task.text, task.pair)
    pair = None
    if pair_column:
        pair = [row[pair_column].decode("utf-8") for row in rows]
    labels = None
    if split != "test":
        number = int if task.labels else float
        labels = [number(row["label"]) for row in rows]
    return TextExamples(
        text=[row[text_column].decode("utf-8") for row in rows],
        pair=pair,
        labels=labels,
        ids=[int(row["idx"]) for row in rows],
    )


def score_diagnostics(labels, logits, categories):
    """Returns the Matthews correlation on the whole diagnostic set, as "all", and on each linguistic category."""
    predictions = np.array(predict(TASKS["ax"], logits))
    targets = np.asarray(labels)
    rows_by_category = {}
    for row, names in enumerate(categories):
        for name in ("all", *names):
            rows_by_category.setdefault(name, []).append(row)
    scores = {}
    for name in sorted(rows_by_category, key=lambda name: (name != "all", name)):
        rows = rows_by_category[name]
        scores[name] = matthews_correlation(targets[rows], predictions[rows])
    return scores

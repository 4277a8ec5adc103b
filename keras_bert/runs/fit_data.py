"""The data of `LoadedBert.fit` and `evaluate`: texts and targets of Python as the rows of a task."""

import dataclasses
from typing import Any

from keras_bert.checks import is_ours
from keras_bert.data import in_memory
from keras_bert.data.sources import PythonRows
from keras_bert.data.splits import group_values, split_numbers
from keras_bert.heads.registry import head_named
from keras_bert.runs.task_choice import infer, infer_rows
from keras_bert.tasks import registry


@dataclasses.dataclass(frozen=True)
class FitData:
    """Texts and targets of `LoadedBert.fit`."""

    task: type  # One of `TASKS`.
    train: PythonRows
    dev: PythonRows  # That of `train` without validation.
    facts: dict  # What to tell about the texts.
    columns: dict = dataclasses.field(default_factory=dict)  # `columns` of the metadata, if the rows have none of them.

    @property
    def held_out(self):
        """Whether the rows of dev are others than those to train on."""
        return self.dev is not self.train


@dataclasses.dataclass(frozen=True)
class _Validation:
    """The rows of validation: they are given, or a share of the rows is drawn, or there are none."""

    data: Any
    share: float | None
    seed: int


def read_data(texts, targets, task, validation, split, seed):
    """Returns the `FitData` of the arguments of `LoadedBert.fit`; `seed` draws the rows of validation."""
    if validation is not None and split is not None:
        raise ValueError("`validation` and `validation_split` exclude each other. Received: both")
    held_out = _Validation(validation, split, seed)
    texts = in_memory.listed(texts)
    rows = data_set_rows(texts, targets)
    if rows is not None:
        return _data_of_rows(rows, targets, task, held_out)
    return _data_of_texts(texts, targets, task, held_out)


def read_intermediate(data):
    """Returns the `FitData` to train on before: of a tuple of texts and targets, of a list of them, or of `None`."""
    if data is None:
        return []
    if not isinstance(data, tuple | list):
        expected = "a tuple of texts and targets, or a list of such tuples"
        raise ValueError(f"`intermediate` must be {expected}. Received: {type(data).__name__}")
    is_single = isinstance(data, tuple) and len(data) > 0
    stages = [data] if is_single else list(data)
    read = []
    for number, stage in enumerate(stages):
        if not isinstance(stage, tuple) or len(stage) != 2:
            raise ValueError(
                f"`intermediate[{number}]` must be a tuple of texts and targets. Received: {type(stage).__name__}"
            )
        texts, targets = stage
        read.append(read_data(texts, targets, task=None, validation=None, split=None, seed=1))
    return read


# Rows of a data set.


def data_set_rows(texts, targets):
    """Returns the rows of a data set, in the columns of any task; `None` for other data."""
    if in_memory.is_frame(texts) and len(texts) and _is_of_own_task(texts):
        return in_memory.frame_dicts(texts)
    columns = []
    with_targets = []
    for task in registry.TASKS:
        columns.extend(task.rows.columns)
        for target in task.rows.target_columns:
            with_targets.extend({*names, target} for names in task.rows.columns)
    return in_memory.data_set_rows(texts, targets, columns, with_targets)


def _is_of_own_task(frame):
    """Whether a data frame has the columns of a user's task, whatever else they are called."""
    names = set(map(str, frame.columns))
    own_columns = []
    for task in registry.TASKS:
        if not is_ours(task):
            own_columns.extend(task.rows.columns)
    return any(known <= names for known in own_columns)


def with_targets(task, place, rows, targets):
    """Returns the rows of a data set, dicts by column, with their targets where the task reads them.

    `targets` are a list, the name of a column, or `None` for those that the task finds.
    """
    if targets is None:
        return rows
    if isinstance(targets, str):
        return [task.rows.with_named_target(row, targets) for row in rows]
    return task_rows(task, place, rows, in_memory.targets_of(rows, targets, place))


def _data_of_rows(rows, targets, task_name, held_out):
    """Returns the `FitData` of rows of a data set, which the task reads as those of a file."""
    task = registry.task_named(task_name) if task_name else infer_rows(rows, targets)
    train_rows = with_targets(task, "texts", rows, targets)
    dev_rows = None
    if held_out.data is not None:
        dev_rows = _validation_rows(task, held_out.data, targets)
    elif held_out.share is not None:
        train, dev = split_numbers(len(train_rows), held_out.share, held_out.seed)
        dev_rows = [train_rows[number] for number in dev]
        train_rows = [train_rows[number] for number in train]
    return _fit_data(task, train_rows, dev_rows, facts={}, columns={})


def _validation_rows(task, validation, targets):
    """Returns the rows of validation, a data set like `texts`, or a tuple of one and its targets."""
    if isinstance(validation, tuple) and len(validation) == 2:
        texts, dev_targets = validation
    else:
        texts = validation
        dev_targets = targets if isinstance(targets, str) else None
    rows = data_set_rows(in_memory.listed(texts), dev_targets)
    lacks_targets = dev_targets is None and targets is not None
    if rows is None or lacks_targets:
        received = type(validation).__name__
        raise ValueError(f"`validation` must have rows with targets, like `texts`. Received: {received}")
    # A list of its own: the rows are held out, even if they are those to train on.
    return list(with_targets(task, "validation", rows, dev_targets))


# Texts and targets.


def task_rows(task, place, texts, targets):
    """Returns texts and targets as the rows of a task; messages call them `place`."""
    if targets is None:
        targets = [None] * len(texts)
    rows = []
    for number, (text, target) in enumerate(zip(texts, targets, strict=True)):
        rows.append(task.rows.row(f"{place}[{number}]", text, target))
    return rows


@dataclasses.dataclass(frozen=True)
class _TextExamples:
    """Texts, and their targets if there are any."""

    texts: list
    targets: list | None

    def selected(self, numbers):
        """Returns the examples of some rows."""
        targets = None
        if self.targets is not None:
            targets = [self.targets[number] for number in numbers]
        return _TextExamples([self.texts[number] for number in numbers], targets)


def _data_of_texts(texts, targets, task_name, held_out):
    """Returns the `FitData` of texts and targets, of which the task makes rows."""
    train = _TextExamples(*in_memory.read(texts, targets))
    are_pairs = in_memory.is_frame(texts) and isinstance(train.texts[0], tuple)
    if are_pairs and task_name is None and targets is None:
        raise ValueError(
            "`texts` is a data frame of two columns without targets. Expected the name of the column of the targets, "
            f"fit(frame, {texts.columns[-1]!r}), or task='embedding' for a sentence encoder of pairs"
        )
    task = registry.task_named(task_name) if task_name else infer(train.texts, train.targets)
    target_column = targets if isinstance(targets, str | int) else None  # Of data frames.
    dev = None
    if held_out.data is not None:
        dev = _validation_examples(held_out.data, texts, target_column, train)
    elif held_out.share is not None:
        train_numbers, dev_numbers = split_numbers(len(train.texts), held_out.share, held_out.seed)
        dev = train.selected(dev_numbers)
        train = train.selected(train_numbers)
    facts = {}
    if are_pairs:
        first, second = in_memory.text_columns(texts, target_column)
        facts["texts"] = f"pairs of the columns {first!r} and {second!r}"
    train_rows = task_rows(task, "texts", train.texts, train.targets)
    dev_rows = None
    if dev is not None:
        dev_rows = task_rows(task, "validation", dev.texts, dev.targets)
    columns = _frame_columns(task, texts, target_column, train.texts[0])
    return _fit_data(task, train_rows, dev_rows, facts=facts, columns={"columns": columns})


def _fit_data(task, train_rows, dev_rows, facts, columns):
    """Returns the `FitData` of rows to train on and of rows of validation, `None` without them."""
    train = PythonRows("texts", train_rows)
    dev = train
    if dev_rows is not None:
        dev = PythonRows("validation", dev_rows)
    return FitData(task, train, dev, facts=facts, columns=columns)


def _validation_examples(validation, texts, target_column, train):
    """Returns the texts of validation and their targets, given the texts to train on and what was read of them."""
    given = validation if isinstance(validation, tuple) else (validation, target_column)
    if len(given) > 2:
        raise ValueError(f"`validation` must be a tuple of texts and targets. Received: {len(given)} parts")
    dev_texts, *dev_targets = given
    if in_memory.is_frame(texts) and in_memory.is_frame(dev_texts):
        dev_texts = _with_columns_of(dev_texts, texts)
    dev = _TextExamples(*in_memory.read(dev_texts, *dev_targets, place="validation"))
    if dev.targets is None and train.targets is not None:
        raise ValueError(
            f"`validation` must be a tuple of texts and targets. Received: only texts, as {type(validation).__name__}"
        )
    return dev


def _with_columns_of(frame, train):
    """Returns a data frame of validation with the columns of the one to train on, in the same order."""
    names = list(train.columns)
    if any(name not in frame.columns for name in names):
        raise ValueError(
            f"`validation` must have the columns of `texts`, {', '.join(map(repr, names))}. Received: "
            f"{', '.join(map(repr, frame.columns))}"
        )
    return frame[names]


def _frame_columns(task, texts, target_column, first_text):
    """Returns the columns of the texts of a data frame by input; `None` for other data."""
    if not in_memory.is_frame(texts):
        return None
    names = list(map(str, in_memory.text_columns(texts, target_column)))
    if isinstance(first_text, str) and len(names) == 1:
        return {"text": names[0]}
    is_pair = isinstance(first_text, tuple) and len(names) == 2
    if is_pair and head_named(task.head).takes_pair:
        return {"text": names[0], "pair": names[1]}
    return None


# Groups of a cross-validation.


def without_groups(texts, groups, targets=None):
    """Returns the texts, and the groups as a list of values of JSON or `None`; groups may be a column of the texts.

    The column stays in the texts if it has a usual name of texts, or if it is the only one but that of the targets.
    """
    if groups is None:
        return texts, None
    if not isinstance(groups, str):
        return texts, group_values(groups)
    texts = in_memory.listed(texts)
    names = in_memory.column_names(texts)
    if groups not in names:
        raise ValueError(f"`groups` must be a column of `texts`, or a list. Received: groups={groups!r}")
    values = group_values(in_memory.column(texts, groups))
    text_names, target_names = _known_columns()
    if isinstance(targets, str):
        target_names = {targets}
    elif targets is not None:
        target_names = set()
    is_text_or_target = groups in text_names | target_names
    others = set(names) - {groups} - target_names
    if is_text_or_target or not others:
        return texts, values
    return in_memory.without_column(texts, groups), values


def _known_columns():
    """Returns the usual names of columns of texts, and those of targets, of all tasks."""
    text_names = set(in_memory.TEXTS)
    target_names = set()
    for task in registry.TASKS:
        text_names.update(*task.rows.columns)
        target_names.update(task.rows.target_columns)
    return text_names - target_names, target_names

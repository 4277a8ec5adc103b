"""The data of `LoadedBert.fit`: texts and targets to train on, and those of validation."""

import dataclasses

import numpy as np

from keras_bert.data.sources import Memory
from keras_bert.tasks import in_memory, registry


@dataclasses.dataclass(frozen=True)
class FitData:
    """Texts and targets of `LoadedBert.fit`."""

    task: type  # One of `TASKS`.
    train: Memory
    dev: Memory  # That of `train` without validation.
    facts: dict  # What to tell about the texts.

    @property
    def held_out(self):
        """Whether the rows of dev are others than those to train on."""
        return self.dev is not self.train


def rows(task, place, texts, targets):
    """Returns texts and targets as the rows of a task; messages call them `place`."""
    targets = [None] * len(texts) if targets is None else targets
    pairs = enumerate(zip(texts, targets, strict=True))
    return [task.row(f"{place}[{number}]", *pair) for number, pair in pairs]


def read(texts, targets, task, validation, split, seed):
    """Returns the `FitData` of the arguments of `LoadedBert.fit`; `seed` draws the rows of validation."""
    if validation is not None and split is not None:
        raise ValueError("`validation` and `validation_split` exclude each other. Received: both")
    texts = in_memory.listed(texts)
    if (found := in_memory.rows_of(texts, targets)) is not None:
        return _of_rows(found, targets, task, validation, split, seed)
    column = targets if isinstance(targets, str | int) else None  # Of data frames.
    train = in_memory.read(texts, targets)
    if task is None and targets is None and in_memory.is_frame(texts) and isinstance(train[0][0], tuple):
        raise ValueError(
            "`texts` is a data frame of two columns without targets. Expected the name of the column of the targets, "
            f"fit(frame, {texts.columns[-1]!r}), or task='embedding' for a sentence encoder of pairs"
        )
    task = registry.task_named(task) if task else registry.infer(*train)
    dev = train
    if validation is not None:
        parts = validation if isinstance(validation, tuple) else (validation, column)
        if len(parts) > 2:
            raise ValueError(f"`validation` must be a tuple of texts and targets. Received: {len(parts)} parts")
        if in_memory.is_frame(texts) and in_memory.is_frame(parts[0]):
            parts = (_like(parts[0], texts), *parts[1:])
        dev = in_memory.read(*parts, place="validation")
        if dev[1] is None and train[1] is not None:
            raise ValueError(
                "`validation` must be a tuple of texts and targets. Received: only texts, as "
                f"{type(validation).__name__}"
            )
    elif split is not None:
        train, dev = _split(*train, split, seed)
    are_pairs = in_memory.is_frame(texts) and isinstance(train[0][0], tuple)
    names = [repr(name) for name in texts.columns if name != column] if are_pairs else []
    facts = {"texts": f"pairs of the columns {' and '.join(names)}"} if are_pairs else {}
    source = Memory("texts", rows(task, "texts", *train))
    return FitData(
        task, source, source if dev is train else Memory("validation", rows(task, "validation", *dev)), facts
    )


def _of_rows(rows, column, task, validation, split, seed):
    """Returns the `FitData` of rows of a data set, which the task reads as those of a file."""
    task = registry.task_named(task) if task else registry.infer_rows(rows)
    train = dev = rows
    if validation is not None:
        dev = in_memory.rows_of(in_memory.listed(validation), column)
        if dev is None:
            kind = type(validation).__name__
            raise ValueError(f"`validation` must have rows with targets, like `texts`. Received: {kind}")
    elif split is not None:
        (train, _), (dev, _) = _split(rows, None, split, seed)
    source = Memory("texts", train)
    return FitData(task, source, source if dev is train else Memory("validation", dev), {})


def _like(frame, train):
    """Returns a data frame of validation with the columns of the one to train on, in the same order."""
    names = list(train.columns)
    if [name for name in names if name not in frame.columns]:
        raise ValueError(
            f"`validation` must have the columns of `texts`, {', '.join(map(repr, names))}. Received: "
            f"{', '.join(map(repr, frame.columns))}"
        )
    return frame[names]


def _split(rows, targets, share, seed):
    """Returns the texts and targets to train on, and those of a share of the rows, drawn at random."""
    count = round(share * len(rows)) if isinstance(share, float) and 0 < share < 1 else 0
    if not 0 < count < len(rows):
        raise ValueError(
            f"`validation_split` must be a share of the rows, such as 0.1. Received: {share!r} of {len(rows)} rows"
        )
    order = np.random.default_rng(seed).permutation(len(rows))
    numbers = sorted(order[count:].tolist()), sorted(order[:count].tolist())
    return [([rows[n] for n in part], None if targets is None else [targets[n] for n in part]) for part in numbers]

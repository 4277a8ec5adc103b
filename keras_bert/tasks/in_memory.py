"""Data given in Python: lists, arrays, Series, data frames, and datasets of strings.

They are written as the files that the tasks read, so that Python and the commands have the same rules and errors.
"""

import json
import math

import numpy as np

from keras_bert.tasks.class_names import as_list

TASKS = {
    "classification": "texts or pairs with classes",
    "regression": "texts or pairs with floats",
    "multi_label": "texts or pairs with lists of labels",
    "tagging": "lists of words with tags, or texts with spans (start, end, label)",
    "questions": "dicts with question and context, with answers",
    "multiple_choice": "dicts with text and choices, with the index of the right choice",
    "embedding": "pairs of query and passage, alone or with scores",
}
_TARGETS = {"label", "labels", "target", "targets", "class", "score", "tags"}  # Columns of forgotten targets.
_DICTS = {"question": "questions", "choices": "multiple_choice"}


def read(texts, targets=None, place="texts"):
    """Returns the texts as a list, and the targets as a list or `None`.

    Args:
        texts: a list, an array, a Series, a data frame or a `tf.data.Dataset`. The columns of a frame are those of a
            pair, or the keys of dicts; a dataset has texts, or tuples of texts and targets.
        targets: the same, or the name of a column of the frame. Several columns of 0 and 1, of a frame or an array, are
            labels.
        place: string, what messages call the texts.
    """
    if isinstance(texts, tuple) and len(texts) == 2 and all(map(_is_column, texts)):
        raise ValueError(f"`{place}` is a tuple of two lists. Expected a list of pairs: list(zip(first, second))")
    if hasattr(texts, "as_numpy_iterator"):
        texts, own = _from_dataset(texts, place)
        if own is not None and targets is not None:
            raise ValueError(f"`{place}` has targets, which are its second elements. Expected no others")
        targets = own if targets is None else targets
    if getattr(targets, "shape", None) == () and hasattr(targets, "item"):  # A name from NumPy.
        targets = targets.item()
    if isinstance(targets, str | int):
        if not is_frame(texts) or targets not in texts.columns:
            columns = f"a data frame with the columns {', '.join(map(repr, texts.columns))}" if is_frame(texts) else ""
            raise ValueError(
                f"targets must be a list, or the name of a column of `{place}`, a data frame. Received: {targets!r} "
                f"for {columns or type(texts).__name__}"
            )
        names = [name for name in texts.columns if name != targets]
        texts, targets = texts[names], texts[targets]
    if targets is None and is_frame(texts) and (named := _TARGETS & set(map(str, texts.columns))):
        name, others = sorted(named)[0], [name for name in texts.columns if str(name) not in named]
        raise ValueError(
            f"`{place}` has a column {name!r}. Name the column of the targets, fit(frame, {name!r}), or leave it out, "
            f"predict(frame[{others!r:.100}])"
        )
    if isinstance(texts, str | bytes | dict) or not hasattr(texts, "__iter__"):
        raise ValueError(f"`{place}` must be a list, an array, a data frame or a dataset. Received: {texts!r:.100}")
    rows = _frame_rows(texts) if is_frame(texts) else list(map(_plain, as_list(texts)))
    if getattr(texts, "ndim", 1) == 2 and not is_frame(texts):  # An array of pairs; lists of strings are words.
        rows = [tuple(row) for row in rows]
    if not rows:
        raise ValueError(f"`{place}` is empty. Expected at least one text")
    if targets is None:
        return rows, None
    targets = _targets(targets)
    if len(targets) != len(rows):
        raise ValueError(f"`{place}` has {len(rows):,} rows, but there are {len(targets):,} targets. Expected the same")
    if not isinstance(rows[0], dict):
        _check_labels(targets)
    return rows, targets


def _is_column(values):
    return not isinstance(values, str) and any(hasattr(values, name) for name in ("append", "tolist", "to_list"))


def is_frame(values):
    """Whether values are a data frame of pandas, polars or a similar package."""
    return hasattr(values, "columns") and hasattr(values, "__getitem__")


def _frame_rows(frame):
    names = list(frame.columns)
    columns = [list(map(_plain, as_list(frame[name]))) for name in names]
    if len(names) == 1:
        return columns[0]
    if len(names) == 2 and not set(_DICTS) & set(names):
        for name, column in zip(names, columns, strict=True):
            if isinstance(column[0] if column else None, int | float):
                raise ValueError(
                    f"a data frame of pairs must have two columns of texts. Received: {name!r} with values such as "
                    f"{column[0]!r}. Choose columns, such as frame[['text', 'label']], and name that of the targets"
                )
        return list(zip(*columns, strict=True))
    if set(_DICTS) & set(names) or not all(isinstance(name, str) for name in names):
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    raise ValueError(
        f"a data frame of texts must have one column of texts, two of pairs, or `question` and `context`, or `text` "
        f"and `choices`. Received: {', '.join(map(repr, names))}. Choose columns, such as frame[['text', 'label']]"
    )


def _targets(values):
    """Returns targets as a list; of several columns of 0 and 1 the names of those that are 1."""
    if is_frame(values):
        names, columns = list(map(str, values.columns)), [values[name] for name in values.columns]
    elif getattr(values, "ndim", 1) == 2 and getattr(values.dtype, "kind", "O") in "biu":  # One-hot vectors are floats.
        names, columns = list(map(str, range(values.shape[1]))), list(values.T)
    else:
        return list(map(_plain, as_list(values)))
    columns = [list(map(_plain, as_list(column))) for column in columns]
    if len(columns) == 1:
        return columns[0]
    for name, column in zip(names, columns, strict=True):
        for place, flag in enumerate(column):
            if flag not in (0, 1):
                expected = f"the column {name!r} of labels must be 0 and 1, or true and false"
                raise ValueError(f"targets[{place}]: {expected}. Received: {flag!r}")
    return [[name for name, flag in zip(names, row, strict=True) if flag] for row in zip(*columns, strict=True)]


def _from_dataset(dataset, place):
    """Returns the texts and targets of a dataset, whose elements may be batches."""
    if dataset.cardinality() == -1:  # `tf.data.INFINITE_CARDINALITY`.
        raise ValueError(f"`{place}` is a dataset without an end")
    rows, targets = [], []
    for element in dataset.as_numpy_iterator():
        texts, *rest = element if isinstance(element, tuple) else (element,)
        if len(rest) > 1 or isinstance(texts, dict):
            raise ValueError(
                f"`{place}`: a dataset must have texts, or tuples of texts and targets. Received: {element!r:.100}"
            )
        several = isinstance(texts, tuple)
        parts = texts if several else (texts,)
        batched = any(getattr(part, "ndim", 0) for part in parts)
        parts = [as_list(part) if getattr(part, "ndim", 0) else [part] for part in parts]
        parts = [list(map(_plain, part)) for part in parts]
        rows += zip(*parts, strict=True) if several else parts[0]
        if rest:
            targets += _targets(rest[0] if batched else np.expand_dims(rest[0], 0))
    return rows, targets or None


def _plain(value):
    """Returns a value with the types of JSON: NumPy's scalars and arrays, bytes, and missing values become those."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if type(value).__name__ in ("NAType", "NaTType"):  # Of pandas.
        return None
    if hasattr(value, "tolist") or hasattr(value, "to_list") or isinstance(value, list | set):
        value = sorted(value) if isinstance(value, set) else as_list(value) if not isinstance(value, list) else value
        return list(map(_plain, value)) if isinstance(value, list) else value
    return None if isinstance(value, float) and math.isnan(value) else value


def _check_labels(targets):
    """Raises for labels with lone surrogates, which no file of a model can have."""
    for place, target in enumerate(targets):
        try:
            json.dumps(target, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise ValueError(f"targets[{place}] has a lone surrogate. Expected Unicode. Received: {target!r}") from None


def check_sets(targets):
    """Raises for lists of 0 and 1 where each text has a list of its labels."""
    rows = [target for target in targets if target is not None]
    sizes = {len(row) for row in rows}
    if len(sizes) == 1 and min(sizes) > 1 and all(flag in (0, 1) for row in rows for flag in row):
        raise ValueError(
            "the targets are lists of 0 and 1. Expected a list of the labels of each text, or an array with a column "
            f"for each label: np.array(targets). Received: targets such as {rows[0]!r:.100}"
        )


def check_task(name):
    """Returns the name of a task; raises for others."""
    if name not in TASKS:
        known = "; ".join(f"{task!r}: {text}" for task, text in TASKS.items())
        raise ValueError(f"`task` must be one of {known}. Received: task={name!r}")
    return name


def infer(rows, targets):
    """Returns the task of texts and targets, one of `TASKS`."""
    first = rows[0]
    if isinstance(first, dict):
        for name, task in _DICTS.items():
            if name in first:
                return task
    if isinstance(first, list):
        return "tagging"
    if targets is None and isinstance(first, tuple):
        return "embedding"
    if targets is not None and isinstance(first, str | tuple):
        known = [target for target in targets if target is not None and target != []]
        example = known[0] if known else None
        if isinstance(example, list | tuple):
            if isinstance(example[0], float):
                raise ValueError(
                    "the targets are lists of floats, as one-hot vectors are. Expected the class of each text, such as "
                    f"targets.argmax(-1), or lists of labels. Received: targets such as {example!r:.100}"
                )
            if not isinstance(example[0], str | int):
                return "tagging"
            if all(target is not None and len(target) == 1 for target in targets):
                raise ValueError(
                    "the targets are lists of one label, as one-hot vectors are. Expected the class of each text, such "
                    f"as targets.argmax(-1), or task='multi_label'. Received: targets such as {example!r:.100}"
                )
            return "multi_label"
        if isinstance(example, dict):
            return "tagging"
        if isinstance(example, int | float) and any(isinstance(target, float) for target in known):
            if all(target is None or float(target).is_integer() for target in known):
                raise ValueError(
                    "the targets are whole numbers as floats. Expected task='regression', or task='classification' if "
                    f"they are classes. Received: targets such as {example!r}"
                )
            return "regression"
        if isinstance(example, str | int):
            return "classification"
    received = "no targets" if targets is None else f"targets such as {targets[0]!r:.50}"
    raise ValueError(
        f"the task does not follow from the data. Received: texts such as {first!r:.50} with {received}. Expected "
        + "; ".join(f"{text} ({name})" for name, text in TASKS.items())
    )

"""Data given in Python: lists, arrays, Series, data frames, and datasets of strings."""

import dataclasses
import json
import math
from typing import Any

import numpy as np

from keras_bert.checks import similar
from keras_bert.data.arrow import arrow_rows, class_names, with_class_names
from keras_bert.data.formats import ROWS

_ROW_TARGETS = {"label", "answers", "tags", "ner_tags", "ner", "spans", "entities", "score"}  # Of rows with targets.
_TARGETS = {"label", "labels", "target", "targets", "class", "score", "tags"}  # Columns of forgotten targets.
_LABELS = ("label", "labels")  # Columns of a frame that are never texts, beside that of the named targets.
_DICTS = {"question", "choices"}  # A frame with one of these columns has dicts of texts.
# Usual names of the columns of pairs of texts: those of classification, and of queries and passages.
CLASSIFIED_PAIRS = (
    ("text", "pair"),
    ("sentence1", "sentence2"),  # GLUE on the hub: MRPC, RTE, STS-B, WNLI.
    ("premise", "hypothesis"),  # MNLI
    ("question1", "question2"),  # QQP
    ("question", "sentence"),  # QNLI
)
QUERIES = ("query", "question", "anchor", "premise", "sentence1", "text")
PASSAGES = ("passage", "positive", "context", "hypothesis", "sentence2", "pair", "answer")
_INPUTS = {"text", "pair"}
WORDS = ("tokens", "words", "text")  # Columns of the words, or of the texts, of taggers.
TEXTS = {*QUERIES, *PASSAGES, *WORDS}.union(*CLASSIFIED_PAIRS)  # Usual names of columns of texts.


@dataclasses.dataclass(frozen=True)
class _Given:
    """Texts and targets of a form that is read; the targets may be `None`."""

    texts: Any
    targets: Any


def read(texts, targets=None, place="texts"):
    """Returns the texts as a list, and the targets as a list or `None`; messages call the texts `place`.

    Texts are a list, an array, a Series, a data frame, whose columns are those of a pair or the keys of dicts, or a
    `tf.data.Dataset` of texts, or of tuples of texts and targets. Targets are the same, or the name of a column of the
    frame; several columns of 0 and 1, of a frame or an array, are labels.
    """
    _check_form(texts, place)
    given = _without_dataset(texts, targets, place)
    given = _without_column_name(given, place)
    if is_frame(given.texts):
        _check_no_targets(given.texts, given.targets, place)
    rows = _text_rows(given.texts)
    if not rows:
        raise ValueError(f"`{place}` is empty. Expected at least one text")
    if None in rows:
        raise ValueError(
            f"`{place}[{rows.index(None)}]` is missing. Expected a text: leave out or fill rows without one"
        )
    if given.targets is None:
        return rows, None
    row_targets = targets_of(rows, given.targets, place)
    if not isinstance(rows[0], dict):
        _check_labels(row_targets)
    if is_frame(given.texts) and isinstance(rows[0], tuple):
        _check_pairs_have_no_targets(given.texts, row_targets, place)
    return rows, row_targets


def targets_of(rows, targets, place="texts"):
    """Returns targets of any form as a list, which must have one for each of the rows."""
    row_targets = _listed_targets(targets)
    if len(row_targets) != len(rows):
        raise ValueError(
            f"`{place}` has {len(rows):,} rows, but there are {len(row_targets):,} targets. Expected the same"
        )
    return row_targets


def _check_form(texts, place):
    """Raises an error for what is not several texts, such as the name of a file."""
    if isinstance(texts, tuple) and len(texts) == 2 and all(map(_is_column, texts)):
        raise ValueError(f"`{place}` is a tuple of two lists. Expected a list of pairs: list(zip(first, second))")
    has_rows = hasattr(texts, "__iter__") or hasattr(texts, "to_list")
    if isinstance(texts, str | bytes | dict) or not has_rows:
        fix = ""
        if str(texts).endswith(ROWS):
            fix = ". Read the file, such as with pandas, and name its columns: fit(frame[['text', 'label']], 'label')"
        expected = "a list, an array, a data frame or a dataset"
        raise ValueError(f"`{place}` must be {expected}. Received: {texts!r:.100}{fix}")


def _is_column(values):
    """Whether values are those of a column: a list, an array or a Series."""
    if isinstance(values, str):
        return False
    return hasattr(values, "append") or hasattr(values, "tolist") or hasattr(values, "to_list")


def _without_dataset(texts, targets, place):
    """Returns texts and targets, the elements of a `tf.data.Dataset` as lists."""
    if not hasattr(texts, "as_numpy_iterator"):
        return _Given(texts, targets)
    own = _read_dataset(texts, place)
    if own.targets is None:
        return _Given(own.texts, targets)
    if targets is not None:
        raise ValueError(f"`{place}` has targets, which are its second elements. Expected no others")
    return own


def _without_column_name(given, place):
    """Returns texts and targets, both columns of a frame if the targets are the name of one."""
    name = given.targets
    if getattr(name, "shape", None) == () and hasattr(name, "item"):  # A name from NumPy.
        name = name.item()
    if not isinstance(name, str | int):
        return given
    frame = given.texts
    if not is_frame(frame) or name not in frame.columns:
        raise _no_such_column(frame, name, place)
    return _Given(frame[text_columns(frame, name)], frame[name])


def _text_rows(texts):
    """Returns a list of texts, pairs, lists of words or dicts."""
    if is_frame(texts):
        return _frame_rows(texts)
    rows = [_json_value(row) for row in as_list(texts)]
    if getattr(texts, "ndim", 1) == 2:  # An array of pairs; lists of strings are words.
        rows = [tuple(row) for row in rows]
    return rows


def _frame_rows(frame):
    """Returns the texts of a frame with one column, the pairs of one with two, or the dicts of one with others."""
    names = list(frame.columns)
    is_pair = len(names) == 2 and not _DICTS & set(names)
    pair = known_pair(names)
    if pair:
        names = pair
        is_pair = True
    columns = _frame_columns(frame, names)
    if len(names) == 1:
        return columns[0]
    if is_pair:
        _check_pair_of_texts(names, columns)
        return list(zip(*columns, strict=True))
    if _DICTS & set(names) or not all(isinstance(name, str) for name in names):
        return _row_dicts(names, columns)
    raise ValueError(
        f"a data frame of texts must have one column of texts, two of pairs, or `question` and `context`, or `text` "
        f"and `choices`. Received: {', '.join(map(repr, names))}. Choose columns, such as frame[['text', 'label']]"
    )


def _check_pair_of_texts(names, columns):
    """Raises for columns of a pair that begin with a number."""
    for name, column in zip(names, columns, strict=True):
        if column and isinstance(column[0], int | float):
            raise ValueError(
                f"a data frame of pairs must have two columns of texts. Received: {name!r} with values such as "
                f"{column[0]!r}. Choose columns, such as frame[['text', 'label']], and name that of the targets"
            )


def frame_dicts(frame):
    """Returns the rows of a frame as dicts by column."""
    names = list(map(str, frame.columns))
    return _row_dicts(names, _frame_columns(frame, frame.columns))


def _frame_columns(frame, names):
    """Returns some columns of a frame as lists."""
    return [_column_values(frame[name]) for name in names]


def _row_dicts(names, columns):
    """Returns the rows of columns as dicts by name."""
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _column_values(column):
    """Returns a column as a list of values with the types of JSON."""
    return [_json_value(value) for value in as_list(column)]


def _check_pairs_have_no_targets(frame, targets, place):
    """Raises for a frame of pairs of which one column has the targets."""
    for name in frame.columns:
        if _column_values(frame[name]) == targets:
            raise ValueError(
                f"the column {name!r} of `{place}` has the targets. Expected texts, or fit(frame, {name!r})"
            )


def _check_no_targets(frame, targets, place):
    """Raises for a frame with a column of targets that no one has named."""
    forgotten = _TARGETS & set(map(str, frame.columns))
    if targets is None and forgotten:
        name = min(forgotten)
        others = [other for other in frame.columns if str(other) not in forgotten]
        raise ValueError(
            f"`{place}` has a column {name!r}. Name the column of the targets, fit(frame, {name!r}), or leave it out, "
            f"predict(frame[{others!r:.100}])"
        )


def _no_such_column(texts, name, place):
    """Returns the error for a name of targets that is none of a column."""
    columns = []
    if is_frame(texts):
        received = "a data frame"
        columns = list(texts.columns)
    elif isinstance(texts, list | tuple) and texts and isinstance(texts[0], dict):
        received = "rows"
        columns = list(texts[0])
    else:
        received = type(texts).__name__
    if columns:
        received += f" with the columns {', '.join(map(repr, columns))}"
    alike = similar(str(name), list(map(str, columns)))
    hint = f". Did you mean {alike!r}?" if alike else ""
    return ValueError(
        f"targets must be a list, or the name of a column of `{place}`, a data frame or rows. "
        f"Received: {name!r} for {received}{hint}"
    )


def _listed_targets(targets):
    """Returns targets as a list; of several columns of 0 and 1 the names of those that are 1."""
    if is_frame(targets):
        names = list(map(str, targets.columns))
        columns = [targets[name] for name in targets.columns]
    elif getattr(targets, "ndim", 1) == 2 and getattr(targets.dtype, "kind", "O") in "biu":
        # Floats are one-hot vectors, which are refused later.
        names = list(map(str, range(targets.shape[1])))
        columns = list(targets.T)
    else:
        return _column_values(targets)
    flags = [_column_values(column) for column in columns]
    if len(flags) == 1:
        return flags[0]
    return _names_of_flags(names, flags)


def _names_of_flags(names, columns):
    """Returns, of columns of 0 and 1, the names of those that are 1 in each row."""
    for name, column in zip(names, columns, strict=True):
        for place, flag in enumerate(column):
            if flag not in (0, 1):
                expected = f"the column {name!r} of labels must be 0 and 1, or true and false"
                raise ValueError(f"targets[{place}]: {expected}. Received: {flag!r}")
    labels = []
    for row in zip(*columns, strict=True):
        labels.append([name for name, flag in zip(names, row, strict=True) if flag])
    return labels


def _check_labels(targets):
    """Raises for labels with lone surrogates, which no file of a model can have, and for strings among numbers."""
    strings = []
    numbers = []
    for target in targets:
        if isinstance(target, str):
            strings.append(target)
        elif isinstance(target, int | float):
            numbers.append(target)
    if strings and numbers:
        raise ValueError(
            f"the targets are strings and numbers, {strings[0]!r:.50} and {numbers[0]!r}. Expected one type"
        )
    for place, target in enumerate(targets):
        try:
            json.dumps(target, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise ValueError(f"targets[{place}] has a lone surrogate. Expected Unicode. Received: {target!r}") from None


# Datasets of TensorFlow.


def _read_dataset(dataset, place):
    """Returns the texts and targets of a dataset, whose elements may be batches."""
    if dataset.cardinality() == -1:  # `tf.data.INFINITE_CARDINALITY`.
        raise ValueError(f"`{place}` is a dataset without an end")
    has_batches_of_words = _has_ragged_texts(dataset.element_spec)
    if has_batches_of_words:
        dataset = dataset.unbatch()
    elements = [_element(element, place) for element in dataset.as_numpy_iterator()]
    if elements and (has_batches_of_words or _has_words(elements, place)):
        return _sentences(elements)
    rows = []
    targets = []
    for texts, target in elements:
        if _is_batch(texts, target):
            rows.extend(_batch_rows(texts))
            batch_targets = target
        else:
            rows.append(_as_pair(texts))
            batch_targets = None if target is None else np.expand_dims(target, 0)
        if batch_targets is not None:
            targets.extend(_listed_targets(batch_targets))
    return _Given(rows, targets or None)


def _has_ragged_texts(spec):
    """Whether the elements of a dataset have texts in a ragged tensor: batches of lists of words."""
    texts = spec[0] if isinstance(spec, tuple) else spec
    return getattr(texts, "ragged_rank", 0) > 0


def _element(element, place):
    """Returns the texts of an element of a dataset, a tuple for pairs, and its targets or `None`."""
    parts = element if isinstance(element, tuple) else (element,)
    if len(parts) > 2 or isinstance(parts[0], dict):
        raise ValueError(
            f"`{place}`: a dataset must have texts, or tuples of texts and targets. Received: {element!r:.100}"
        )
    target = parts[1] if len(parts) == 2 else None
    return parts[0], target


def _sentences(elements):
    """Returns the lists of words and of tags of elements that are sentences."""
    words = [element[0] for element in elements]
    tags = [element[1] for element in elements]
    if tags[0] is None:
        return _Given(words, None)
    return _Given(words, tags)


def _is_batch(texts, target):
    """Whether an element is a batch: two strings with one target are a pair."""
    first = texts[0] if isinstance(texts, tuple) else texts
    if np.ndim(first) == 0:
        return False
    return target is None or np.shape(first)[:1] == np.shape(target)[:1]


def _batch_rows(texts):
    """Returns the rows of a batch: texts, or a tuple of the texts of pairs."""
    if isinstance(texts, tuple):
        columns = [as_list(column) for column in texts]
        return list(zip(*columns, strict=True))
    return [_as_pair(text) for text in texts]


def _as_pair(texts):
    """Returns an array of two texts as a tuple; others stay as they are."""
    if np.shape(texts) == (2,) and not isinstance(texts, tuple):
        return tuple(texts.tolist())
    return texts


def _has_words(elements, place):
    """Whether each element is a sentence, words and their tags; raises if they may be batches of words and classes."""
    if not _are_words_with_targets(elements):
        return False
    sizes = [len(words) for words, _ in elements]
    # The batches of a dataset have one size, but for the last one, which may be smaller.
    may_be_batches = set(sizes[:-1]) <= {sizes[0]} and sizes[-1] <= sizes[0]
    has_names = elements[0][1].dtype.kind == "O"
    is_unclear = may_be_batches and has_names  # Names of tags, or of classes.
    fits_neither = not may_be_batches and not has_names  # Tags are names.
    if is_unclear or fits_neither:
        raise ValueError(
            f"`{place}`: elements of the dataset may be words with tags, or batches of words with classes. Expected "
            f"lists of words and of tags, or dataset.unbatch(). Received: {elements[0]!r:.100}"
        )
    return not may_be_batches


def _are_words_with_targets(elements):
    """Whether all elements are arrays of single words, with as many strings or integers."""
    for element in elements:
        for part in element:
            if np.ndim(part) != 1 or isinstance(part, tuple):
                return False
    words, tags = elements[0]
    if words.dtype.kind != "O" or tags.dtype.kind not in "Oi":
        return False
    for texts, targets in elements:
        if len(texts) != len(targets):
            return False
    for texts, _ in elements:
        for text in texts:
            if len(text.split()) > 1:
                return False
    return True


# Rows of data sets: dicts by column, which have targets of their own.


def listed(values):
    """Returns an iterator, and dicts of another kind than a list, as a list; other data stay as they are."""
    if hasattr(values, "__next__"):
        return list(values)
    is_column = isinstance(values, tuple) or getattr(values, "ndim", 0) == 1  # An array or a Series.
    if is_column and isinstance(next(iter(values), None), dict):
        return list(values)
    return values


def data_set_rows(texts, targets=None, columns=(), with_targets=()):
    """Returns the rows of a data set, dicts by column, or `None` for other data.

    These are a `datasets.Dataset`, a `pyarrow.Table`, an iterator of dicts, a list of dicts that have targets, or
    all of one of the sets of `columns` or of `with_targets`, and a data frame with all of one of the sets of `columns`.
    `targets` may be a list, or the column of the targets, which the rows must have. Numbers of classes become their
    names.
    """
    if _is_arrow(texts):
        rows = arrow_rows(texts)
    elif _is_data_set(texts):
        names = class_names({"info": {"features": texts.features.to_dict()}})
        rows = [with_class_names(row, names) for row in texts]
    elif _has_rows_with_targets(texts, targets, [*columns, *with_targets]):
        rows = texts
    elif is_frame(texts) and _has_known_columns(texts, targets, columns):
        rows = frame_dicts(texts)
    else:
        return None
    if rows and isinstance(targets, str) and targets not in rows[0]:
        raise ValueError(f"the rows have no column {targets!r}. They have: {', '.join(map(repr, rows[0]))}")
    return rows


def _is_arrow(texts):
    """Whether texts are a `pyarrow.Table`."""
    return hasattr(texts, "to_pylist") and hasattr(texts, "schema")


def _is_data_set(texts):
    """Whether texts are a `datasets.Dataset`."""
    return hasattr(texts, "features") and hasattr(texts, "column_names")


def is_frame(values):
    """Whether values are a data frame of pandas, polars or a similar package."""
    return hasattr(values, "columns") and hasattr(values, "__getitem__")


def _has_rows_with_targets(texts, targets, columns):
    """Whether texts are a list of dicts that have targets, by their usual names or as a set of `columns` has them."""
    if not isinstance(texts, list) or not texts or not isinstance(texts[0], dict):
        return False
    names = texts[0].keys()
    if isinstance(targets, str):
        return targets in names
    if targets is not None or _ROW_TARGETS & names:
        return True
    return any(known <= names for known in columns if len(known) > 1)


def _has_known_columns(frame, targets, columns):
    """Whether a frame has the columns of a set, besides the column of its `targets`, and other columns.

    A single column is that of the set only if it has lists: a text may be called `tokens`, too.
    """
    _check_no_targets(frame, targets, "texts")
    names = list(frame.columns)
    is_named = isinstance(targets, str | int)
    if not len(frame) or (is_named and targets not in names):
        return False  # For which there are messages.
    if is_named:
        names = [name for name in names if name != targets]
    if known_pair(names):
        return False
    for known in columns:
        if known <= set(names):
            first, *others = known
            if others or not isinstance(_json_value(as_list(frame[first])[0]), str):
                return True
    return False


# Columns by their names.


def column_names(texts):
    """Returns the columns that all rows of a data frame, a data set or a list of dicts have; none of other data."""
    if _is_arrow(texts) or _is_data_set(texts):
        return list(texts.column_names)
    if is_frame(texts):
        return list(texts.columns)
    if not are_dicts(texts):
        return []
    names = dict.fromkeys(texts[0])  # In their order.
    for row in texts:
        for name in names.keys() - row.keys():
            del names[name]
    return list(names)


def column(texts, name):
    """Returns the values of a column of texts that have `column_names`."""
    if isinstance(texts, list):
        return [row[name] for row in texts]
    return texts[name]


def without_column(texts, name):
    """Returns texts that have `column_names` without one of these columns."""
    if _is_arrow(texts):
        return texts.drop_columns([name])
    if _is_data_set(texts):
        return texts.remove_columns([name])
    if is_frame(texts):
        return texts[[other for other in texts.columns if other != name]]
    rows = []
    for row in texts:
        others = dict(row)
        others.pop(name, None)
        rows.append(others)
    return rows


def text_columns(frame, target=None):
    """Returns the columns of a frame that are texts, given that of the targets: all others, in the order of pairs."""
    names = list(frame.columns)
    if target is not None:
        names = [name for name in names if name != target and name not in _LABELS]
    return known_pair(names) or names


def known_pair(names):
    """Returns two names of columns in the order of a pair; `None` for names that no layout of pairs has."""
    if len(names) != 2 or set(names) == {"question", "context"}:  # The latter are a question and where its answer is.
        return None
    for first, second in (names, names[::-1]):
        if (first, second) in CLASSIFIED_PAIRS or (first in QUERIES and second in PASSAGES):
            return [first, second]
    return None


def with_known_columns(texts, columns):
    """Returns texts that a model can take: of a data frame, or of dicts, the columns that it was trained on.

    `columns` are the names by input, "text" and "pair", or `None`. Data without these columns stay as they are; so do
    inputs by their own names, which the model may refuse.
    """
    if not columns:
        return texts
    names = list(columns.values())
    if is_frame(texts):
        if not set(names) <= set(texts.columns) or set(texts.columns) <= _INPUTS:
            return texts
        return texts[names]
    rows = [texts] if isinstance(texts, dict) else texts
    if not are_dicts(rows):
        return texts
    for row in rows:
        if not set(names) <= row.keys() or row.keys() <= _INPUTS:
            return texts
    inputs = [_renamed(row, columns) for row in rows]
    return inputs[0] if isinstance(texts, dict) else inputs


def with_known_texts(texts, target, columns):
    """Returns rows with the columns of texts that a model was trained on, and that of the targets.

    Rows are a data frame, or a list of dicts, which get the names of the inputs. `columns` are as in
    `with_known_columns`; other data stay as they are.
    """
    columns = columns or {}
    names = list(columns.values())
    if not names or not isinstance(target, str) or not all(isinstance(name, str) for name in names):
        return texts
    wanted = {*names, target}
    if is_frame(texts):
        if wanted <= set(texts.columns):
            return texts[[*names, target]]
        return texts
    if not isinstance(texts, list) or target in columns:
        return texts
    if not all(isinstance(row, dict) and wanted <= row.keys() for row in texts):
        return texts
    rows = []
    for row in texts:
        renamed = _renamed(row, columns)
        renamed[target] = row[target]
        rows.append(renamed)
    return rows


def with_words(texts, columns):
    """Returns texts that a tagger can take: of a data frame, or of dicts, the words or the text beside other columns.

    `columns` are sets of columns; other data stay as they are.
    """
    if is_frame(texts):
        name = _word_column(texts.columns, columns)
        if name is None:
            return texts
        return texts[[name]]
    rows = [texts] if isinstance(texts, dict) else texts
    if not are_dicts(rows):
        return texts
    inputs = []
    for row in rows:
        name = _word_column(row, columns)
        if name is None:
            return texts
        inputs.append({"text": row[name]})
    return inputs[0] if isinstance(texts, dict) else inputs


def _word_column(names, columns):
    """Returns the column of the words, or of the text, of names that have all of a set; `None` without one."""
    for known in columns:
        if known <= set(names):
            return next((name for name in WORDS if name in known), None)
    return None


def are_dicts(rows):
    """Whether rows are a list of dicts, at least one."""
    return isinstance(rows, list) and bool(rows) and all(isinstance(row, dict) for row in rows)


def _renamed(row, columns):
    """Returns the values of a row by the names of their inputs; `columns` are the columns by input."""
    return {name: row[column] for name, column in columns.items()}


# Values.


def as_list(values):
    """Converts an array or another iterable to a list; arrays and tensors to Python numbers and strings."""
    if hasattr(values, "numpy"):
        values = values.to_list() if hasattr(values, "to_list") else values.numpy()
    if isinstance(values, list):
        return values
    if hasattr(values, "tolist"):
        return values.tolist()
    return list(values)


def _json_value(value):
    """Returns a value with the types of JSON: NumPy's scalars and arrays, bytes, and missing values become those."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, tuple):
        return tuple(_json_value(part) for part in value)
    if isinstance(value, dict):
        return {name: _json_value(part) for name, part in value.items()}
    if type(value).__name__ in ("NAType", "NaTType"):  # Of pandas.
        return None
    if isinstance(value, set):
        return [_json_value(part) for part in sorted(value)]
    if isinstance(value, list) or hasattr(value, "tolist") or hasattr(value, "to_list"):
        plain = as_list(value)
        if not isinstance(plain, list):  # A scalar of NumPy.
            return plain
        return [_json_value(part) for part in plain]
    if isinstance(value, float) and math.isnan(value):
        return None
    return value

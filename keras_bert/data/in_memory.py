"""Data given in Python: lists, arrays, Series, data frames, and datasets of strings."""

import itertools
import json
import math

import numpy as np

from keras_bert.checks import similar
from keras_bert.data import sources
from keras_bert.data.sources import as_list

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
TEXTS = {*itertools.chain(*CLASSIFIED_PAIRS), *QUERIES, *PASSAGES, *WORDS}  # Usual names of columns of texts.


def listed(values):
    """Returns an iterator, and dicts of another kind than a list, as a list; other data stay as they are."""
    if hasattr(values, "__next__"):
        return list(values)
    is_column = isinstance(values, tuple) or getattr(values, "ndim", 0) == 1  # An array or a Series.
    return list(values) if is_column and isinstance(next(iter(values), None), dict) else values


def data_set_rows(texts, targets=None, columns=(), with_targets=()):
    """Returns the rows of a data set, dicts by column, or `None` for other data.

    These are a `datasets.Dataset`, a `pyarrow.Table`, an iterator of dicts, a list of dicts that have targets, or
    all of one of the sets of `columns` or of `with_targets`, and a data frame with all of one of the sets of `columns`.
    `targets` may be a list, or the column of the targets, which the rows must have. Numbers of classes become their
    names.
    """
    if _is_arrow(texts):
        rows = sources.arrow_rows(texts)
    elif _is_data_set(texts):
        names = sources.class_names({"info": {"features": texts.features.to_dict()}})
        rows = [sources.named(row, names) for row in texts]
    elif (
        isinstance(texts, list)
        and texts
        and isinstance(texts[0], dict)
        and _has_targets(texts[0], targets, [*columns, *with_targets])
    ):
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


def column_names(texts):
    """Returns the columns that all rows of a data frame, a data set or a list of dicts have; none of other data."""
    if _is_arrow(texts) or _is_data_set(texts):
        return list(texts.column_names)
    if is_frame(texts):
        return list(texts.columns)
    if not isinstance(texts, list) or not texts or not all(isinstance(row, dict) for row in texts):
        return []
    return [name for name in texts[0] if all(name in row for row in texts)]


def column(texts, name):
    """Returns the values of a column of texts that have `column_names`."""
    return [row[name] for row in texts] if isinstance(texts, list) else texts[name]


def without_column(texts, name):
    """Returns texts that have `column_names` without one of these columns."""
    if _is_arrow(texts):
        return texts.drop_columns([name])
    if _is_data_set(texts):
        return texts.remove_columns([name])
    if is_frame(texts):
        return texts[[other for other in texts.columns if other != name]]
    return [{other: value for other, value in row.items() if other != name} for row in texts]


def _has_targets(row, targets, columns):
    if isinstance(targets, str):
        return targets in row
    if targets is not None:
        return True
    return bool(_ROW_TARGETS & row.keys()) or any(names <= row.keys() for names in columns if len(names) > 1)


def _has_known_columns(frame, targets, columns):
    """Whether a frame has the columns of a set, besides the column of its `targets`, and other columns.

    A single column is that of the set only if it has lists: a text may be called `tokens`, too.
    """
    _check_no_targets(frame, targets, "texts")
    if not len(frame) or (isinstance(targets, str | int) and targets not in frame.columns):
        return False  # For which there are messages.
    names = [name for name in frame.columns if not (isinstance(targets, str | int) and name == targets)]
    if known_pair(names):
        return False
    for known in columns:
        if known <= set(names):
            (first, *others) = known
            if others or not isinstance(_plain(as_list(frame[first])[0]), str):
                return True
    return False


def _check_no_targets(frame, targets, place):
    """Raises for a frame with a column of targets that no one has named."""
    named = _TARGETS & set(map(str, frame.columns))
    if targets is None and named:
        name = sorted(named)[0]
        others = [name for name in frame.columns if str(name) not in named]
        raise ValueError(
            f"`{place}` has a column {name!r}. Name the column of the targets, fit(frame, {name!r}), or leave it out, "
            f"predict(frame[{others!r:.100}])"
        )


def _no_such_column(texts, name, place):
    """Returns the error for a name of targets that is none of a column."""
    if is_frame(texts):
        given = "a data frame"
        columns = list(texts.columns)
    else:
        rows = texts if isinstance(texts, list | tuple) else []
        is_rows = bool(rows) and isinstance(rows[0], dict)
        given = "rows" if is_rows else type(texts).__name__
        columns = list(rows[0]) if is_rows else []
    with_columns = f" with the columns {', '.join(map(repr, columns))}" if columns else ""
    alike = similar(str(name), [str(column) for column in columns])
    hint = f". Did you mean {alike!r}?" if alike else ""
    return ValueError(
        f"targets must be a list, or the name of a column of `{place}`, a data frame or rows. "
        f"Received: {name!r} for {given}{with_columns}{hint}"
    )


def read(texts, targets=None, place="texts"):
    """Returns the texts as a list, and the targets as a list or `None`; messages call the texts `place`.

    Texts are a list, an array, a Series, a data frame, whose columns are those of a pair or the keys of dicts, or a
    `tf.data.Dataset` of texts, or of tuples of texts and targets. Targets are the same, or the name of a column of the
    frame; several columns of 0 and 1, of a frame or an array, are labels.
    """
    _check_form(texts, place)
    if hasattr(texts, "as_numpy_iterator"):
        texts, own = _from_dataset(texts, place)
        if own is not None and targets is not None:
            raise ValueError(f"`{place}` has targets, which are its second elements. Expected no others")
        targets = own if targets is None else targets
    if getattr(targets, "shape", None) == () and hasattr(targets, "item"):  # A name from NumPy.
        targets = targets.item()
    if isinstance(targets, str | int):
        if not is_frame(texts) or targets not in texts.columns:
            raise _no_such_column(texts, targets, place)
        texts, targets = texts[text_columns(texts, targets)], texts[targets]
    if is_frame(texts):
        _check_no_targets(texts, targets, place)
    rows = _frame_rows(texts) if is_frame(texts) else list(map(_plain, as_list(texts)))
    if getattr(texts, "ndim", 1) == 2 and not is_frame(texts):  # An array of pairs; lists of strings are words.
        rows = [tuple(row) for row in rows]
    if not rows:
        raise ValueError(f"`{place}` is empty. Expected at least one text")
    if None in rows:
        raise ValueError(
            f"`{place}[{rows.index(None)}]` is missing. Expected a text: leave out or fill rows without one"
        )
    if targets is None:
        return rows, None
    targets = targets_of(rows, targets, place)
    if not isinstance(rows[0], dict):
        _check_labels(targets)
    for name in texts.columns if is_frame(texts) and isinstance(rows[0], tuple) else ():
        if list(map(_plain, as_list(texts[name]))) == targets:
            raise ValueError(
                f"the column {name!r} of `{place}` has the targets. Expected texts, or fit(frame, {name!r})"
            )
    return rows, targets


def targets_of(rows, targets, place="texts"):
    """Returns targets of any form as a list, which must have one for each of the rows."""
    targets = _targets(targets)
    if len(targets) != len(rows):
        raise ValueError(f"`{place}` has {len(rows):,} rows, but there are {len(targets):,} targets. Expected the same")
    return targets


def _check_form(texts, place):
    """Raises an error for what is not several texts, such as the name of a file."""
    if isinstance(texts, tuple) and len(texts) == 2 and all(map(_is_column, texts)):
        raise ValueError(f"`{place}` is a tuple of two lists. Expected a list of pairs: list(zip(first, second))")
    if isinstance(texts, str | bytes | dict) or not any(hasattr(texts, name) for name in ("__iter__", "to_list")):
        read = ". Read the file, such as with pandas, and name its columns: fit(frame[['text', 'label']], 'label')"
        fix = read if str(texts).endswith(sources.ROWS) else ""
        expected = "a list, an array, a data frame or a dataset"
        raise ValueError(f"`{place}` must be {expected}. Received: {texts!r:.100}{fix}")


def _is_column(values):
    return not isinstance(values, str) and any(hasattr(values, name) for name in ("append", "tolist", "to_list"))


def is_frame(values):
    """Whether values are a data frame of pandas, polars or a similar package."""
    return hasattr(values, "columns") and hasattr(values, "__getitem__")


def text_columns(frame, target=None):
    """Returns the columns of a frame that are texts, given that of the targets: all others, in the order of pairs."""
    names = list(frame.columns)
    if target is not None:
        names = [name for name in names if name != target and name not in _LABELS]
    return known_pair(names) or names


def with_known_columns(texts, columns):
    """Returns texts that a model can take: of a data frame, or of dicts, the columns that it was trained on.

    `columns` are the names by input, "text" and "pair", or `None`. Data without these columns stay as they are; so do
    inputs by their own names, which the model may refuse.
    """
    if not columns:
        return texts
    names = list(columns.values())
    if is_frame(texts):
        is_known = set(names) <= set(texts.columns) and not set(texts.columns) <= _INPUTS
        return texts[names] if is_known else texts
    is_single = isinstance(texts, dict)
    rows = [texts] if is_single else texts
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return texts
    if not all(set(names) <= row.keys() and not row.keys() <= _INPUTS for row in rows):
        return texts
    rows = [{name: row[column] for name, column in columns.items()} for row in rows]
    return rows[0] if is_single else rows


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
        return texts[[*names, target]] if wanted <= set(texts.columns) else texts
    if not isinstance(texts, list) or not all(isinstance(row, dict) and wanted <= row.keys() for row in texts):
        return texts
    if target in columns:
        return texts
    return [{**{name: row[column] for name, column in columns.items()}, target: row[target]} for row in texts]


def with_words(texts, columns):
    """Returns texts that a tagger can take: of a data frame, or of dicts, the words or the text beside other columns.

    `columns` are sets of columns; other data stay as they are.
    """
    if is_frame(texts):
        name = _word_column(texts.columns, columns)
        return texts if name is None else texts[[name]]
    is_single = isinstance(texts, dict)
    rows = [texts] if is_single else texts
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return texts
    names = [_word_column(row, columns) for row in rows]
    if None in names:
        return texts
    rows = [{"text": row[name]} for row, name in zip(rows, names, strict=True)]
    return rows[0] if is_single else rows


def _word_column(names, columns):
    """Returns the column of the words, or of the text, of names that have all of a set; `None` without one."""
    known = next((known for known in columns if known <= set(names)), set())
    return next((name for name in WORDS if name in known), None)


def known_pair(names):
    """Returns two names of columns in the order of a pair; `None` for names that no layout of pairs has."""
    if len(names) != 2 or set(names) == {"question", "context"}:  # The latter are a question and where its answer is.
        return None
    for first, second in (names, names[::-1]):
        if (first, second) in CLASSIFIED_PAIRS or (first in QUERIES and second in PASSAGES):
            return [first, second]
    return None


def frame_dicts(frame):
    """Returns the rows of a frame as dicts by column."""
    names = list(map(str, frame.columns))
    columns = [list(map(_plain, as_list(frame[name]))) for name in frame.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _frame_rows(frame):
    names = list(frame.columns)
    is_pair = len(names) == 2 and not _DICTS & set(names)
    ordered = known_pair(names)
    if ordered:
        names = ordered
        is_pair = True
    columns = [list(map(_plain, as_list(frame[name]))) for name in names]
    if len(names) == 1:
        return columns[0]
    if is_pair:
        for name, column in zip(names, columns, strict=True):
            if isinstance(column[0] if column else None, int | float):
                raise ValueError(
                    f"a data frame of pairs must have two columns of texts. Received: {name!r} with values such as "
                    f"{column[0]!r}. Choose columns, such as frame[['text', 'label']], and name that of the targets"
                )
        return list(zip(*columns, strict=True))
    if _DICTS & set(names) or not all(isinstance(name, str) for name in names):
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
    spec = dataset.element_spec
    ragged = getattr(spec[0] if isinstance(spec, tuple) else spec, "ragged_rank", 0) > 0  # Batches of lists of words.
    dataset = dataset.unbatch() if ragged else dataset
    elements = [_element(element, place) for element in dataset.as_numpy_iterator()]
    if elements and (ragged or _has_words(elements, place)):
        texts, tags = map(list, zip(*elements, strict=True))
        return texts, None if tags[0] is None else tags
    rows, targets = [], []
    for texts, target in elements:
        batched = _is_batch(texts, target)
        if batched and isinstance(texts, tuple):
            rows += zip(*map(as_list, texts), strict=True)
        else:
            rows += map(_pair, texts if batched else [texts])
        if target is not None:
            targets += _targets(target if batched else np.expand_dims(target, 0))
    return rows, targets or None


def _element(element, place):
    """Returns the texts of an element of a dataset, a tuple for pairs, and its targets or `None`."""
    texts, *rest = element if isinstance(element, tuple) else (element,)
    if len(rest) > 1 or isinstance(texts, dict):
        raise ValueError(
            f"`{place}`: a dataset must have texts, or tuples of texts and targets. Received: {element!r:.100}"
        )
    return texts, *(rest or [None])


def _is_batch(texts, target):
    """Whether an element is a batch: two strings with one target are a pair."""
    counts = [np.shape(part)[:1] for part in (texts[0] if isinstance(texts, tuple) else texts, target)]
    return counts[0] != () and (target is None or counts[0] == counts[1])


def _pair(texts):
    """Returns an array of two texts as a tuple."""
    return tuple(texts.tolist()) if np.shape(texts) == (2,) and not isinstance(texts, tuple) else texts


def _has_words(elements, place):
    """Whether each element is a sentence, words and their tags; raises if they may be batches of words and classes."""
    if any(np.ndim(part) != 1 or isinstance(part, tuple) for element in elements for part in element):
        return False
    texts, tags = zip(*elements, strict=True)
    sizes, kind = list(map(len, texts)), tags[0].dtype.kind
    if texts[0].dtype.kind != "O" or kind not in "Oi" or sizes != list(map(len, tags)):
        return False
    if any(len(text.split()) > 1 for part in texts for text in part):
        return False
    is_batched = {*sizes[:-1]} <= {sizes[0]} and sizes[-1] <= sizes[0]
    if is_batched == (kind == "O"):
        raise ValueError(
            f"`{place}`: elements of the dataset may be words with tags, or batches of words with classes. Expected "
            f"lists of words and of tags, or dataset.unbatch(). Received: {elements[0]!r:.100}"
        )
    return not is_batched


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
    """Raises for labels with lone surrogates, which no file of a model can have, and for strings among numbers."""
    number = next((target for target in targets if isinstance(target, int | float)), None)
    if number is not None and (strings := [target for target in targets if isinstance(target, str)]):
        raise ValueError(f"the targets are strings and numbers, {strings[0]!r:.50} and {number!r}. Expected one type")
    for place, target in enumerate(targets):
        try:
            json.dumps(target, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise ValueError(f"targets[{place}] has a lone surrogate. Expected Unicode. Received: {target!r}") from None

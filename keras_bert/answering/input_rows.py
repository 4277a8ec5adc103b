"""Texts that are given to `predict` as rows: dicts of strings by the names of the inputs."""

import logging

from keras_bert.data import in_memory
from keras_bert.data.in_memory import as_list

_LOG = logging.getLogger("keras_bert")
WORDS = ("words", "text")  # The keys of a list of words as a row.
_DESCRIPTIONS = {
    WORDS: "a list of words",
    ("text",): "a text",
    ("text", "pair"): "a pair of texts as a tuple",
    ("question", "context"): "a dict with `question` and `context`",
    ("text", "choices"): "a dict with `text` and `choices`, a list of at least 2",
}


def read_rows(texts, words=False):
    """Reads texts, with `words` also lists of words: a list of dicts, and whether there was a single text."""
    is_single = isinstance(texts, str | tuple | dict)
    is_iterable = is_single or hasattr(texts, "__iter__")
    is_scalar = getattr(texts, "shape", 0) == ()
    if isinstance(texts, bytes) or is_scalar or not is_iterable:
        raise ValueError(f"`texts` must be a text or a list of texts, pairs or dicts. Received: texts={texts!r}")
    if is_single:
        row = _row("texts", texts, words)
        _warn_of_empty([row])
        return [row], True
    rows = []
    for number, text in enumerate(_listed_texts(texts)):
        rows.append(_row(f"texts[{number}]", text, words))
    _warn_of_empty(rows)
    return rows, False


def _listed_texts(texts):
    """Returns several texts of any form as a list."""
    # Iterating a frame gives names, a dataset tensors, and an array of pairs arrays.
    is_array_of_pairs = getattr(texts, "ndim", 1) == 2
    rows = texts
    if in_memory.is_frame(texts) or hasattr(texts, "as_numpy_iterator") or is_array_of_pairs:
        rows, targets = in_memory.read(texts)
        if targets is not None:
            raise ValueError(
                "`texts` is a dataset with targets. Expected texts alone, such as dataset.map(lambda x, y: x)"
            )
    listed = []
    for text in as_list(rows):
        listed.append(text.decode() if isinstance(text, bytes) else text)
    return listed


def _row(place, text, words):
    """Returns a text, a pair or a dict as a dict of strings; with `words`, also a list of words."""
    row = _row_of_words(text) if words else None
    if row is not None:
        return row
    if isinstance(text, str):
        row = {"text": text}
    elif isinstance(text, tuple) and len(text) == 2:
        row = {"text": text[0], "pair": text[1]}
    elif isinstance(text, dict):
        row = text
    if row is not None and all(_is_input(name, value) for name, value in row.items()):
        return row
    raise ValueError(
        f"`{place}` must be a string, a tuple of two strings, or a dict of strings whose `choices`, if any, are a "
        f"list of at least 2. Received: {text!r:.200}"
    )


def _row_of_words(text):
    """Returns a list of words as a row, `None` for another text.

    The signature `words` takes words with a tab for a space within a word.
    """
    found = text
    if isinstance(text, dict) and text.keys() == {"text"}:
        found = text["text"]
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        return None
    marked = [word.replace(" ", "\t") for word in found]
    return {"words": " ".join(marked), "text": " ".join(found)}


def _is_input(name, value):
    """Whether a value is a string, or for `choices` a list of strings."""
    if name == "choices":
        if not isinstance(value, list) or len(value) < 2:
            return False
        return all(isinstance(choice, str) for choice in value)
    return isinstance(value, str)


def _warn_of_empty(rows):
    """Warns of empty texts."""
    empty = []
    for number, row in enumerate(rows):
        if any(isinstance(text, str) and not text.strip() for text in row.values()):
            empty.append(number)
    if empty:
        _LOG.warning("`texts`: %d of %d are empty, the first at index %d", len(empty), len(rows), empty[0])


def check_rows(rows, allowed, taker):
    """Returns the names of the inputs, which must be allowed and the same for all rows."""
    names = allowed[0]
    for allowed_names in allowed:
        if rows and rows[0].keys() == set(allowed_names):
            names = allowed_names
            break
    for number, row in enumerate(rows):
        if row.keys() != set(names):
            raise _wrong_inputs(row, number, allowed, taker)
    return names


def _wrong_inputs(row, number, allowed, taker):
    """Returns the error for a row with other inputs than those that the taker takes, or than the rows before."""
    expected = []
    for names in allowed:
        expected.append(_DESCRIPTIONS.get(names, f"a dict with {', '.join(names)}"))
    mixed = ", the same for all of `texts`" if tuple(row) in allowed else ""
    keys = ", ".join(map(repr, row)) or "no keys"
    received = _DESCRIPTIONS.get(tuple(row), f"a dict with {keys}")
    if tuple(row) == ("text",):
        received = "only a text"
    return ValueError(f"`texts`: {taker} takes {' or '.join(expected)}{mixed}. Received: {received} at index {number}")

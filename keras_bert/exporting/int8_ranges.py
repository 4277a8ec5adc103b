"""Ranges of the inputs of dense layers, for products in int8: of given texts, or of `passages.txt`."""

import functools
import pathlib

import tensorflow as tf

from keras_bert.exporting.int8 import observed
from keras_bert.exporting.probes import probe_inputs

_TOGETHER = 8  # Texts in a call of the model that finds ranges.


def calibrated(model, signature, texts):
    """Returns the `limits` of `in_int8`, the largest values that occur in answering texts by a signature on strings.

    `texts` are strings, or tuples with a value for each input of the signature; choices are a list.
    """
    specs = signature.input_signature
    rows = []
    for text in texts:
        rows.append(text if isinstance(text, tuple) else (text,))
    _check_rows(rows, specs)
    return _limits(model, signature, _batches(rows, specs))


def _check_rows(rows, specs):
    """Raises an error unless there are rows, with a value of the right type for each input."""
    if not rows:
        raise ValueError("`calibration` must be a list of texts. Received: no texts")
    for number, row in enumerate(rows):
        if len(row) != len(specs) or not all(map(_is_input, row, specs)):
            expected = " and ".join(spec.name for spec in specs)
            raise ValueError(
                f"`calibration` must be a list with {expected} of each text. Received: {row!r:.200} at index {number}"
            )


def _is_input(value, spec):
    """Returns whether a value is a text or, for choices, a list of texts."""
    if spec.shape.rank == 1:
        return isinstance(value, str)
    return isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)


def _batches(rows, specs):
    """Yields lists of the inputs of the signature, tensors of a few rows each."""
    for start in range(0, len(rows), _TOGETHER):
        columns = zip(*rows[start : start + _TOGETHER], strict=True)
        yield [_column_tensor(column, spec) for column, spec in zip(columns, specs, strict=True)]


def _column_tensor(column, spec):
    """Returns the values of an input as a tensor; lists of choices are padded with empty ones."""
    if spec.shape.rank == 1:
        return tf.constant(column)
    return tf.ragged.constant(column, tf.string).to_tensor("")


def probed(model, signature):
    """Returns the `limits` of `in_int8` in the probe and `passages.txt`: they show what inputs are large in English."""
    batches = [list(probe_inputs("serving_default", signature).values())]
    _, passages = _sentences_and_passages()
    for start in range(0, len(passages), _TOGETHER):
        batches.append([_column_of_passages(spec, start) for spec in signature.input_signature])
    return _limits(model, signature, batches)


def _limits(model, signature, batches):
    """Returns the limits of the batches, lists of the inputs of the signature."""
    with observed(model) as limits:
        for inputs in batches:
            signature.python_function(*inputs)
    return limits


@functools.cache
def _sentences_and_passages():
    """Returns the sentences and the passages of `passages.txt`."""
    text = pathlib.Path(__file__).with_name("passages.txt").read_text(encoding="utf-8")
    _, sentences, passages = text.split("\n\n")
    return sentences.splitlines(), passages.splitlines()


def _column_of_passages(spec, start):
    """Returns an input of a signature for some passages: the passages, or sentences for what is short."""
    sentences, all_passages = _sentences_and_passages()
    passages = all_passages[start : start + _TOGETHER]
    if spec.name == "text":
        return tf.constant([f"{passage} [MASK]." for passage in passages])
    if spec.name == "choices":
        return tf.constant([sentences[:2]] * len(passages))
    if spec.name in ("question", "pair"):
        indices = range(start, start + len(passages))
        return tf.constant([sentences[index % len(sentences)] for index in indices])
    return tf.constant(passages)

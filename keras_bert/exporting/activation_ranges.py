"""The ranges of activations in int8, found with texts."""

import functools
import pathlib

import tensorflow as tf

from keras_bert.exporting import assets
from keras_bert.exporting.int8_layers import observed

_TOGETHER = 8  # Texts in a call of the model.


def calibrated(model, signature, texts):
    """Returns the `limits` of `in_int8`, the largest values that occur in answering texts.

    The signature is a `tf.function` on strings that calls the model. `texts` are strings, or tuples with a value for
    each input of the signature; choices are a list.
    """
    specs = signature.input_signature
    rows = [row if isinstance(row, tuple) else (row,) for row in texts]
    if not rows:
        raise ValueError("`calibration` must be a list of texts. Received: no texts")
    for number, row in enumerate(rows):
        if len(row) != len(specs) or not all(map(_is_input, row, specs)):
            expected = " and ".join(spec.name for spec in specs)
            raise ValueError(
                f"`calibration` must be a list with {expected} of each text. Received: {row!r:.200} at index {number}"
            )
    parts = (zip(*rows[start : start + _TOGETHER], strict=True) for start in range(0, len(rows), _TOGETHER))
    return _limits(model, signature, (map(_tensor, columns, specs) for columns in parts))


def probed(model, signature):
    """Returns the `limits` of `in_int8` found with the probe of `serving_default` and `passages.txt`.

    They show which inputs are large, for models of texts in English; other texts may be larger.
    """
    probe = assets.probe_inputs("serving_default", signature).values()
    starts = range(0, len(_passages()[1]), _TOGETHER)
    return _limits(
        model, signature, [probe, *([_column(spec, start) for spec in signature.input_signature] for start in starts)]
    )


def _limits(model, signature, batches):
    """Returns the limits of the batches, lists of the inputs of the signature."""
    with observed(model) as limits:
        for inputs in batches:
            signature.python_function(*inputs)
    return limits


@functools.cache
def _passages():
    """Returns the sentences and the passages of `passages.txt`."""
    _, *parts = pathlib.Path(__file__).with_name("passages.txt").read_text(encoding="utf-8").split("\n\n")
    return [part.splitlines() for part in parts]


def _column(spec, start):
    """Returns an input of a signature for some passages: the passages, or sentences for what is short."""
    sentences, passages = _passages()
    passages = passages[start : start + _TOGETHER]
    each = [sentences[index % len(sentences)] for index in range(start, start + len(passages))]
    match spec.name:
        case "choices":
            return tf.constant([sentences[:2]] * len(passages))
        case "question" | "pair":
            return tf.constant(each)
        case "text":
            return tf.constant([f"{passage} [MASK]." for passage in passages])
        case _:
            return tf.constant(passages)


def _tensor(column, spec):
    return tf.constant(column) if spec.shape.rank == 1 else tf.ragged.constant(column, tf.string).to_tensor("")


def _is_input(value, spec):
    if spec.shape.rank == 1:
        return isinstance(value, str)
    return isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)

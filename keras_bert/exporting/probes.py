"""Probes: inputs for each signature of an export, and the answers to them, by which a SavedModel is verified."""

import numpy as np
import tensorflow as tf

from keras_bert.text.token_counts import TOKENS

# A long and a short text, accents, another script, an empty text.
_TEXTS = (
    "The old house by the river was sold to a couple from Toronto last week.",
    "Très bien, naïve café!",
    "今天天气很好。",
    "",
)
_PAIRS = ("A couple from Toronto bought the house.", "Who sold it?", "Yes", "Nothing was said.")
_CHOICES = (("It rained.", "It was sold.", ""),) * len(_TEXTS)
_LABELS = (("houses", "food", ""), ("weather", "food", "houses")) * (len(_TEXTS) // 2)


def probes_of(signatures, graphs=None):
    """Returns the inputs of the probes and the answers to them by the name of the signature.

    `signatures` are `tf.function`s. They run eagerly, or their graphs, if `graphs` has these by name.
    """
    probes = {}
    for name, signature in signatures.items():
        function = signature.python_function if graphs is None else graphs[name]
        inputs = probe_inputs(name, signature)
        with tf.init_scope():
            outputs = function(*inputs.values())
        probes[name] = inputs, outputs
    return probes


def probe_inputs(name, function):
    """Returns the inputs of the probe of a signature, tensors by name."""
    # Numbers beside texts have a row for each.
    has_texts = any(spec.dtype == tf.string for spec in function.input_signature)
    rows = len(_TEXTS) if has_texts else 2
    return {spec.name: _example(name, spec, rows) for spec in function.input_signature}


def longest_probe(preprocessor, pair):
    """Returns the number of tokens of the longest text of the probes."""
    texts = [f"{text} [MASK]." for text in _TEXTS]
    _, counts = preprocessor.counted((texts, list(_PAIRS)) if pair else texts)
    return int(max(counts[TOKENS]))


def _example(name, spec, rows):
    """Returns the value of an input in the probe of a signature, with the rank and the sizes of its `TensorSpec`."""
    _check_batch(name, spec)
    if spec.dtype == tf.string:
        return tf.constant(_strings(name, spec, rows))
    shape = _example_shape(spec, rows)
    if spec.name in ("padding_mask", "source_mask", "target_mask"):
        numbers = tf.ones(shape, tf.int32)
    elif spec.name == "segment_ids":
        numbers = tf.zeros(shape, tf.int32)
    else:
        numbers = tf.reshape(tf.range(tf.reduce_prod(shape)), shape) // 2 % 3
    return tf.cast(numbers, spec.dtype)


def _check_batch(name, spec):
    """Raises for an input of a signature without a free batch dimension."""
    if spec.shape.rank is None or not spec.shape.rank or spec.shape[0] is not None:
        raise ValueError(
            "inputs of signatures must have a known rank, and a free first dimension, the rows of a request, such as "
            f"tf.TensorSpec([None], tf.string). Received: {spec.name} of the signature {name} with shape={spec.shape}"
        )


def _example_shape(spec, rows):
    """Returns the sizes of an input; free ones are the same for all inputs."""
    shape = [rows]
    for axis, size in enumerate(spec.shape[1:]):
        shape.append(size or 3 + axis)
    return shape


def _strings(name, spec, rows):
    """Returns the strings of an input: those that suit its name, or texts in the shape of the `TensorSpec`."""
    if name in ("classify", "regress") and spec.name == "inputs":
        return [_serialized(text, pair) for text, pair in zip(_TEXTS, _PAIRS, strict=True)]
    suitable = _suitable_strings(spec.name)
    if spec.shape.is_compatible_with(np.shape(suitable)):
        return suitable
    # Some strings are empty, as in lists that are shorter than those of other rows.
    shape = _example_shape(spec, rows)
    places = np.indices(shape).sum(0) % len(_TEXTS)
    return np.array(_TEXTS, object)[places].tolist()


def _suitable_strings(name):
    """Returns the strings for an input of this name."""
    if name == "text":
        return [f"{text} [MASK]." for text in _TEXTS]
    if name in ("pair", "question"):
        return _PAIRS
    if name == "choices":
        return _CHOICES
    if name == "labels":
        return _LABELS
    return _TEXTS


def _serialized(text, pair):
    """Returns a `tf.Example` with a text and its pair, as bytes."""
    features = {}
    for name, value in (("text", text), ("pair", pair)):
        features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()

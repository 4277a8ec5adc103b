"""Functions as signatures."""

import tensorflow as tf


def texts(answer, *names):
    """A `tf.function` of strings `(batch,)` by name from a function of a dict of them."""
    specs = [tf.TensorSpec([None], tf.string, name) for name in names]
    if len(names) == 1:
        return tf.function(lambda first: answer({names[0]: first}), input_signature=specs)
    return tf.function(lambda first, second: answer({names[0]: first, names[1]: second}), input_signature=specs)


def readable(strings):
    """Strings without the bytes that are no UTF-8, which JSON could not hold; others stay as they are."""
    return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="ignore")

"""Runs a model on texts of any length, in overlapping windows."""

import tensorflow as tf

from keras_bert.text.spans import sliding_windows, window_slices

_ROWS = 32  # Windows per model call; more would only need more memory.


def run_windows(model, preprocessor, pieces, question=None, stride: int = 128):
    """Runs a model on windows of long texts, whose starts are `stride` tokens apart.

    `pieces` are ragged token ids `(batch, tokens)`, and so is the question that precedes every window. Returns the
    `Windows`; the position of the first token of each, `(windows,)`; the outputs, `(windows, positions, ...)`.
    """
    asked = 0 if question is None else tf.cast(question.row_lengths(), tf.int32)
    windows = sliding_windows(pieces.row_lengths(), preprocessor.room(question is not None) - asked, stride)
    slices = window_slices(pieces, windows)
    first = tf.ones_like(windows.start)
    if question is None:
        inputs = preprocessor.pack(slices)
    else:
        inputs = preprocessor.pack(tf.gather(question, windows.example), slices)
        first += tf.gather(asked, windows.example) + preprocessor.vocabulary.pair_separators
    return windows, first, _in_parts(model, inputs)


def _in_parts(model, inputs):
    """Returns the outputs of a model for all rows, computed `_ROWS` at a time to limit memory."""
    rows, length = tf.unstack(tf.shape(inputs["token_ids"]))
    empty = {
        name: tf.zeros([0, length, *output.shape[2:]], output.dtype) for name, output in sorted(model.output.items())
    }

    def some(start, outputs):
        part = model({name: value[start : start + _ROWS] for name, value in inputs.items()}, training=False)
        return start + _ROWS, {name: tf.concat([outputs[name], part[name]], 0) for name in outputs}

    invariants = {name: tf.TensorShape([None, *output.shape[1:]]) for name, output in empty.items()}
    return tf.while_loop(
        lambda start, _: start < rows, some, (0, empty), shape_invariants=(tf.TensorShape([]), invariants)
    )[1]

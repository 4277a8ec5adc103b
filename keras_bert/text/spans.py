"""Answers in long passages: sliding windows over a passage, and the best spans of all windows."""

from typing import NamedTuple

import tensorflow as tf

_NEVER = float("-inf")
_ROWS = 32  # Windows per model call; more would only need more memory.


class Windows(NamedTuple):
    """The windows of a batch of passages, in order. All fields are int32 `(windows,)`."""

    example: tf.Tensor
    start: tf.Tensor  # The first token, counted from the start of the passage.
    length: tf.Tensor


class Spans(NamedTuple):
    """The best spans of each example, best first, `(examples, count)`; padded with -1, `score` with -inf."""

    start: tf.Tensor  # The first and the last token, counted from the start of the passage.
    end: tf.Tensor
    score: tf.Tensor
    window: tf.Tensor  # The row of `Windows`.
    null_score: tf.Tensor  # (examples,): the score of no answer.


def require(condition, message, **received):
    """Returns the value of `received` if `condition` holds; otherwise raises a ValueError (in a graph, asserts)."""
    ((name, value),) = received.items()
    condition = tf.reduce_all(condition)
    if not tf.executing_eagerly():
        with tf.control_dependencies([tf.debugging.Assert(condition, [f"{message}. Received: {name}=", value])]):
            return tf.identity(value)
    if not condition:
        raise ValueError(f"{message}. Received: {name}={value}")
    return value


def sliding_windows(lengths, room, stride):
    """Splits passages into overlapping `Windows`, as in Google's `run_squad.py`.

    Args:
        lengths: `(examples,)`, the number of tokens of each passage. An empty passage has one empty window.
        room: the maximum number of tokens of a window, `(examples,)` or one number for all.
        stride: int, the distance between the starts of windows, limited to `room`.
    """
    if stride < 1:
        raise ValueError(f"`stride` must be at least 1. Received: stride={stride}")
    lengths = tf.cast(lengths, tf.int32)
    room = tf.broadcast_to(tf.cast(room, tf.int32), tf.shape(lengths))
    room = require(room >= 1, "`room` must be at least 1, but a question leaves no room for its passage", room=room)
    step = tf.minimum(room, stride)
    count = 1 + tf.maximum(0, -((room - lengths) // step))  # Rounded up.
    example = tf.repeat(tf.range(tf.size(lengths)), count)
    start = tf.ragged.range(count).values * tf.gather(step, example)
    length = tf.minimum(tf.gather(room, example), tf.gather(lengths, example) - start)
    return Windows(example, start, length)


def half_stride(sequence_length):
    """Returns the distance between windows that overlap by half, for sequences with `[CLS]` and `[SEP]`."""
    return max(1, (sequence_length - 2) // 2)


def window_slices(values, windows):
    """Slices a ragged tensor `(examples, tokens, ...)` into windows, ragged `(windows, tokens, ...)`."""
    dtype = values.row_splits.dtype
    first = tf.gather(values.row_starts(), windows.example) + tf.cast(windows.start, dtype)
    pieces = tf.ragged.range(first, first + tf.cast(windows.length, dtype), row_splits_dtype=dtype)
    return pieces.with_values(tf.gather(values.values, pieces.values))


def max_context(windows):
    """Marks, as ragged bool `(windows, tokens)`, each token in the one window that gives it the most context."""
    left = tf.ragged.range(windows.length)
    window = left.value_rowids()
    length = tf.gather(windows.length, window)
    # In double precision, like Google's Python code, for the same ties and rounding.
    context = tf.cast(tf.minimum(left.values, length - 1 - left.values), tf.float64)
    context += 0.01 * tf.cast(length, tf.float64)
    # Number the tokens of all passages.
    sizes = tf.math.segment_max(windows.start + windows.length, windows.example)
    piece = tf.gather(tf.cumsum(sizes, exclusive=True), windows.example) + windows.start
    piece = tf.gather(piece, window) + left.values
    most = tf.math.unsorted_segment_max(context, piece, tf.reduce_sum(sizes))
    rivals = tf.where(context == tf.gather(most, piece), window, tf.int32.max)
    first = tf.math.unsorted_segment_min(rivals, piece, tf.reduce_sum(sizes))
    return left.with_values(window == tf.gather(first, piece))


def best_spans(start_logits, end_logits, windows, offset, valid=None, max_answer_length=30, count=20):
    """Finds the spans with the highest sum of start and end logits over all windows of each example.

    Ties are resolved by the first window, then the lowest start, then the lowest end.

    Args:
        start_logits, end_logits: `(windows, positions)`, over the packed sequences.
        windows: `Windows`.
        offset: `(windows,)`, the position of the first token of the passage: question length + 2.
        valid: ragged bool, tokens where a span may start, see `max_context`. By default, spans may repeat over windows.
        max_answer_length: int, the maximum number of tokens of a span. Defaults to 30.
        count: int, the number of spans. Defaults to 20.

    Returns:
        `Spans`.
    """
    for name, value in (("max_answer_length", max_answer_length), ("count", count)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")
    start_logits, end_logits = tf.cast(start_logits, tf.float32), tf.cast(end_logits, tf.float32)
    score, start, end = _window_spans(start_logits, end_logits, windows, offset, valid, max_answer_length, count)
    # (windows, count) to (examples, candidates); the padding handles a batch without windows.
    examples = tf.reduce_max(tf.concat([[0], windows.example + 1], 0))
    rows = tf.RaggedTensor.from_value_rowids(_flat(score), tf.repeat(windows.example, count), nrows=examples)
    candidates = tf.pad(rows.to_tensor(_NEVER), [[0, 0], [0, count]], constant_values=_NEVER)
    score, index = tf.math.top_k(candidates, count)
    exists = score > _NEVER
    index = tf.where(exists, index + rows.row_starts()[:, None], 0)
    start = tf.where(exists, tf.gather(_flat(start), index), -1)
    end = tf.where(exists, tf.gather(_flat(end), index), -1)
    window = tf.where(exists, index // count, -1)
    null_score = tf.math.unsorted_segment_min(start_logits[:, 0] + end_logits[:, 0], windows.example, examples)
    return Spans(start, end, score, window, null_score)


def _window_spans(start_logits, end_logits, windows, offset, valid, max_answer_length, count):
    """Returns score, first and last token of the best spans of each window, `(windows, count)` each."""
    positions = tf.shape(start_logits)[1]
    message = "`offset` must leave all tokens of a window inside the sequence of the logits"
    offset = tf.cast(offset, tf.int32)
    offset = require(offset + windows.length <= positions, message, offset=offset)
    # Only the logits of the passage; at least `count` columns, as `top_k` requires.
    length = tf.maximum(tf.reduce_max(windows.length), count)
    position = tf.minimum(offset[:, None] + tf.range(length), positions - 1)
    inside = tf.sequence_mask(windows.length, length)
    startable = inside if valid is None else inside & valid.to_tensor(False, shape=tf.stack([-1, length]))
    start = tf.where(startable, tf.gather(start_logits, position, batch_dims=1), _NEVER)
    end = tf.where(inside, tf.gather(end_logits, position, batch_dims=1), _NEVER)
    # Differs from BERT: considers all spans; Google only pairs the `count` best starts with the `count` best ends.
    width = tf.minimum(length, max_answer_length)
    reach = tf.range(length)[:, None] + tf.range(width)
    end = tf.gather(tf.pad(end, [[0, 0], [0, width]], constant_values=_NEVER), reach, axis=1)
    band = start[:, :, None] + end  # (windows, tokens, answer length)
    score, place = tf.math.top_k(tf.reshape(band, [-1, length * width]), count)
    start = windows.start[:, None] + place // width
    return score, start, start + place % width


def _flat(values):
    return tf.reshape(values, [-1])


def span_probabilities(scores):
    """Computes the softmax over the spans of each example, as in Google's n-best list; 0 for padding."""
    return tf.where(scores > _NEVER, tf.nn.softmax(scores), 0.0)


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

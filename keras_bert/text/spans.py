"""Answers in long passages: the best spans of all views of a passage."""

from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.graph_checks import require

_NEVER = float("-inf")


class Spans(NamedTuple):
    """The best spans of each row, best first, `(rows, count)`; padded with -1, `score` with -inf."""

    start: tf.Tensor  # The first and the last token, counted from the start of the passage.
    end: tf.Tensor
    score: tf.Tensor
    view: tf.Tensor  # The index in `Views`.
    null_score: tf.Tensor  # (rows,): the score of no answer.


def best_spans(start_logits, end_logits, views, offset, valid=None, max_answer_length=30, count=20):
    """Finds the spans with the highest sum of start and end logits over all views of each row.

    Ties are resolved by the first view, then the lowest start, then the lowest end. No span has a gap.

    Args:
        start_logits, end_logits: `(views, positions)`, over the packed sequences.
        views: `Views` of the passages.
        offset: `(views,)`, the position of the first token of the passage: question length + 2.
        valid: ragged bool, tokens where a span may start, see `max_context`. By default, spans may repeat over views.
        max_answer_length: int, the maximum number of tokens of a span. Defaults to 30.
        count: int, the number of spans. Defaults to 20.

    Returns:
        `Spans`.
    """
    for name, value in (("max_answer_length", max_answer_length), ("count", count)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")
    start_logits = tf.cast(start_logits, tf.float32)
    end_logits = tf.cast(end_logits, tf.float32)
    # At least `count` tokens of a view, as `top_k` requires.
    length = tf.maximum(tf.reduce_max(views.length), count)
    of_starts, of_ends = _logits_of_passages(start_logits, end_logits, views, offset, valid, length)
    width = tf.minimum(length, max_answer_length)
    scores = _scores_of_spans(of_starts, of_ends, views.gap, length, width)
    score, start, end = _best_of_each_view(scores, views, count)
    # (views, count) to (rows, candidates); the padding handles a batch without views.
    row_count = tf.reduce_max(tf.concat([[0], views.row + 1], 0))
    row_of_span = tf.repeat(views.row, count)
    of_rows = tf.RaggedTensor.from_value_rowids(_flat(score), row_of_span, nrows=row_count)
    candidates = tf.pad(of_rows.to_tensor(_NEVER), [[0, 0], [0, count]], constant_values=_NEVER)
    best_score, candidate = tf.math.top_k(candidates, count)
    exists = best_score > _NEVER
    index = tf.where(exists, candidate + of_rows.row_starts()[:, None], 0)
    null_scores = start_logits[:, 0] + end_logits[:, 0]
    return Spans(
        start=tf.where(exists, tf.gather(_flat(start), index), -1),
        end=tf.where(exists, tf.gather(_flat(end), index), -1),
        score=best_score,
        view=tf.where(exists, index // count, -1),
        null_score=tf.math.unsorted_segment_min(null_scores, views.row, row_count),
    )


def _logits_of_passages(start_logits, end_logits, views, offset, valid, length):
    """Returns the logits of the tokens of each view, `(views, length)` each, -inf where no span starts or ends."""
    positions = tf.shape(start_logits)[1]
    message = "`offset` must leave all tokens of a view inside the sequence of the logits"
    offset = tf.cast(offset, tf.int32)
    offset = require(offset + views.length <= positions, message, offset=offset)
    position = tf.minimum(offset[:, None] + tf.range(length), positions - 1)
    is_inside = tf.sequence_mask(views.length, length)
    may_start = is_inside
    if valid is not None:
        may_start = is_inside & valid.to_tensor(False, shape=tf.stack([-1, length]))
    of_starts = tf.where(may_start, tf.gather(start_logits, position, batch_dims=1), _NEVER)
    of_ends = tf.where(is_inside, tf.gather(end_logits, position, batch_dims=1), _NEVER)
    return of_starts, of_ends


def _scores_of_spans(of_starts, of_ends, gap, length, width):
    """Returns the scores of all spans by their first token in the view and their number of tokens, -inf for none.

    The logits are `(views, length)`, the scores `(views, length, width)`.
    """
    # Differs from BERT: considers all spans; Google only pairs the `count` best starts with the `count` best ends.
    first = tf.range(length)[:, None]
    last = first + tf.range(width)
    padded_ends = tf.pad(of_ends, [[0, 0], [0, width]], constant_values=_NEVER)
    scores = of_starts[:, :, None] + tf.gather(padded_ends, last, axis=1)
    if gap is None:
        return scores
    return tf.where(_crosses(gap, first, last), _NEVER, scores)


def _crosses(gap, first, last):
    """Whether spans of views from `first` to `last`, broadcast to `(tokens, lengths)`, have a gap inside."""
    after = gap.after[:, None, None]
    is_there = gap.size[:, None, None] > 0
    return is_there & (first < after) & (last >= after)


def _best_of_each_view(scores, views, count):
    """Returns score, first and last token of the best spans of each view, `(views, count)` each."""
    width = tf.shape(scores)[2]
    score, place = tf.math.top_k(tf.reshape(scores, [-1, tf.shape(scores)[1] * width]), count)
    first = place // width
    last = first + place % width
    return score, views.places_in_each(first), views.places_in_each(last)


def _flat(values):
    return tf.reshape(values, [-1])


def span_probabilities(scores):
    """Computes the softmax over the spans of each row, as in Google's n-best list; 0 for padding."""
    return tf.where(scores > _NEVER, tf.nn.softmax(scores), 0.0)

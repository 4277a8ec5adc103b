"""The question answering signature: a span of a context of any length."""

import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.heads.answers import CANDIDATES
from keras_bert.heads.class_settings import checked_null_threshold
from keras_bert.text import packing
from keras_bert.text.signatures import readable, texts
from keras_bert.text.spans import span_probabilities
from keras_bert.text.token_counts import READ, TOKENS, with_counts
from keras_bert.text.viewed_texts import ViewedTexts, offsets_at
from keras_bert.text.views import SlidingWindows


def answerer(
    model,
    preprocessor,
    doc_stride=128,
    max_question_length=64,
    max_answer_length=30,
    n_best=1,
    null_threshold=None,
):
    """Returns the question answering signature: the best span over all windows of the context.

    Windows start `doc_stride` tokens apart.

    Its `probability` is that among the 20 best spans and, with a null threshold, no answer. If `n_best` is above 1, the
    outputs also contain this many answers with probabilities. The answer is empty if `null_score` exceeds the best
    score by more than `null_threshold`; with `None`, there is always an answer, and no `null_score`.
    """
    check_count("doc_stride", doc_stride)
    check_count("max_question_length", max_question_length)
    check_count("max_answer_length", max_answer_length)
    check_count("n_best", n_best)
    null_threshold = checked_null_threshold(null_threshold)
    _check_room(preprocessor)
    tokenizer = preprocessor.tokenizer
    windows = SlidingWindows(doc_stride=doc_stride)
    question_length = preprocessor.packing.question_room(max_question_length)
    candidates = max(n_best, CANDIDATES)

    def answer(inputs):
        context = inputs["context"]
        whole_question = tokenizer(inputs["question"])
        question = packing.cut(whole_question, question_length)
        ids, starts, ends = tokenizer.with_offsets(context)
        counts = {
            TOKENS: preprocessor.packing.token_counts(whole_question, ids)[TOKENS],
            READ: preprocessor.packing.token_counts(question, ids)[TOKENS],  # All of the context, in windows.
        }
        viewed = ViewedTexts(preprocessor, windows, ids, before=question)
        outputs = viewed.outputs(model)
        spans = viewed.best_spans(
            outputs["start_logits"],
            outputs["end_logits"],
            max_answer_length,
            candidates,
        )
        answers = _answers(spans, context, starts, ends, n_best, null_threshold)
        return with_counts(answers, counts)

    return {"serving_default": texts(answer, "question", "context")}


def _check_room(preprocessor):
    """Raises if no token of a context fits."""
    if preprocessor.packing.room(pair=True) < 1:
        raise ValueError(
            f"`sequence_length` must be at least {3 + preprocessor.vocabulary.pair_separators}, for [CLS], each [SEP] "
            f"and a token of the context. Received: sequence_length={preprocessor.sequence_length}"
        )


def _answers(spans, context, starts, ends, n_best, null_threshold):
    """Returns the outputs of the signature, given the best `Spans`, and the byte offsets of the tokens of contexts."""
    exists = (spans.start >= 0)[:, :n_best]
    scores = spans.score
    if null_threshold is not None:
        exists &= (spans.null_score - scores[:, 0] <= null_threshold)[:, None]
        scores = tf.concat([scores, spans.null_score[:, None]], 1)
    shares = span_probabilities(scores)
    start = tf.where(exists, offsets_at(starts, spans.start[:, :n_best]), -1)
    end = tf.where(exists, offsets_at(ends, spans.end[:, :n_best]), -1)
    several = {
        "answers": _substrings(context, start, end, exists, n_best),
        "scores": tf.maximum(spans.score[:, :n_best], tf.float32.min),  # JSON has no infinity.
        "starts": start,
        "ends": end,
    }
    outputs = {
        "answer": several["answers"][:, 0],
        "score": several["scores"][:, 0],
        "start": start[:, 0],
        "end": end[:, 0],
    }
    if n_best > 1:
        outputs.update(several, probabilities=span_probabilities(spans.score[:, :n_best]))
    outputs["probability"] = tf.where(exists[:, 0], shares[:, 0], shares[:, -1])
    if null_threshold is not None:
        outputs["null_score"] = spans.null_score
    return outputs


def _substrings(text, start, end, exists, count):
    """Returns `count` substrings of each text, `(batch, count)`, "" for those that do not exist."""
    repeated = tf.repeat(text[:, None], count, 1)
    size = tf.where(exists, end - start, 0)
    return readable(tf.strings.substr(repeated, tf.maximum(start, 0), size))

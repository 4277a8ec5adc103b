"""The signatures of classification and regression."""

import numpy as np
import tensorflow as tf

from keras_bert.heads.class_settings import THRESHOLD, checked_thresholds, cuts, placeholders
from keras_bert.heads.confidence import OF_SEVERAL, Confidence, checked_confidence
from keras_bert.heads.zero_shot import with_nli
from keras_bert.text.signatures import (
    in_groups,
    outputs_of_texts,
    rows_of_call,
    speaks_for_class,
    speaks_for_label,
    texts,
    traced_once,
)
from keras_bert.text.token_counts import with_counts


def classifier(
    model,
    preprocessor,
    labels,
    pair,
    rows_together=8,
    logits=False,
    zero_shot=None,
    confidence=None,
):
    """Returns the signatures of a classifier; a `ZeroShot` adds the signature `zero_shot`.

    `rows_together` is that of `in_groups`; `logits` adds the output `logits`. `confidence` is a dict, see `Confidence`:
    with a threshold there is the output `answered`, and the label of texts below it is empty.
    """
    sure = Confidence.of(confidence)

    def decide(scores, names):
        probabilities = tf.nn.softmax(sure.scaled(scores))
        best = tf.gather(names, tf.argmax(probabilities, -1))
        if sure.threshold is None:
            return {"label": best, "probabilities": probabilities}
        answered = tf.reduce_max(probabilities, -1) >= sure.threshold
        label = tf.where(answered, best, tf.zeros_like(best))
        return {"label": label, "answered": answered, "probabilities": probabilities}

    scores_of = _counted_scores(model, preprocessor, rows_together, speaks=speaks_for_class)
    signatures = _classifier(scores_of, model, labels, pair, logits, decide)
    if zero_shot is None:
        return signatures
    if not pair:
        raise ValueError("zero-shot classification needs a classifier of pairs. Received: pair=False")
    if preprocessor.reads_windows:
        raise ValueError(
            "zero-shot classification reads one sequence of a text. Expected another `long_texts`, such as 'head'. "
            "Received: long_texts='windows'"
        )

    def scores_of_pairs(text, hypotheses):
        return scores_of({"text": text, "pair": hypotheses})

    signatures["zero_shot"] = with_nli(zero_shot, scores_of_pairs, labels)
    return signatures


def multi_label_classifier(
    model,
    preprocessor,
    labels,
    pair,
    thresholds=None,
    rows_together=8,
    logits=False,
    confidence=None,
):
    """Returns the signatures of a multi-label classifier, whose probabilities are sigmoids of the logits.

    `thresholds` are the lowest probabilities at which a label is predicted: a float for all labels, or one for each.
    The temperature of `confidence` divides the logits before.
    """
    sure = Confidence.of(checked_confidence(confidence, OF_SEVERAL))
    classes = model.output["logits"].shape[-1]
    if thresholds is None:
        thresholds = THRESHOLD
    else:
        thresholds = checked_thresholds(thresholds, classes)
    lowest = tf.constant(np.broadcast_to(cuts(thresholds), [classes]), tf.float32)

    def decide(scores, _):
        scaled = sure.scaled(scores)
        return {"predicted": scaled >= lowest, "probabilities": tf.nn.sigmoid(scaled)}

    scores_of = _counted_scores(model, preprocessor, rows_together, speaks=speaks_for_label)
    return _classifier(scores_of, model, labels, pair, logits, decide)


def _classifier(scores_of, model, labels, pair, logits, decide):
    """Returns the signatures; `classify` takes `tf.Example`s, like TensorFlow Serving's Classify API.

    `decide` is a function from logits and labels to outputs, with `probabilities`.
    """
    labels = labels or placeholders(model.output["logits"].shape[-1])

    def answer(inputs):
        scores, counts = scores_of(inputs)
        # One row per text: TensorFlow Serving requires outputs that start with the batch dimension.
        repeated = tf.tile(tf.constant([labels]), [tf.shape(scores)[0], 1])
        answers = decide(scores, tf.constant(labels))
        answers["labels"] = repeated
        if logits:
            answers["logits"] = scores
        return with_counts(answers, counts)

    def classify(inputs):
        answers = answer(_from_examples(inputs["inputs"], pair))
        return {"classes": answers["labels"], "scores": answers["probabilities"]}

    return {"serving_default": texts(answer, *_names(pair)), "classify": texts(classify, "inputs")}


def regressor(model, preprocessor, pair, description, rows_together=8, logits=False):
    """Returns the signatures of a regression model; `regress` takes `tf.Example`s."""
    is_sigmoid = description.score_activation == "sigmoid"  # Scores between 0 and 1.
    scores_of = _counted_scores(model, preprocessor, rows_together)

    def answer(inputs):
        scores, counts = scores_of(inputs)
        values = tf.nn.sigmoid(scores) if is_sigmoid else scores
        answers = {"value": values[:, 0]}
        if logits:
            answers["logits"] = scores
        return with_counts(answers, counts)

    def regress(inputs):
        answers = answer(_from_examples(inputs["inputs"], pair))
        return {"outputs": answers["value"]}

    return {"serving_default": texts(answer, *_names(pair)), "regress": texts(regress, "inputs")}


def _counted_scores(model, preprocessor, rows_together, speaks=None):
    """Returns a function from texts to logits and the numbers of tokens, which all signatures share.

    `speaks` is that of `outputs_of_texts`, `None` for numbers rather than classes.
    """
    classes = model.output["logits"].shape[-1]
    rows_together = rows_of_call(preprocessor, rows_together)

    def logits(inputs):
        return model(inputs, training=False)["logits"]

    def logits_in_groups(inputs):
        return {"logits": in_groups(logits, inputs, [classes], rows_together)}

    deciding = None if speaks is None else "logits"

    def counted_scores(inputs):
        outputs, counts = outputs_of_texts(logits_in_groups, preprocessor, inputs, deciding, speaks)
        return outputs["logits"], counts

    return traced_once(counted_scores)


def _names(pair):
    return ("text", "pair") if pair else ("text",)


def _from_examples(serialized, pair):
    features = {name: tf.io.FixedLenFeature([], tf.string) for name in _names(pair)}
    return tf.io.parse_example(serialized, features)

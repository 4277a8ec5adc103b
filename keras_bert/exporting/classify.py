"""The signatures of classification, regression and multiple choice."""

import tensorflow as tf

from keras_bert.exporting.signatures import in_groups, texts


def classifier(model, preprocessor, labels, pair, multi_label=False, rows_together=8):
    """Returns the signatures of a classifier; `classify` takes `tf.Example`s, like TensorFlow Serving's Classify API.

    With `multi_label`, the probabilities are sigmoids of the logits. For `rows_together` see `in_groups`.
    """
    if labels is None:
        labels = [f"LABEL_{index}" for index in range(model.output["logits"].shape[-1])]

    def answer(inputs):
        logits = _logits(model, preprocessor(inputs), rows_together)
        probabilities = tf.nn.sigmoid(logits) if multi_label else tf.nn.softmax(logits)
        label = tf.gather(tf.constant(labels), tf.argmax(probabilities, -1))
        return {
            **({"predicted": logits >= 0} if multi_label else {"label": label}),
            "probabilities": probabilities,
            # One row per text: TensorFlow Serving requires outputs that start with the batch dimension.
            "labels": tf.tile(tf.constant([labels]), [tf.shape(probabilities)[0], 1]),
        }

    def classify(inputs):
        answers = answer(_from_examples(inputs["inputs"], pair))
        return {"classes": answers["labels"], "scores": answers["probabilities"]}

    return {"serving_default": texts(answer, *_names(pair)), "classify": texts(classify, "inputs")}


def regressor(model, preprocessor, pair, rows_together=8):
    """Returns the signatures of a regression model; `regress` takes `tf.Example`s."""

    def answer(inputs):
        return {"score": _logits(model, preprocessor(inputs), rows_together)[:, 0]}

    def regress(inputs):
        return {"outputs": answer(_from_examples(inputs["inputs"], pair))["score"]}

    return {"serving_default": texts(answer, *_names(pair)), "regress": texts(regress, "inputs")}


def chooser(model, preprocessor):
    """Returns the multiple choice signature: `text` `(batch,)`, `choices` `(batch, choices)`, `""` for none."""

    def answer(text, choices):
        logits = model(preprocessor.with_choices(text, choices), training=False)["logits"]
        return {"choice": tf.argmax(logits, -1, tf.int32), "probabilities": tf.nn.softmax(logits)}

    specs = tf.TensorSpec([None], tf.string, "text"), tf.TensorSpec([None, None], tf.string, "choices")
    return {"serving_default": tf.function(answer, input_signature=specs, autograph=False)}


def _logits(model, inputs, rows_together):
    classes = model.output["logits"].shape[-1]
    return in_groups(lambda part: model(part, training=False)["logits"], inputs, [classes], rows_together)


def _names(pair):
    return ("text", "pair") if pair else ("text",)


def _from_examples(serialized, pair):
    features = {name: tf.io.FixedLenFeature([], tf.string) for name in _names(pair)}
    return tf.io.parse_example(serialized, features)

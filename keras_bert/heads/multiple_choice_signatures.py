"""The multiple choice signature: a text with any number of choices."""

import tensorflow as tf


def chooser(model, preprocessor):
    """Returns the multiple choice signature: `text` `(batch,)`, `choices` `(batch, choices)`, `""` for none."""

    def answer(text, choices):
        has_choices = tf.debugging.Assert(tf.shape(choices)[1] > 0, ["`choices` must not be empty lists"])
        with tf.control_dependencies([has_choices]):
            choices = tf.identity(choices)
        logits = model(preprocessor.with_choices(text, choices), training=False)["logits"]
        return {"choice": tf.argmax(logits, -1, tf.int32), "probabilities": tf.nn.softmax(logits)}

    specs = tf.TensorSpec([None], tf.string, "text"), tf.TensorSpec([None, None], tf.string, "choices")
    return {"serving_default": tf.function(answer, input_signature=specs, autograph=False)}

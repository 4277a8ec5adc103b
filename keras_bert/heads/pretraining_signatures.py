"""The signatures of pre-trained models: fill-mask and next sentence prediction."""

import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.text.signatures import texts


def mask_filler(model, preprocessor, top=5):
    """Returns the signatures of a pre-trained model: `top` tokens for each [MASK], and next sentence prediction.

    The preprocessor must keep [MASK] intact.
    """
    check_count("top", top)
    top = min(top, len(preprocessor.vocabulary))
    pieces, mask = tf.constant(list(preprocessor.vocabulary.pieces)), preprocessor.vocabulary.id("[MASK]")

    def fill(inputs):
        inputs = preprocessor(inputs)
        masked = inputs["token_ids"] == mask
        count = tf.reduce_sum(tf.cast(masked, tf.int32), 1)
        width = tf.reduce_max(tf.pad(count, [[0, 1]]))
        places = tf.argsort(tf.cast(masked, tf.int32), direction="DESCENDING", stable=True)[:, :width]
        logits = model({**inputs, "mask_positions": places}, training=False)["mlm_logits"]
        if logits.shape[-1] > len(pieces):  # A table with spare rows.
            logits = logits[..., : len(pieces)]
        probabilities, ids = tf.math.top_k(tf.nn.softmax(logits), top)
        there = tf.sequence_mask(count, width)[..., None]
        return {
            "tokens": tf.where(there, tf.gather(pieces, ids), ""),
            "probabilities": tf.where(there, probabilities, 0.0),
            "mask_count": count,
        }

    signatures = {"serving_default": texts(fill, "text")}
    if "nsp_logits" in model.output:
        signatures["next_sentence"] = follower(model, preprocessor)["serving_default"]
    return signatures


def follower(model, preprocessor):
    """Returns the next sentence prediction signature: `text`, `pair` -> `probability`."""

    def answer(inputs):
        inputs = preprocessor(inputs)
        if "mask_positions" in model.input:
            inputs["mask_positions"] = tf.zeros([tf.shape(inputs["token_ids"])[0], 0], tf.int32)
        return {"probability": tf.nn.softmax(model(inputs, training=False)["nsp_logits"])[:, 0]}

    return {"serving_default": texts(answer, "text", "pair")}

"""The signature of replaced token detection: the pieces of texts of any length."""

import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.heads.token_classification_signatures import dense_offsets, logits_of_pieces, slices
from keras_bert.text.signatures import texts
from keras_bert.text.spans import half_stride


def replaced_token_detector(model, preprocessor, stride=None):
    """Returns the replaced token detection signature: the pieces of texts of any length, with their probabilities.

    Windows start `stride` pieces apart, by default half a window.
    """
    stride = half_stride(preprocessor.sequence_length) if stride is None else stride
    check_count("stride", stride)

    def answer(inputs):
        text = inputs["text"]
        ids, starts, ends = preprocessor.tokenizer.with_offsets(text)
        scores = ids.with_values(tf.sigmoid(logits_of_pieces(model, preprocessor, ids, stride))).to_tensor(0.0)
        return {
            "tokens": slices(text, starts, ends),
            "replaced": scores > 0.5,
            "scores": scores,
            "starts": dense_offsets(starts),
            "ends": dense_offsets(ends),
            "token_count": tf.cast(ids.row_lengths(), tf.int32),
        }

    return {"serving_default": texts(answer, "text")}

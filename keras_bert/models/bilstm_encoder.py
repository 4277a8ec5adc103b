"""A BiLSTM on top of the encoder (BERT, section 5.1, last row of table 5), trained with it."""

import keras

from keras_bert.models.encoder import add_bilstm, describe_encoder


def build_bilstm_encoder(encoder: keras.Model) -> keras.Model:
    """Adds a randomly initialized BiLSTM on top of an encoder, so that each token also sees its right context.

    Heads are built on it as on any encoder. The last state is pooled as in the encoder, by a new pooler.

    Args:
        encoder: a model from `build_encoder`.

    Returns:
        A `keras.Model` with the inputs of `encoder`. Outputs: `sequence_output` `(batch, length, hidden_size)`, zeros
        at padding, and `pooled_output` `(batch, hidden_size)`; `hidden_states` and `attention_scores` of the encoder
        if it has them.

    Example:
        encoder = build_bilstm_encoder(build_encoder(named_config("tiny"), causal=True))
        model = build_span_labeler(encoder)
    """
    description = describe_encoder(encoder)
    if description.bilstm:
        raise ValueError("`encoder` must be a model from build_encoder. Received: an encoder with a BiLSTM on top")
    if (width := description.config.hidden_size) % 2:
        raise ValueError(f"a BiLSTM needs an even `hidden_size`. Received: hidden_size={width}")
    return add_bilstm(encoder, description)

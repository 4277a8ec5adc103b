"""A BiLSTM on top of the encoder (BERT, section 5.1, last row of table 5), trained with it."""

import keras

from keras_bert.layers import BiLSTM, Pooler
from keras_bert.models.description import describe_encoder


def build_bilstm_encoder(encoder):
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
    # Layers
    encoding = describe_encoder(encoder)
    if encoding.bilstm:
        raise ValueError("`encoder` must be a model from build_encoder. Received: an encoder with a BiLSTM on top")
    config, causal = encoding.config, encoding.causal
    if config.hidden_size % 2:
        raise ValueError(f"a BiLSTM needs an even `hidden_size`. Received: hidden_size={config.hidden_size}")
    prefix = encoding.layers["pooler"].name.removesuffix("pooler")
    bilstm = BiLSTM(config.hidden_size // 2, dtype=encoding.dtype, name=f"{prefix}encoder_bilstm")
    pooler = Pooler(config.hidden_size, config.initializer_range, causal, dtype=encoding.dtype, name=f"{prefix}pooler")

    # Wiring
    mask = encoder.input["padding_mask"]
    sequence = bilstm(encoder.output["sequence_output"], mask)
    pooled = pooler(sequence, mask) if causal else pooler(sequence)

    # Model
    outputs = {**encoder.output, "sequence_output": sequence, "pooled_output": pooled}
    return keras.Model(encoder.input, outputs, name=encoder.name)

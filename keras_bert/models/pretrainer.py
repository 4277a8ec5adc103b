"""The two pre-training tasks (BERT, section 3.1): masked LM and next sentence prediction."""

import keras

from keras_bert.layers import Dense, MaskedLMTransform, OutputBias
from keras_bert.models.description import describe_encoder


def build_pretrainer(encoder, next_sentence=True, tied=True):
    """Adds the masked-LM head and the NSP head to the encoder's graph.

    Args:
        encoder: a model from `build_encoder`.
        next_sentence: bool, whether to predict whether B follows A. Defaults to `True`.
        tied: bool, whether the masked-LM head shares the token table, as in BERT. Defaults to `True`.

    Returns:
        A `keras.Model`. Inputs: the encoder's inputs and `mask_positions` `(batch, predictions)`, the positions to
        predict. Outputs, float32: `mlm_logits` `(batch, predictions, vocab_size)` and, with `next_sentence`,
        `nsp_logits` `(batch, 2)`, class 0 for "B follows A".

    Example:
        model = build_pretrainer(build_encoder(named_config("tiny")))
    """
    # Layers
    encoding = describe_encoder(encoder)
    config = encoding.config
    if encoding.causal and encoding.bilstm:
        raise ValueError(
            "`encoder` must not have a BiLSTM, which would show a left-to-right model the tokens to predict"
        )
    transform = MaskedLMTransform(
        config.hidden_size,
        config.hidden_act,
        config.initializer_range,
        config.layer_norm_eps,
        dtype=encoding.dtype,
        name="mlm_transform",
    )
    token_embedding = encoding.layers["token_embedding"]
    initializer = keras.initializers.TruncatedNormal(stddev=config.initializer_range)
    decoder = Dense(
        config.vocab_size, use_bias=False, kernel_initializer=initializer, dtype=encoding.dtype, name="mlm_decoder"
    )
    mlm_bias = OutputBias(dtype=encoding.dtype, name="mlm_bias")

    # Wiring
    inputs = {**encoder.input, "mask_positions": keras.Input((None,), dtype="int32", name="mask_positions")}
    masked = transform(encoder.output["sequence_output"], inputs["mask_positions"])
    outputs = {"mlm_logits": mlm_bias(token_embedding(masked, reverse=True) if tied else decoder(masked))}
    if next_sentence:
        outputs["nsp_logits"] = _next_sentence(config)(encoder.output["pooled_output"])

    # Model
    return keras.Model(inputs, outputs, name="bert_pretrainer")


def build_next_sentence(encoder):
    """Adds only the NSP head to the encoder's graph.

    Args:
        encoder: a model from `build_encoder`.

    Returns:
        A `keras.Model` with the output `nsp_logits`, float32 `(batch, 2)`, class 0 for "B follows A".

    Example:
        model = build_next_sentence(build_encoder(named_config("tiny")))
    """
    # Layers
    classifier = _next_sentence(describe_encoder(encoder).config)

    # Wiring
    logits = classifier(encoder.output["pooled_output"])

    # Model
    return keras.Model(encoder.input, {"nsp_logits": logits}, name="bert_next_sentence")


def _next_sentence(config):
    initializer = keras.initializers.TruncatedNormal(stddev=config.initializer_range)
    return Dense(2, kernel_initializer=initializer, dtype="float32", name="next_sentence")

"""The BERT encoder (BERT, section 3): embeddings, Transformer blocks, pooler."""

import keras

from keras_bert.layers import AttentionMask, BertEmbeddings, Pooler, TokenEmbedding, TransformerBlock
from keras_bert.models.description import describe_encoder


def build_encoder(
    config,
    causal=False,
    hidden_states=False,
    attention_scores=False,
    positions="learned",
    remat=False,
    dtype=None,
    name=None,
):
    """Builds the encoder as a functional model.

    Args:
        config: a `BertConfig`.
        causal: bool, whether each token attends only to itself and its left context. Then `pooled_output` is that of
            the last token, since [CLS] sees only itself. Defaults to `False`.
        hidden_states: bool, whether to return the outputs of the embeddings and of all blocks. Defaults to `False`.
        attention_scores: bool, whether to return the attention probabilities of all layers. Defaults to `False`.
        positions: str, "learned", "sinusoid" or "none". Defaults to "learned".
        remat: bool, whether to recompute the activations of the blocks in the backward pass, to save memory. Defaults
            to `False`.
        dtype: dtype policy, such as "mixed_bfloat16". Defaults to Keras' global dtype policy.
        name: str, model name and prefix of the layer names, to combine several encoders in one model. Defaults to
            "bert_encoder" without a prefix.

    Returns:
        A `keras.Model`. Inputs, int32 `(batch, length)`: `token_ids`, `segment_ids`, `padding_mask` (1 = real).
        Outputs: `sequence_output` `(batch, length, hidden_size)`, `pooled_output` `(batch, hidden_size)`; on
        request, the lists `hidden_states` (`num_hidden_layers + 1` tensors with the shape of `sequence_output`) and
        `attention_scores` (`num_hidden_layers` tensors `(batch, heads, length, length)`).

    Example:
        encoder = build_encoder(named_config("tiny"))
        encoder(dict(token_ids=ids, segment_ids=segments, padding_mask=mask))["pooled_output"]
    """
    # Layers
    dtype = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
    initializer_range, layer_norm_eps = config.initializer_range, config.layer_norm_eps
    prefix = f"{name}_" if name else ""
    token_embedding = TokenEmbedding(
        config.vocab_size,
        config.hidden_size,
        embeddings_initializer=keras.initializers.TruncatedNormal(stddev=initializer_range),
        reverse_dtype=dtype.compute_dtype,
        dtype=dtype,
        name=f"{prefix}token_embedding",
    )
    embeddings = BertEmbeddings(
        config.hidden_size,
        config.max_position_embeddings,
        config.type_vocab_size,
        positions,
        config.hidden_dropout_prob,
        initializer_range,
        layer_norm_eps,
        dtype=dtype,
        name=f"{prefix}embeddings",
    )
    attention_mask = AttentionMask(causal, name=f"{prefix}attention_mask")
    blocks = [
        TransformerBlock(
            config.hidden_size,
            config.num_attention_heads,
            config.intermediate_size,
            config.hidden_act,
            config.hidden_dropout_prob,
            config.attention_probs_dropout_prob,
            initializer_range,
            layer_norm_eps,
            remat,
            dtype=dtype,
            name=f"{prefix}block_{index}",
        )
        for index in range(config.num_hidden_layers)
    ]
    pooler = Pooler(config.hidden_size, initializer_range, last=causal, dtype=dtype, name=f"{prefix}pooler")

    # Wiring
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "segment_ids", "padding_mask")
    }
    mask = attention_mask(inputs["padding_mask"])
    states = [embeddings(token_embedding(inputs["token_ids"]), inputs["segment_ids"])]
    scores = []
    for block in blocks:
        output = block(states[-1], attention_mask=mask, return_attention_scores=attention_scores)
        output, *score = output if attention_scores else (output,)
        states.append(output)
        scores.extend(score)

    # Model
    # Differs from BERT: the paper does not say which token a left-to-right model reads; [CLS] sees only itself.
    pooled = pooler(states[-1], inputs["padding_mask"]) if causal else pooler(states[-1])
    outputs = {"sequence_output": states[-1], "pooled_output": pooled}
    if hidden_states:
        outputs["hidden_states"] = states
    if attention_scores:
        outputs["attention_scores"] = scores
    return keras.Model(inputs, outputs, name=name or "bert_encoder")


def attention_scores(encoder, inputs):
    """Computes the attention probabilities of an encoder that was built without `attention_scores`.

    Args:
        encoder: a model from `build_encoder`.
        inputs: dict of arrays, the encoder's inputs.

    Returns:
        List of `num_hidden_layers` tensors `(batch, heads, length, length)`.
    """
    description = describe_encoder(encoder)
    layers, scores = description.layers, []
    mask = layers["attention_mask"](inputs["padding_mask"])
    state = layers["embeddings"](layers["token_embedding"](inputs["token_ids"]), inputs["segment_ids"])
    for index in range(description.config.num_hidden_layers):
        state, score = layers[f"block_{index}"](state, attention_mask=mask, return_attention_scores=True)
        scores.append(score)
    return scores

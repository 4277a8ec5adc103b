"""The BERT encoder (BERT, section 3): embeddings, Transformer blocks, pooler; and its forward pass, for all models."""

import dataclasses

import keras

from keras_bert.config import BertConfig
from keras_bert.layers import (
    AttentionMask,
    BertEmbeddings,
    Pooler,
    PositionIds,
    TokenEmbedding,
    TransformerBlock,
)
from keras_bert.layers.registry import POSITIONS, positions_named
from keras_bert.models.description import BUILDERS, blocks_of, built, check_model, hint, layers_of, read
from keras_bert.models.graph_comparison import Family


def build_encoder(
    config: BertConfig,
    *,
    causal: bool = False,
    hidden_states: bool = False,
    attention_scores: bool = False,
    positions: str = "learned",
    remat: bool = False,
    dtype: str | keras.DTypePolicy | None = None,
    name: str | None = None,
) -> keras.Model:
    """Builds the encoder as a functional model.

    Args:
        config: a `BertConfig`.
        causal: bool, whether each token attends only to itself and its left context. Then `pooled_output` is that of
            the last token, since [CLS] sees only itself. Defaults to `False`.
        hidden_states: bool, whether to return the outputs of the embeddings and of all blocks. Defaults to `False`.
        attention_scores: bool, whether to return the attention probabilities of all layers. Defaults to `False`.
        positions: str, "learned", "sinusoid", "none" or "relative": learned ones and a bias of the attention scores by
            distance, as in MPNet. Defaults to "learned".
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
    policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
    prefix = f"{name}_" if name else ""
    layers = {}
    layers["token_embedding"] = TokenEmbedding(
        config.vocab_size,
        config.embedding_size or config.hidden_size,
        embeddings_initializer=keras.initializers.TruncatedNormal(stddev=config.initializer_range),
        reverse_dtype=policy.compute_dtype,
        dtype=policy,
        name=f"{prefix}token_embedding",
    )
    if config.position_padding_id is not None:
        layers["positions"] = _position_ids(config, positions, f"{prefix}positions")
    layers["embeddings"] = _embeddings(config, positions, policy, f"{prefix}embeddings")
    layers["attention_mask"] = AttentionMask(causal, name=f"{prefix}attention_mask")
    position_bias = positions_named(positions).bias_layer(config, dtype=policy, name=f"{prefix}position_bias")
    if position_bias is not None:
        layers["position_bias"] = position_bias
    for index in range(config.num_hidden_layers):
        layers[f"block_{index}"] = _block(config, remat, policy, f"{prefix}block_{index}")
    layers["pooler"] = Pooler(
        config.hidden_size,
        config.initializer_range,
        last=causal,
        activation=config.pooler_activation,
        dtype=policy,
        name=f"{prefix}pooler",
    )

    # Wiring
    names = ("token_ids", "segment_ids", "padding_mask")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    states, scores = run_encoder(layers, inputs, return_attention_scores=attention_scores)

    # Model
    # Differs from BERT: the paper does not say which token a left-to-right model reads; [CLS] sees only itself.
    pooled = run_pooler(layers, states[-1], inputs["padding_mask"])
    outputs = {"sequence_output": states[-1], "pooled_output": pooled}
    if hidden_states:
        outputs["hidden_states"] = states
    if attention_scores:
        outputs["attention_scores"] = scores
    return built(keras.Model(inputs, outputs, name=name or "bert_encoder"))


def _position_ids(config, positions, name):
    if not positions_named(positions).counts_from_padding:
        counting = [kind.name for kind in POSITIONS if kind.counts_from_padding]
        expected = " or ".join(map(repr, counting))
        raise ValueError(
            f"`positions` must be {expected} for a config with `position_padding_id`. Received: "
            f"positions={positions!r}, position_padding_id={config.position_padding_id}"
        )
    return PositionIds(config.position_padding_id, config.max_position_embeddings, name=name)


def _embeddings(config, positions, dtype, name):
    return BertEmbeddings(
        config.embedding_size or config.hidden_size,
        max_length=config.position_rows,
        num_segments=config.type_vocab_size,
        positions=positions,
        dropout=config.hidden_dropout_prob,
        initializer_range=config.initializer_range,
        layer_norm_eps=config.layer_norm_eps,
        output_size=config.embedding_size and config.hidden_size,
        dtype=dtype,
        name=name,
    )


def _block(config, remat, dtype, name):
    return TransformerBlock(
        config.hidden_size,
        num_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        activation=config.hidden_act,
        dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        initializer_range=config.initializer_range,
        layer_norm_eps=config.layer_norm_eps,
        remat=remat,
        dtype=dtype,
        name=name,
    )


def run_encoder(layers, inputs, *, mask=None, last=None, inference=False, return_attention_scores=False):
    """Runs the embeddings and the blocks of an encoder, for heads that read more than its output.

    Args:
        layers: dict of the layers of the encoder by name, those of `describe(encoder).layers`.
        inputs: dict of the inputs of the encoder, see `build_encoder`; it may have `position_ids`, if they are not
            0, 1, ...
        mask: attention mask. Defaults to that of `padding_mask`.
        last: dict, arguments of the last block alone, such as `positions`. Defaults to `None`.
        inference: bool, whether to run without dropout, also in training. Defaults to `False`.
        return_attention_scores: bool, whether to return the attention scores, too. Defaults to `False`.

    Returns:
        Two lists: the outputs of the embeddings and of all blocks, `(batch, length, width)`; the attention scores of
        the blocks, empty unless asked for.

    Example:
        encoder = keras_bert.build_encoder(keras_bert.named_config("tiny"))
        states, _ = run_encoder(keras_bert.describe(encoder).layers, encoder.input)
        model = keras.Model(encoder.input, {"sum_output": keras.layers.add(states[-2:])})
    """
    states = [_embed(layers, inputs, inference)]
    options = {}
    if inference:
        options["inference"] = True
    if mask is None:
        mask = layers["attention_mask"](inputs["padding_mask"])
    options["attention_mask"] = mask
    if "position_bias" in layers:  # Distances count padding, too, whatever positions are counted from.
        options["score_bias"] = layers["position_bias"](inputs["token_ids"], **_given_positions(inputs))
    if return_attention_scores:
        options["return_attention_scores"] = True

    scores = []
    blocks = blocks_of(layers)
    for block in blocks:
        if block is blocks[-1]:
            options.update(last or {})
        output = block(states[-1], **options)
        if return_attention_scores:
            output, block_scores = output
            scores.append(block_scores)
        states.append(output)
    return states, scores


def _embed(layers, inputs, inference):
    """Returns the output of the embeddings."""
    options = _given_positions(inputs)
    if "positions" in layers:
        options = {"position_ids": layers["positions"](inputs["token_ids"], **options)}
    if inference:
        options["inference"] = True
    tokens = layers["token_embedding"](inputs["token_ids"])
    return layers["embeddings"](tokens, inputs["segment_ids"], **options)


def _given_positions(inputs):
    """Returns the argument of layers for positions that are not 0, 1, ..., or an empty dict."""
    if "position_ids" in inputs:
        return {"position_ids": inputs["position_ids"]}
    return {}


def run_pooler(layers, hidden, padding_mask):
    """Pools the hidden states, see `Pooler`."""
    pooler = layers["pooler"]
    if pooler.last:
        return pooler(hidden, padding_mask)
    return pooler(hidden)


def describe_encoder(encoder):
    """Describes a model from `build_encoder`; raises for any other model."""
    check_model(encoder)
    outputs = getattr(encoder, "output", None)
    known = {"sequence_output", "pooled_output", "hidden_states", "attention_scores"}
    if isinstance(outputs, dict) and outputs.keys() - known:
        raise ValueError(
            f"`encoder` must be a model from build_encoder.{hint(encoder)} Received: a model with the outputs "
            f"{', '.join(map(repr, sorted(outputs)))}"
        )
    return _ENCODERS.describe(encoder)


def small_encoder(description, encoder):
    """Builds an encoder with the graph of a described one and the smallest sizes."""
    config = dataclasses.replace(
        description.config,
        vocab_size=1,
        hidden_size=2 * description.config.num_attention_heads,
        intermediate_size=1,
        embedding_size=description.config.embedding_size and 1,
        max_position_embeddings=1,
        classifier_dropout=None,
    )
    requested = {name: name in encoder.output for name in ("hidden_states", "attention_scores")}
    return build_encoder(config, causal=description.causal, positions=description.positions, **requested)


_ENCODERS = Family(
    builders=BUILDERS,
    layers=layers_of,
    read=lambda layers: read(layers, "encoder", {}),
    rebuild=small_encoder,
    hint=hint,
)

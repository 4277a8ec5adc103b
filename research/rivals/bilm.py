"""ELMo's bidirectional language model (Peters et al., 2018): two stacks of LSTMs, one in each direction."""

import keras

from keras_bert.layers import Dropout, OutputBias, TokenEmbedding
from research.recurrent import BiLSTM
from research.rivals.description import RivalDescription, family, read_language_model
from research.rivals.layers import BothDirections, NextAndPrevious


def build_bilm(
    vocab_size: int,
    *,
    width: int = 512,
    num_layers: int = 2,
    dropout: float | None = 0.1,
    dtype: str | keras.DTypePolicy | None = None,
) -> keras.Model:
    """Builds a language model that predicts each token from its left context, and again from its right context.

    Both directions share the token table, at the inputs and in the softmax, but no LSTM: no state sees both contexts.

    Args:
        vocab_size: int, number of rows of the token table.
        width: int, width of the embeddings and of each LSTM. Defaults to 512.
        num_layers: int, number of LSTM layers in each direction. Defaults to 2.
        dropout: float, dropout rate of the inputs of each layer and of the softmax. Defaults to 0.1.
        dtype: dtype policy, such as "mixed_bfloat16". Defaults to Keras' global dtype policy.

    Returns:
        A `keras.Model`. Inputs, int32 `(batch, length)`: `token_ids`, `padding_mask`. Outputs: `hidden_states`, a list
        of the embeddings (twice) and of the states of each layer, `(batch, length, 2 * width)`, left context first;
        `mlm_logits`, float32 `(batch, 2 * (length - 1), vocab_size)`: of the next token at all positions but the last,
        then of the previous token at all positions but the first.

    Example:
        model = build_bilm(vocab_size=30522, width=256)
    """
    check_layers(num_layers)

    # Layers
    policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
    token_embedding = TokenEmbedding(
        vocab_size,
        width,
        embeddings_initializer=keras.initializers.TruncatedNormal(stddev=0.02),
        reverse_dtype=policy.compute_dtype,
        dtype=policy,
        name="token_embedding",
    )
    both = BothDirections(dtype=policy, name="both_directions")
    dropouts = [Dropout(dropout, dtype=policy, name=f"dropout_{index}") for index in range(num_layers + 1)]
    lstms = [BiLSTM(width, separate=True, dtype=policy, name=f"lstm_{index}") for index in range(num_layers)]
    shift = NextAndPrevious(dtype=policy, name="next_and_previous")
    bias = OutputBias(dtype=policy, name="softmax_bias")

    # Wiring
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask")}
    states = [both(token_embedding(inputs["token_ids"]))]
    for index, lstm in enumerate(lstms):
        state = lstm(dropouts[index](states[-1]), inputs["padding_mask"])
        states.append(states[-1] + state if index else state)  # Residual from the second layer on, as in ELMo.
    logits = bias(token_embedding(shift(dropouts[-1](states[-1])), reverse=True))

    # Model
    return FAMILY.built(keras.Model(inputs, {"hidden_states": states, "mlm_logits": logits}, name="bilm"))


def _read(layers):
    config = read_language_model(layers, layers["dropout_0"].rate)
    return RivalDescription(config, "language_model", None, None, layers["lstm_0"].dtype_policy.name, layers)


FAMILY = family(_read, lambda description: small_bilm(description.config, description.dtype))


def small_bilm(config, dtype):
    """Builds a language model with the graph of a config and the smallest sizes."""
    return build_bilm(1, width=1, num_layers=config.num_layers, dropout=config.dropout, dtype=dtype)


def check_layers(num_layers):
    """Raises an error for a model without LSTMs."""
    if num_layers < 1:
        raise ValueError(f"`num_layers` must be at least 1. Received: num_layers={num_layers}")


def check_language_model(model, vocab_size):
    """Raises an error unless `model` comes from `build_bilm` with a vocabulary of this size."""
    outputs = getattr(model, "output", None)
    if not isinstance(model, keras.Model) or not isinstance(outputs, dict) or "hidden_states" not in outputs:
        raise ValueError(
            "`language_model` must be a model from build_bilm; of what `research.rivals.load` returns, pass "
            f"`bert.model()`. Received: language_model={model!r:.100}"
        )
    rows = outputs["mlm_logits"].shape[-1]
    if rows != vocab_size:
        raise ValueError(
            f"`language_model` must have the same vocabulary. Received: vocab_size={vocab_size}, and {rows} in it"
        )


def frozen_states(model, token_ids, padding_mask):
    """Returns the `hidden_states` of a language model for other inputs, without dropout; its layers become frozen.

    Args:
        model: a model from `build_bilm`.
        token_ids, padding_mask: tensors `(batch, length)`.
    """
    layers = {layer.name: layer for layer in model.layers}
    lstms = [layer for layer in model.layers if layer.name.startswith("lstm_")]
    lstms.sort(key=lambda layer: int(layer.name.removeprefix("lstm_")))
    for layer in (layers["token_embedding"], *lstms):
        layer.trainable = False
    states = [layers["both_directions"](layers["token_embedding"](token_ids))]
    for index, lstm in enumerate(lstms):
        state = lstm(states[-1], padding_mask)
        states.append(states[-1] + state if index else state)
    return states

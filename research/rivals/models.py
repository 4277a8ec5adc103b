"""The models that BERT is compared with: their builders, and what is read from their layers.

- ELMo's bidirectional language model (Peters et al., 2018): two stacks of LSTMs, one in each direction.
- GLUE's baseline (Wang et al., 2018): sentences read by a BiLSTM, with attention between them and features of ELMo.
- BiDAF (Seo et al., 2017): question answering by attention between context and question in both directions.
"""

import dataclasses
import re

import keras

from keras_bert.layers import Dense, Dropout, OutputBias, TokenEmbedding
from keras_bert.models import Family, own_layers
from research.recurrent import BiLSTM, WeightedSum
from research.rivals.config import SIZES, RivalConfig
from research.rivals.layers import (
    AttentionFlow,
    BothDirections,
    Highway,
    JoinLogits,
    MaskedMax,
    NextAndPrevious,
    PairAttention,
    SplitPair,
)


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
    _check_layers(num_layers)

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
    layers: list[keras.Layer] = [token_embedding, BothDirections(dtype=policy, name="both_directions")]
    dropouts = [Dropout(dropout, dtype=policy, name=f"dropout_{index}") for index in range(num_layers + 1)]
    layers += [BiLSTM(width, separate=True, dtype=policy, name=f"lstm_{index}") for index in range(num_layers)]
    shift = NextAndPrevious(dtype=policy, name="next_and_previous")
    bias = OutputBias(dtype=policy, name="softmax_bias")

    # Wiring
    inputs = _inputs("token_ids", "padding_mask")
    states = _states({layer.name: layer for layer in layers}, **inputs, dropouts=dropouts)
    logits = bias(token_embedding(shift(dropouts[-1](states[-1])), reverse=True))

    # Model
    return _FAMILY.built(keras.Model(inputs, {"hidden_states": states, "mlm_logits": logits}, name="bilm"))


def _states(layers, token_ids, padding_mask, dropouts=None):
    """Returns the embeddings, twice, and the states of each LSTM of a language model with these layers."""
    states = [layers["both_directions"](layers["token_embedding"](token_ids))]
    for index in range(_count(layers, "lstm_")):
        below = states[-1]
        inputs = dropouts[index](below) if dropouts else below
        state = layers[f"lstm_{index}"](inputs, padding_mask)
        if index > 0:  # Residual from the second layer on, as in ELMo.
            state = below + state
        states.append(state)
    return states


def build_bilstm_classifier(
    vocab_size: int,
    num_classes: int,
    *,
    pair: bool = True,
    embedding_size: int = 300,
    width: int = 1500,
    num_layers: int = 2,
    dropout: float | None = 0.2,
    language_model: keras.Model | None = None,
    dtype: str | keras.DTypePolicy | None = None,
) -> keras.Model:
    """Classifies a text or a pair of texts from the maxima over the states of a BiLSTM.

    The parts of a pair are read separately; then each position attends to the other part, and one more BiLSTM reads
    both: "BiLSTM+Attn" of GLUE, and with `language_model` "BiLSTM+ELMo+Attn".

    Args:
        vocab_size: int, number of rows of the token table.
        num_classes: int, number of classes, 1 for regression.
        pair: bool, whether the inputs are pairs of texts. Defaults to `True`.
        embedding_size: int, width of the token table. Defaults to 300.
        width: int, width of each direction of the BiLSTMs. Defaults to 1500.
        num_layers: int, number of BiLSTM layers below the attention. Defaults to 2.
        dropout: float, dropout rate before each BiLSTM and each dense layer. Defaults to 0.2.
        language_model: a model from `build_bilm` with the same vocabulary, whose states, frozen, are added to the
            embeddings with learned weights. Defaults to `None`.
        dtype: dtype policy, such as "mixed_bfloat16", also of `language_model`. Defaults to Keras' global dtype policy.

    Returns:
        A `keras.Model`. Inputs, int32 `(batch, length)`: `token_ids`, `segment_ids`, `padding_mask`, as for BERT.
        Output: `logits`, float32 `(batch, num_classes)`.

    Example:
        model = build_bilstm_classifier(vocab_size=30522, num_classes=2, width=256)
    """
    _check_layers(num_layers)

    # Layers
    split = SplitPair(name="split_pair")
    pool = MaskedMax(dtype=dtype, name="masked_max")
    attend = PairAttention(dtype=dtype, name="attention")
    embedding = TokenEmbedding(vocab_size, embedding_size, dtype=dtype, name="embedding")
    features = _features(language_model, vocab_size, dtype)
    drops = [Dropout(dropout, dtype=dtype, name=f"dropout_{index}") for index in range(num_layers)]
    lstms = [BiLSTM(width, dtype=dtype, name=f"bilstm_{index}") for index in range(num_layers)]
    match_dropout = Dropout(dropout, dtype=dtype, name="match_dropout")
    match = BiLSTM(width, dtype=dtype, name="match_bilstm") if pair else None
    hidden_dropout = Dropout(dropout, dtype=dtype, name="hidden_dropout")
    hidden = Dense(512, "tanh", dtype=dtype, name="hidden")
    head_dropout = Dropout(dropout, dtype=dtype, name="head_dropout")
    classifier = Dense(num_classes, dtype="float32", name="classifier")

    # Wiring
    def read(ids, mask):
        state = _with_features(embedding(ids), features, language_model, ids, mask)
        for drop, lstm in zip(drops, lstms, strict=True):
            state = lstm(drop(state), mask)
        return state

    def compare(state, mask, other, other_mask):
        attended = keras.ops.concatenate([state, attend(state, other, other_mask)], axis=-1)
        return pool(match(match_dropout(attended), mask), mask)

    inputs = _inputs("token_ids", "segment_ids", "padding_mask")
    first, first_mask, second, second_mask = split(*inputs.values())
    state = read(first, first_mask)
    if pair:
        other = read(second, second_mask)
        u = compare(state, first_mask, other, second_mask)
        v = compare(other, second_mask, state, first_mask)
        vector = keras.ops.concatenate([u, v, keras.ops.abs(u - v), u * v], axis=-1)
    else:
        vector = pool(state, first_mask)
    logits = classifier(head_dropout(hidden(hidden_dropout(vector))))

    # Model
    return _FAMILY.built(keras.Model(inputs, {"logits": logits}, name="bilstm_classifier"))


def build_bidaf(
    vocab_size: int,
    *,
    embedding_size: int = 200,
    width: int = 100,
    dropout: float | None = 0.2,
    language_model: keras.Model | None = None,
    dtype: str | keras.DTypePolicy | None = None,
) -> keras.Model:
    """Scores each token of a context as the start and as the end of the answer to a question.

    Args:
        vocab_size: int, number of rows of the token table, of pieces instead of the paper's words and characters.
        embedding_size, width, dropout, language_model, dtype: see `build_bilstm_classifier`.

    Returns:
        A `keras.Model`. Inputs, int32 `(batch, length)`: `token_ids`, `segment_ids`, `padding_mask`, as for BERT, with
        the question first. Outputs: `start_logits`, `end_logits`, float32 `(batch, length)`; [CLS] stands for a context
        without the answer.

    Example:
        model = build_bidaf(vocab_size=30522)
    """
    # Layers
    split = SplitPair(name="split_pair")
    flow = AttentionFlow(dtype=dtype, name="attention_flow")
    embedding = TokenEmbedding(vocab_size, embedding_size, dtype=dtype, name="embedding")
    highways = [Highway(embedding_size, dtype=dtype, name=f"highway_{index}") for index in range(2)]
    features = _features(language_model, vocab_size, dtype)
    reading = ("contextual", "modeling_0", "modeling_1", "end")
    lstms = {name: BiLSTM(width, dtype=dtype, name=f"{name}_bilstm") for name in reading}
    dropped = (*reading, "start_head", "end_head")
    drops = {name: Dropout(dropout, dtype=dtype, name=f"{name}_dropout") for name in dropped}
    heads = {name: Dense(1, dtype="float32", name=f"{name}_head") for name in ("start", "end")}
    joins = {name: JoinLogits(name=f"{name}_logits") for name in ("start", "end")}

    # Wiring
    def lstm(name, state, mask):
        return lstms[name](drops[name](state), mask)

    def read(ids, mask):
        state = embedding(ids)
        for highway in highways:
            state = highway(state)
        state = _with_features(state, features, language_model, ids, mask)
        return lstm("contextual", state, mask)

    def score(name, *states):
        state = drops[f"{name}_head"](keras.ops.concatenate(states, axis=-1))
        logits = heads[name](state)
        return joins[name](logits[..., 0], inputs["segment_ids"], inputs["padding_mask"])

    inputs = _inputs("token_ids", "segment_ids", "padding_mask")
    question, question_mask, context, mask = split(*inputs.values())
    attended = flow(read(context, mask), read(question, question_mask), mask, question_mask)
    modeled = lstm("modeling_1", lstm("modeling_0", attended, mask), mask)
    outputs = {
        "start_logits": score("start", attended, modeled),
        "end_logits": score("end", attended, lstm("end", modeled, mask)),
    }

    # Model
    return _FAMILY.built(keras.Model(inputs, outputs, name="bidaf"))


def _check_layers(num_layers):
    """Raises an error for a model without LSTMs."""
    if num_layers < 1:
        raise ValueError(f"`num_layers` must be at least 1. Received: num_layers={num_layers}")


def _inputs(*names):
    return {name: keras.Input((None,), dtype="int32", name=name) for name in names}


def _features(model, vocab_size, dtype):
    """Returns the layer that adds up the states of a language model of this vocabulary, or `None` without one."""
    if model is None:
        return None
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
    return WeightedSum(len(outputs["hidden_states"]), dtype=dtype, name="weighted_sum")


def _with_features(state, features, model, token_ids, padding_mask):
    """Returns embeddings beside the sum of a language model's states; alone without `features`, the layer for these."""
    if features is None:
        return state
    states = keras.ops.concatenate(frozen_states(model, token_ids, padding_mask), axis=-1)
    return keras.ops.concatenate([state, features(states)], axis=-1)


def frozen_states(model, token_ids, padding_mask):
    """Returns the `hidden_states` of a language model for other inputs, without dropout; its layers become frozen."""
    layers = own_layers(model)
    for name, layer in layers.items():
        if name.startswith(("token_embedding", "lstm_")):
            layer.trainable = False
    return _states(layers, token_ids, padding_mask)


def build_rival(config, num_classes=None, pair=True, language_model=None, dtype=None):
    """Builds the model of a `RivalConfig`; that of its `language_model`, if it has one, is new unless it is given."""
    if config.language_model is not None and language_model is None:
        language_model = build_rival(config.language_model, dtype=dtype)
    if config.kind == "bilm":
        return build_bilm(
            config.vocab_size,
            width=config.width,
            num_layers=config.num_layers,
            dropout=config.dropout,
            dtype=dtype,
        )
    options = {
        "embedding_size": config.embedding_size,
        "width": config.width,
        "dropout": config.dropout,
        "language_model": language_model,
        "dtype": dtype,
    }
    if config.kind == "bidaf":
        return build_bidaf(config.vocab_size, **options)
    return build_bilstm_classifier(config.vocab_size, num_classes, pair=pair, num_layers=config.num_layers, **options)


@dataclasses.dataclass(frozen=True)
class RivalDescription:
    """Config and head of a model that BERT is compared with, as `keras_bert.describe` returns for a BERT."""

    multi_label = False
    next_sentence = False
    causal = False
    positions = "none"
    score_activation = "linear"
    embedding = {}
    formats = ("keras",)
    write = None
    signatures = None

    config: RivalConfig
    head: str  # "language_model", "classification" or "question_answering".
    num_classes: int | None  # 1 for regression; `None` for other heads.
    pair: bool | None  # Whether a classifier reads pairs of texts; `None` for other heads.
    dtype: str
    layers: dict

    def to_json(self, metadata):
        """Returns the content of `config.json`, which only this package reads."""
        content = self.config.to_huggingface()
        content["labels"] = metadata.labels
        content["keras_bert"] = metadata.to_json()
        return content


def describe(model):
    """Returns the `RivalDescription` of a model, also after it was saved and loaded by Keras; raises for any other."""
    return _FAMILY.describe(model)


def _describe_layers(layers):
    """Returns the description of a model with these layers."""
    if "embedding" not in layers:
        return _describe_bilm(layers)
    if "contextual_bilstm" in layers:
        return _describe_bidaf(layers)
    return _describe_classifier(layers)


def _describe_bilm(layers):
    """Returns the description of a language model."""
    return RivalDescription(
        _config_of_bilm(layers, layers["dropout_0"].rate),
        head="language_model",
        num_classes=None,
        pair=None,
        dtype=layers["lstm_0"].dtype_policy.name,
        layers=layers,
    )


def _describe_bidaf(layers):
    """Returns the description of a model for question answering."""
    lstm = layers["contextual_bilstm"]
    config = RivalConfig(
        "bidaf",
        vocab_size=layers["embedding"].input_dim,
        width=lstm.units,
        num_layers=1,
        embedding_size=layers["embedding"].output_dim,
        dropout=layers["contextual_dropout"].rate,
        language_model=_config_of_features(layers),
    )
    return RivalDescription(
        config,
        head="question_answering",
        num_classes=None,
        pair=None,
        dtype=lstm.dtype_policy.name,
        layers=layers,
    )


def _describe_classifier(layers):
    """Returns the description of a classifier."""
    lstm = layers["bilstm_0"]
    config = RivalConfig(
        "bilstm",
        vocab_size=layers["embedding"].input_dim,
        width=lstm.units,
        num_layers=_count(layers, "bilstm_"),
        embedding_size=layers["embedding"].output_dim,
        dropout=layers["dropout_0"].rate,
        language_model=_config_of_features(layers),
    )
    return RivalDescription(
        config,
        head="classification",
        num_classes=layers["classifier"].units,
        pair="match_bilstm" in layers,
        dtype=lstm.dtype_policy.name,
        layers=layers,
    )


def _config_of_features(layers):
    """Returns the config of the language model whose states are features of a model; `None` without one."""
    if "weighted_sum" not in layers:
        return None
    return _config_of_bilm(layers, SIZES["bilm"]["dropout"])  # Its layers are called without dropout.


def _config_of_bilm(layers, dropout):
    """Returns the config of a "bilm", also of one whose states are features of the model with these layers."""
    table = layers["token_embedding"]
    return RivalConfig(
        "bilm",
        vocab_size=table.input_dim,
        width=table.output_dim,
        num_layers=_count(layers, "lstm_"),
        embedding_size=table.output_dim,
        dropout=dropout,
    )


def _count(layers, prefix):
    """Returns the number of layers whose names are the prefix and a number."""
    return sum(re.fullmatch(rf"{prefix}\d+", name) is not None for name in layers)


def _rebuild(description, model):
    """Builds the model of a description with the smallest sizes."""
    config = _small(description.config)
    return build_rival(config, description.num_classes, description.pair, dtype=description.dtype)


def _small(config):
    """Returns a config with the smallest sizes."""
    features = config.language_model and _small(config.language_model)
    return dataclasses.replace(config, vocab_size=1, width=1, embedding_size=1, language_model=features)


_FAMILY = Family("build_bilm, build_bilstm_classifier or build_bidaf", own_layers, _describe_layers, _rebuild)

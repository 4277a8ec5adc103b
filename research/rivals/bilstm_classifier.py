"""GLUE's baseline (Wang et al., 2018): sentences read by a BiLSTM, with attention between them and features of ELMo."""

import keras

from keras_bert.layers import Dense, Dropout, TokenEmbedding
from research.recurrent import BiLSTM, WeightedSum
from research.rivals.bilm import check_language_model, check_layers, frozen_states, small_bilm
from research.rivals.description import RivalDescription, count, family, read_model
from research.rivals.layers import MaskedMax, PairAttention, SplitPair


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
    check_layers(num_layers)

    # Layers
    split, pool = SplitPair(name="split_pair"), MaskedMax(dtype=dtype, name="masked_max")
    attend, features = PairAttention(dtype=dtype, name="attention"), None
    embedding = TokenEmbedding(vocab_size, embedding_size, dtype=dtype, name="embedding")
    if language_model is not None:
        check_language_model(language_model, vocab_size)
        features = WeightedSum(len(language_model.output["hidden_states"]), dtype=dtype, name="weighted_sum")
    drops = [Dropout(dropout, dtype=dtype, name=f"dropout_{index}") for index in range(num_layers)]
    lstms = [BiLSTM(width, dtype=dtype, name=f"bilstm_{index}") for index in range(num_layers)]
    match_dropout, match = Dropout(dropout, dtype=dtype, name="match_dropout"), None
    if pair:
        match = BiLSTM(width, dtype=dtype, name="match_bilstm")
    hidden_dropout = Dropout(dropout, dtype=dtype, name="hidden_dropout")
    hidden = Dense(512, "tanh", dtype=dtype, name="hidden")
    head_dropout = Dropout(dropout, dtype=dtype, name="head_dropout")
    classifier = Dense(num_classes, dtype="float32", name="classifier")

    # Wiring
    def read(ids, mask):
        state = embedding(ids)
        if language_model is not None:
            states = keras.ops.concatenate(frozen_states(language_model, ids, mask), axis=-1)
            state = keras.ops.concatenate([state, features(states)], axis=-1)
        for drop, lstm in zip(drops, lstms, strict=True):
            state = lstm(drop(state), mask)
        return state

    def compare(state, mask, other, other_mask):
        attended = keras.ops.concatenate([state, attend(state, other, other_mask)], axis=-1)
        return pool(match(match_dropout(attended), mask), mask)

    names = ("token_ids", "segment_ids", "padding_mask")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    first, first_mask, second, second_mask = split(*inputs.values())
    state = read(first, first_mask)
    if pair:
        other = read(second, second_mask)
        u, v = compare(state, first_mask, other, second_mask), compare(other, second_mask, state, first_mask)
        vector = keras.ops.concatenate([u, v, keras.ops.abs(u - v), u * v], axis=-1)
    else:
        vector = pool(state, first_mask)
    logits = classifier(head_dropout(hidden(hidden_dropout(vector))))

    # Model
    return FAMILY.built(keras.Model(inputs, {"logits": logits}, name="bilstm_classifier"))


def _read(layers):
    config = read_model(layers, "bilstm", "bilstm_0", "dropout_0", count(layers, "bilstm_"))
    facts = layers["classifier"].units, "match_bilstm" in layers, layers["bilstm_0"].dtype_policy.name
    return RivalDescription(config, "classification", *facts, layers)


def _rebuild(description):
    config, dtype = description.config, description.dtype
    features = config.language_model and small_bilm(config.language_model, dtype)
    return build_bilstm_classifier(
        1,
        description.num_classes,
        pair=description.pair,
        embedding_size=1,
        width=1,
        num_layers=config.num_layers,
        dropout=config.dropout,
        language_model=features,
        dtype=dtype,
    )


FAMILY = family(_read, _rebuild)

"""BiDAF (Seo et al., 2017): question answering by attention between context and question in both directions."""

import keras

from keras_bert.layers import Dense, Dropout, TokenEmbedding
from research.recurrent import BiLSTM, WeightedSum
from research.rivals.bilm import check_language_model, frozen_states, small_bilm
from research.rivals.description import RivalDescription, family, read_model
from research.rivals.layers import AttentionFlow, Highway, JoinLogits, SplitPair


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
        vocab_size: int, number of rows of the token table. Pieces of words replace the words and characters of the
            paper.
        embedding_size: int, width of the token table. Defaults to 200.
        width: int, width of each direction of the BiLSTMs. Defaults to 100.
        dropout: float, dropout rate before each BiLSTM and each dense layer. Defaults to 0.2.
        language_model: a model from `build_bilm` with the same vocabulary, whose states, frozen, are added to the
            embeddings with learned weights: "BiDAF+ELMo". Defaults to `None`.
        dtype: dtype policy, such as "mixed_bfloat16", also of `language_model`. Defaults to Keras' global dtype policy.

    Returns:
        A `keras.Model`. Inputs, int32 `(batch, length)`: `token_ids`, `segment_ids`, `padding_mask`, as for BERT, with
        the question first. Outputs: `start_logits`, `end_logits`, float32 `(batch, length)`; [CLS] stands for a context
        without the answer.

    Example:
        model = build_bidaf(vocab_size=30522)
    """
    # Layers
    split, flow, features = SplitPair(name="split_pair"), AttentionFlow(dtype=dtype, name="attention_flow"), None
    embedding = TokenEmbedding(vocab_size, embedding_size, dtype=dtype, name="embedding")
    highways = [Highway(embedding_size, dtype=dtype, name=f"highway_{index}") for index in range(2)]
    if language_model is not None:
        check_language_model(language_model, vocab_size)
        features = WeightedSum(len(language_model.output["hidden_states"]), dtype=dtype, name="weighted_sum")
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
        if language_model is not None:
            states = keras.ops.concatenate(frozen_states(language_model, ids, mask), axis=-1)
            state = keras.ops.concatenate([state, features(states)], axis=-1)
        return lstm("contextual", state, mask)

    def score(name, *states):
        logits = heads[name](drops[f"{name}_head"](keras.ops.concatenate(states, axis=-1)))
        return joins[name](logits[..., 0], inputs["segment_ids"], inputs["padding_mask"])

    names = ("token_ids", "segment_ids", "padding_mask")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    question, question_mask, context, mask = split(*inputs.values())
    attended = flow(read(context, mask), read(question, question_mask), mask, question_mask)
    modeled = lstm("modeling_1", lstm("modeling_0", attended, mask), mask)
    outputs = {
        "start_logits": score("start", attended, modeled),
        "end_logits": score("end", attended, lstm("end", modeled, mask)),
    }

    # Model
    return FAMILY.built(keras.Model(inputs, outputs, name="bidaf"))


def _read(layers):
    config = read_model(layers, "bidaf", "contextual_bilstm", "contextual_dropout", 1)
    dtype = layers["contextual_bilstm"].dtype_policy.name
    return RivalDescription(config, "question_answering", None, None, dtype, layers)


def _rebuild(description):
    config, dtype = description.config, description.dtype
    features = config.language_model and small_bilm(config.language_model, dtype)
    return build_bidaf(1, embedding_size=1, width=1, dropout=config.dropout, language_model=features, dtype=dtype)


FAMILY = family(_read, _rebuild)

"""The bi-encoder that trains sentence encoders (Reimers & Gurevych, 2019)."""

import keras

from keras_bert.heads.describe import describe
from keras_bert.layers import FoldChoices, UnfoldPassages


def build_bi_encoder(embedder: keras.Model) -> keras.Model:
    """Embeds queries and their passages with the same embedder, for training; save the embedder, not this model.

    Args:
        embedder: a model from `build_embedder`.

    Returns:
        A `keras.Model`. Inputs: those of the embedder for queries, such as `query_token_ids`, `(batch, length)`, and
        for passages, such as `passage_token_ids`, `(batch, passages, length)`. Outputs: `query_embedding`,
        `(batch, width)`, and `passage_embedding`, `(batch, passages, width)`, float32.

    Example:
        model = build_bi_encoder(build_embedder(build_encoder(named_config("tiny"))))
    """
    if not describe(embedder).embedding:
        raise ValueError(f"`embedder` must be a model from build_embedder. Received: {embedder.name!r}")

    # Layers
    fold, unfold = FoldChoices(name="fold_passages"), UnfoldPassages(dtype="float32", name="unfold_passages")

    # Wiring
    queries = {name: keras.Input((None,), dtype="int32", name=f"query_{name}") for name in embedder.input}
    passages = {name: keras.Input((None, None), dtype="int32", name=f"passage_{name}") for name in embedder.input}
    rows = embedder({name: fold(tensor) for name, tensor in passages.items()})
    outputs = {
        "query_embedding": embedder(queries)["embedding"],
        "passage_embedding": unfold(rows["embedding"], passages["padding_mask"]),
    }

    # Model
    inputs = {tensor.name: tensor for tensor in (*queries.values(), *passages.values())}
    return keras.Model(inputs, outputs, name="bert_bi_encoder")

"""The signature of an encoder: one vector per text."""

import tensorflow as tf

from keras_bert.exporting.signatures import in_groups, texts
from keras_bert.layers import SentencePooling
from keras_bert.layers.sentence_pooling import checked_pooling


def embedder(model, preprocessor, pooling="mean", layers=(-1,), normalize=False, rows_together=8):
    """The signature of an encoder: one vector per text. For the arguments see `pool` and `in_groups`."""
    check_pooling(model, pooling, layers)
    count = 1 if isinstance(pooling, str) else len(pooling)
    width = model.output["pooled_output"].shape[-1] * (1 if pooling == "pooled" else count * len(layers))

    def vectors(inputs):
        return pool(model(inputs, training=False), inputs["padding_mask"], pooling, layers, normalize)

    return _signature(vectors, preprocessor, width, rows_together)


def sentence_embedder(model, preprocessor, rows_together=8):
    """The signature of a model from `build_embedder`: one vector per text. For `rows_together` see `in_groups`."""
    width = model.output["embedding"].shape[-1]

    return _signature(lambda part: model(part, training=False)["embedding"], preprocessor, width, rows_together)


def _signature(run, preprocessor, width, rows_together):
    def answer(inputs):
        return {"embedding": in_groups(run, preprocessor(inputs), [width], rows_together)}

    return {"serving_default": texts(answer, "text")}


def pool(outputs, mask, pooling="mean", layers=(-1,), normalize=False):
    """Pools the outputs of an encoder into one vector per text, float32 `(batch, width)`.

    Args:
        outputs: dict, outputs of an encoder, including `hidden_states` for layers other than the last.
        mask: the `padding_mask`.
        pooling: str or tuple of str, see `keras_bert.layers.SentencePooling`; or "pooled", the pooler's output, which
            ignores `layers`. Defaults to "mean".
        layers: layers whose outputs are concatenated; 0 is the embeddings, -1 the last layer. Defaults to `(-1,)`.
        normalize: bool, whether to scale vectors to length 1. Defaults to `False`.
    """
    if pooling == "pooled":
        vectors = tf.cast(outputs["pooled_output"], tf.float32)
        return tf.math.l2_normalize(vectors, -1) if normalize else vectors
    states = outputs.get("hidden_states")
    states = [states[layer] for layer in layers] if states else [outputs["sequence_output"]]
    return SentencePooling(pooling, normalize, dtype="float32")(tf.concat(states, -1), mask)


def check_pooling(model, pooling, layers):
    """Raises for pooling modes and layers that an encoder does not have."""
    if pooling != "pooled":
        checked_pooling(pooling)
    states = model.output.get("hidden_states")
    if list(layers) != [-1] and not states:
        needed = "`layers` other than the last need an encoder with `hidden_states=True`"
        raise ValueError(f"{needed}. Received: layers={list(layers)}")
    if bad := [layer for layer in layers if states and not -len(states) <= layer < len(states)]:
        raise ValueError(f"`layers` must be from {-len(states)} to {len(states) - 1}. Received: {bad}")

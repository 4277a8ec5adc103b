"""The signatures of encoders: one vector per text."""

import numpy as np
import tensorflow as tf

from keras_bert.heads.prompts import check_prompts, chosen_prompt
from keras_bert.heads.zero_shot import with_vectors
from keras_bert.layers import SentencePooling
from keras_bert.layers.head_layers import checked_pooling
from keras_bert.text.signatures import in_groups, outputs_of_texts, rows_of_call, texts, traced_once
from keras_bert.text.token_counts import with_counts


def embedder(model, preprocessor, pooling="mean", layers=(-1,), normalize=False, rows_together=8):
    """The signatures of an encoder: one vector per text. For the arguments see `pool` and `in_groups`."""
    check_pooling(model, pooling, layers)
    width = model.output["pooled_output"].shape[-1]
    if pooling != "pooled":
        modes = 1 if isinstance(pooling, str) else len(pooling)
        width *= modes * len(layers)

    def vectors(inputs):
        outputs = model(inputs, training=False)
        return pool(outputs, inputs["padding_mask"], pooling, layers, normalize)

    return _signatures(_counted(vectors, preprocessor, width, rows_together, normalize))


def sentence_embedder(
    model,
    preprocessor,
    description,
    rows_together=8,
    prompts=None,
    default_prompt_name=None,
    zero_shot=None,
):
    """The signatures of a model from `build_embedder`: one vector per text; see `in_groups` and `save`.

    Each of `prompts` has its own signature, and so has `zero_shot`, a `ZeroShot`.
    """
    check_prompts(prompts, default_prompt_name)
    width = model.output["embedding"].shape[-1]
    default = chosen_prompt(prompts, default_prompt_name)

    def vectors(inputs):
        return model(inputs, training=False)["embedding"]

    normalize = description.options["normalize"]
    embed_all = traced_once(_counted(vectors, preprocessor, width, rows_together, normalize))

    def embed(strings, prompt=default):
        if prompt:
            strings = tf.strings.join([prompt, strings])
        return embed_all(strings)

    signatures = _signatures(embed, prompts)
    if zero_shot is not None:
        signatures["zero_shot"] = with_vectors(zero_shot, embed)
    return signatures


def _counted(vectors, preprocessor, width, rows_together, normalize):
    """Returns a function from strings to vectors and the numbers of tokens; `vectors` is one of model inputs."""
    rows_together = rows_of_call(preprocessor, rows_together)

    def vectors_in_groups(inputs):
        return {"embedding": in_groups(vectors, inputs, [width], rows_together)}

    def embed(strings):
        outputs, counts = outputs_of_texts(vectors_in_groups, preprocessor, strings)
        embedding = outputs["embedding"]
        if normalize and preprocessor.reads_windows:
            embedding = tf.math.l2_normalize(embedding, -1)  # The mean of vectors of length 1 is shorter.
        return embedding, counts

    return embed


def _signatures(embed, prompts=None):
    """Returns `serving_default`, the same as `embed`, and one signature for each of the prompts by name."""

    def signature(*prompt):
        def answer(inputs):
            embedding, counts = embed(inputs["text"], *prompt)
            return with_counts({"embedding": embedding}, counts)

        return texts(answer, "text")

    default = signature()
    signatures = {"serving_default": default, "embed": default}
    for name, prompt in (prompts or {}).items():
        signatures[f"embed_{name}"] = signature(prompt)
    return signatures


def pool(outputs, mask, pooling="mean", layers=(-1,), normalize=False):
    """Pools the outputs of an encoder into one vector per text, float32 `(batch, width)`.

    `pooling` is that of `keras_bert.layers.SentencePooling`, or "pooled", the pooler's output. The outputs of `layers`,
    of which 0 is the embeddings, are concatenated; others than the last one are in `hidden_states`.
    """
    if pooling == "pooled":
        vectors = tf.cast(outputs["pooled_output"], tf.float32)
        if normalize:
            vectors = tf.math.l2_normalize(vectors, -1)
        return vectors
    pooled = [outputs["sequence_output"]]
    states = outputs.get("hidden_states")
    if states:
        pooled = [states[layer] for layer in layers]
    return SentencePooling(pooling, normalize, dtype="float32")(tf.concat(pooled, -1), mask)


def check_pooling(model, pooling, layers):
    """Raises for pooling modes and layers that an encoder does not have."""
    numbers = np.asarray(layers)
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
        raise ValueError(f"`layers` must be a list of one integer or more. Received: layers={layers!r}")
    if pooling != "pooled":
        checked_pooling(pooling)
    elif list(layers) != [-1]:
        raise ValueError(f"`layers` has no meaning for pooling='pooled'. Received: layers={layers}")
    states = model.output.get("hidden_states")
    if list(layers) != [-1] and not states:
        needed = "`layers` other than the last need an encoder with `hidden_states=True`"
        raise ValueError(f"{needed}. Received: layers={list(layers)}")
    if not states:
        return
    bad = [layer for layer in layers if not -len(states) <= layer < len(states)]
    if bad:
        raise ValueError(f"`layers` must be from {-len(states)} to {len(states) - 1}. Received: {bad}")

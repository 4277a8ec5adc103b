"""A model that reads vectors of tokens in place of their rows of the token table, for gradients by these vectors."""

import keras

from keras_bert.heads.registry import describe, head_named
from keras_bert.models.encoder import run_encoder, run_pooler

VECTORS = "token_vectors"


def build_from_vectors(model: keras.Model) -> keras.Model:
    """Rewires a model, with its own layers and weights, so that the vectors of the tokens are an input.

    The vectors are those of the token table, before segments and positions are added. `model` stays as it is.

    Args:
        model: a model from a builder whose head is on top of an encoder.

    Returns:
        A `keras.Model`. Inputs: those of `model`, and `token_vectors`, `(sequences, length, width)`; there is a
        sequence for each choice of a text. `token_ids` only tell positions, of models that count these from padding.
        Outputs: those of `model`.

    Example:
        table = describe(model).layers["token_embedding"]
        outputs = build_from_vectors(model)({**inputs, "token_vectors": table(inputs["token_ids"])})
    """
    # Layers
    description = describe(model)
    head = head_named(description.head)
    if head.run is None:
        raise ValueError(
            f"the head {head.name!r} has no `run`, so its model cannot be rewired for gradients by the vectors of "
            "tokens, see keras_bert.Head. Leaving out words, method='leave_one_out', needs no gradients"
        )
    table = description.layers["token_embedding"]
    vectors = keras.Input((None, table.output_dim), dtype="float32", name=VECTORS)
    layers = dict(description.layers)
    layers["token_embedding"] = lambda token_ids: vectors

    # Wiring
    inputs = {}
    for name, tensor in model.input.items():
        inputs[name] = keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
    rows = head.encoder_inputs(layers, inputs)
    states, _ = run_encoder(layers, rows)
    encoded = {"sequence_output": states[-1], "hidden_states": states}
    if "pooler" in layers:
        encoded["pooled_output"] = run_pooler(layers, states[-1], rows["padding_mask"])

    # Model
    outputs = head.run(description.layers, encoded, inputs)
    outputs = {name: outputs[name] for name in model.output}
    return keras.Model(inputs | {VECTORS: vectors}, outputs, name=f"{model.name}_from_vectors")

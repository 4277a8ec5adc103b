"""Models for training with less work: without positions that no head reads, and on packed rows without padding."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_bert.heads.registry import HEADS, describe, head_named
from keras_bert.layers import FirstTokens, PackedMask
from keras_bert.models.description import Description, check_model
from keras_bert.models.encoder import run_encoder


def build_trimmed(model: keras.Model) -> keras.Model:
    """Rewires a model for training, with its own layers and weights: the last block computes only what the head reads.

    A classifier reads [CLS], the masked-LM head the masked positions. The outputs are the same; three quarters of the
    products of the last block are saved. Save and evaluate `model`.

    Args:
        model: a model from any builder.

    Returns:
        A `keras.Model` with the inputs and outputs of `model`, or `model` itself if its head reads all positions.

    Example:
        trainer = Trainer(model_fn, optimizer_fn, classification_loss(), rewire=build_trimmed)
    """
    # Layers
    description = _trimmable_description(model)
    if description is None:
        return model
    layers = description.layers
    head = head_named(description.head)

    # Wiring
    inputs = {}
    for name, tensor in model.input.items():
        inputs[name] = keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
    rows = head.encoder_inputs(layers, inputs)
    first = None
    if "pooler" in layers:
        first = ops.zeros_like(rows["token_ids"][:, :1])
    trimmed = run_trimmed(layers, rows, None, first, rows.get("mask_positions"))
    encoded = {"sequence_output": trimmed.hidden}
    if "pooler" in layers:
        encoded["pooled_output"] = layers["pooler"](trimmed.hidden)

    # Model
    outputs = head.run(layers, encoded, inputs | {"mask_positions": trimmed.masked})
    outputs = {name: outputs[name] for name in model.output}
    return keras.Model(inputs, outputs, name=f"trimmed_{model.name}")


def _trimmable_description(model):
    """Returns the description of a model that can be trimmed, or `None`."""
    check_model(model)
    try:
        description = describe(model)
    except ValueError:  # No builder's, such as one with a teacher.
        return None
    if not isinstance(description, Description) or description.causal:
        return None  # A left-to-right model pools the last token.
    head = head_named(description.head)
    if head.run is None or "sequence" in head.reads:
        return None
    return description


class Trimmed(NamedTuple):
    """The output of the last block, and the places of the positions to pool and of those to predict in it."""

    hidden: Any
    first: Any
    masked: Any


def run_trimmed(layers, inputs, mask, first=None, masked=None):
    """Runs an encoder whose last block computes only some positions.

    `first` `(batch, texts)` are the positions to pool, `masked` `(batch, predictions)` those to predict, or `None`. A
    mask of `None` is that of `padding_mask`. Without both, all positions are computed. Returns a `Trimmed`, where the
    places of what is `None` are `None`.
    """
    wanted = []
    first_places = None
    masked_places = None
    if first is not None:
        wanted.append(first)
        first_places = _count_up(first)
    if masked is not None:
        wanted.append(masked)
        masked_places = _count_up(masked)
    if first is not None and masked is not None:  # They stand behind the first ones.
        masked_places += ops.sum(ops.ones_like(first), 1, keepdims=True)
    last = None
    if wanted:
        last = {"positions": ops.concatenate(wanted, 1)}
    states, _ = run_encoder(layers, inputs, mask=mask, last=last)
    return Trimmed(states[-1], first_places, masked_places)


def _count_up(positions):
    """Returns 0, 1, ... for the positions of each row."""
    return ops.cumsum(ops.ones_like(positions), 1) - 1


def build_packed(model: keras.Model) -> keras.Model:
    """Rewires a model for training on packed rows, with its own layers and weights; save and evaluate `model`.

    Without dropout, a text has the same vectors and logits in a packed row as alone in a row. `PackedBatches` packs.

    Args:
        model: a model from `build_encoder`, `build_classifier`, `build_token_classifier`, `build_pretrainer` or
            `build_next_sentence`.

    Returns:
        A `keras.Model`. Inputs, int32 `(batch, length)`: `token_ids`, `segment_ids`, `text_numbers` (of the text that
        each token belongs to, from 1; 0 for padding) and `position_ids` (from 0 in each text). `text_starts`
        `(batch, texts)` are the positions of the texts in their rows, 0 for absent ones. `mask_positions` are positions
        in the row. Outputs: those of `model`, where `pooled_output`, `nsp_logits` and the `logits` of a classifier are
        `(batch * texts, ...)`.

    Example:
        trainer = Trainer(model_fn, optimizer_fn, classification_loss(), rewire=build_packed)
    """
    # Layers
    description = describe(model)
    known = [head.name for head in HEADS if head.packs]
    if description.head not in known:
        raise ValueError(
            f"a model with the head {description.head!r} cannot be packed. Expected one of {', '.join(known)}"
        )
    layers = description.layers
    head = head_named(description.head)
    if description.causal and "pooler" in layers:
        raise ValueError("a left-to-right model that pools the last token cannot be packed")
    packed_mask = PackedMask(description.causal, name="packed_mask")
    first_tokens = FirstTokens(dtype=description.dtype, name="first_tokens")

    # Wiring
    names = ["token_ids", "segment_ids", "text_numbers", "position_ids", "text_starts"]
    if "masked" in head.reads:
        names.append("mask_positions")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    starts = None
    if "pooler" in layers:
        starts = inputs["text_starts"]
    mask = packed_mask(inputs["text_numbers"])
    if "sequence" in head.reads:
        trimmed = run_trimmed(layers, inputs, mask)
        pooled_places = starts
    else:
        trimmed = run_trimmed(layers, inputs, mask, starts, inputs.get("mask_positions"))
        pooled_places = trimmed.first
    encoded = {"sequence_output": trimmed.hidden}
    if starts is not None:
        encoded["pooled_output"] = layers["pooler"](first_tokens(trimmed.hidden, pooled_places))

    # Model
    outputs = head.run(layers, encoded, {"mask_positions": trimmed.masked})
    return keras.Model(inputs, outputs, name=f"packed_{model.name}")

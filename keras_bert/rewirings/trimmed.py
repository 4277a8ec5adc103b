"""Models for training with less work: without positions that no head reads, and on packed rows without padding."""

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
    description = _describe(model)
    if description is None:
        return model
    layers, head = description.layers, head_named(description.head)

    # Wiring
    inputs = {
        name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name) for name, tensor in model.input.items()
    }
    rows = head.encoder_inputs(layers, inputs)
    first = ops.zeros_like(rows["token_ids"][:, :1]) if "pooler" in layers else None
    hidden, _, masked = run_trimmed(layers, rows, None, first, rows.get("mask_positions"))
    encoded = {"sequence_output": hidden} | ({"pooled_output": layers["pooler"](hidden)} if "pooler" in layers else {})

    # Model
    outputs = head.run(layers, encoded, {**inputs, "mask_positions": masked})
    return keras.Model(inputs, {name: outputs[name] for name in model.output}, name=f"trimmed_{model.name}")


def _describe(model):
    """Returns the description of a model that can be trimmed, or `None`."""
    check_model(model)
    try:
        description = describe(model)
    except ValueError:  # No builder's, such as one with a teacher.
        return None
    head = head_named(description.head) if isinstance(description, Description) else None
    fits = head is not None and head.run is not None and "sequence" not in head.reads
    return description if fits and not description.causal else None  # A left-to-right model pools the last token.


def run_trimmed(layers, inputs, mask, first=None, masked=None):
    """Runs an encoder whose last block computes only some positions.

    `first` `(batch, texts)` are the positions to pool, `masked` `(batch, predictions)` those to predict, or `None`. A
    mask of `None` is that of `padding_mask`. Returns the output of the last block, and the places of `first` and of
    `masked` in it. Without both, all positions.
    """
    parts = [part for part in (first, masked) if part is not None]
    if not parts:
        return run_encoder(layers, inputs, mask=mask)[0][-1], None, None
    places = [ops.cumsum(ops.ones_like(part), 1) - 1 for part in parts]
    if len(parts) == 2:
        places[1] += ops.sum(ops.ones_like(first), 1, keepdims=True)
    hidden = run_encoder(layers, inputs, mask=mask, last={"positions": ops.concatenate(parts, 1)})[0][-1]
    return hidden, places[0] if first is not None else None, places[-1] if masked is not None else None


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
    layers, head = description.layers, head_named(description.head)
    if description.causal and "pooler" in layers:
        raise ValueError("a left-to-right model that pools the last token cannot be packed")
    packed_mask = PackedMask(description.causal, name="packed_mask")
    first_tokens = FirstTokens(dtype=description.dtype, name="first_tokens")

    # Wiring
    names = ("token_ids", "segment_ids", "text_numbers", "position_ids", "text_starts")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    if "masked" in head.reads:
        inputs["mask_positions"] = keras.Input((None,), dtype="int32", name="mask_positions")
    starts = inputs["text_starts"] if "pooler" in layers else None
    mask, reads_all = packed_mask(inputs["text_numbers"]), "sequence" in head.reads
    wanted = (None, None) if reads_all else (starts, inputs.get("mask_positions"))
    hidden, places, masked = run_trimmed(layers, inputs, mask, *wanted)
    encoded = {"sequence_output": hidden}
    if starts is not None:
        encoded["pooled_output"] = layers["pooler"](first_tokens(hidden, starts if reads_all else places))

    # Model
    outputs = head.run(layers, encoded, {"mask_positions": masked})
    return keras.Model(inputs, outputs, name=f"packed_{model.name}")

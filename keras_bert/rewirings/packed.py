"""Models on packed rows: rows of one shape that contain several texts each, and hardly any padding."""

import keras

from keras_bert.heads.describe import describe
from keras_bert.heads.registry import HEADS, head_named
from keras_bert.layers import FirstTokens, PackedMask
from keras_bert.rewirings.trimmed import run_trimmed


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
    _check(description)
    layers, head = description.layers, head_named(description.head)
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


def _check(description):
    """Raises for models without a packed form."""
    known = [head.name for head in HEADS if head.packs]
    if description.head not in known:
        raise ValueError(
            f"a model with the head {description.head!r} cannot be packed. Expected one of {', '.join(known)}"
        )
    if description.causal and "pooler" in description.layers:
        raise ValueError("a left-to-right model that pools the last token cannot be packed")

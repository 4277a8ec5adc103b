"""Models whose last block computes only the positions that the head reads, for training with less work."""

import keras
from keras import ops

from keras_bert.models.description import Description, describe

_HEADS = ("pretraining", "next_sentence", "classification", "multiple_choice")


def build_trimmed(model):
    """Rewires a model for training, with its own layers and weights: the last block computes only what the head reads.

    A classifier reads [CLS], the masked-LM head the masked positions. The outputs are the same; three quarters of the
    products of the last block are saved. Save and evaluate `model`.

    Args:
        model: a model from any builder.

    Returns:
        A `keras.Model` with the inputs and outputs of `model`, or `model` itself if its head reads all positions.

    Example:
        trainer = keras_bert.Trainer(model_fn, optimizer_fn, keras_bert.classification_loss(), rewire=build_trimmed)
    """
    # Layers
    description = _describe(model)
    if description is None:
        return model
    layers, head = description.layers, description.head

    # Wiring
    inputs = {
        name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name) for name, tensor in model.input.items()
    }
    rows = {name: layers["fold_choices"](inputs[name]) for name in inputs} if head == "multiple_choice" else inputs
    hidden = layers["embeddings"](layers["token_embedding"](rows["token_ids"]), rows["segment_ids"])
    mask = layers["attention_mask"](rows["padding_mask"])
    first = ops.zeros_like(rows["token_ids"][:, :1]) if "pooler" in layers else None
    hidden, _, masked = run_blocks(description, hidden, mask, first, rows.get("mask_positions"))
    pooled = layers["pooler"](hidden) if "pooler" in layers else None

    # Model
    if head == "multiple_choice":
        scores = layers["choice_scorer"](layers["head_dropout"](pooled))
        outputs = {"logits": layers["unfold_choices"](scores, inputs["padding_mask"])}
    else:
        outputs = head_outputs(description, hidden, pooled, masked)
    return keras.Model(inputs, {name: outputs[name] for name in model.output}, name=f"trimmed_{model.name}")


def _describe(model):
    """Returns the description of a model that can be trimmed, or `None`."""
    if not isinstance(model, keras.Model):
        return describe(model)  # Raises an error.
    try:
        description = describe(model)
    except ValueError:  # No builder's, such as one with a teacher.
        return None
    fits = isinstance(description, Description) and description.head in _HEADS
    # A left-to-right model pools the last token, and a BiLSTM reads all.
    return description if fits and not description.causal and not description.bilstm else None


def run_blocks(description, hidden, mask, first=None, masked=None):
    """Runs all blocks; the last one computes only some positions.

    Args:
        description: a `Description`.
        hidden: the output of the embeddings.
        mask: the attention mask.
        first: integers `(batch, texts)`, the positions to pool, or `None`.
        masked: integers `(batch, predictions)`, the positions to predict, or `None`.

    Returns:
        The output of the last block, and the places of `first` and of `masked` in it. Without both, all positions.
    """
    blocks = [description.layers[f"block_{index}"] for index in range(description.config.num_hidden_layers)]
    for block in blocks[:-1]:
        hidden = block(hidden, attention_mask=mask)
    parts = [part for part in (first, masked) if part is not None]
    if not parts:
        return blocks[-1](hidden, attention_mask=mask), None, None
    places = [ops.cumsum(ops.ones_like(part), 1) - 1 for part in parts]
    if len(parts) == 2:
        places[1] += ops.sum(ops.ones_like(first), 1, keepdims=True)
    positions = ops.concatenate(parts, 1)
    hidden = blocks[-1](hidden, attention_mask=mask, positions=positions)
    return hidden, places[0] if first is not None else None, places[-1] if masked is not None else None


def head_outputs(description, hidden, pooled, mask_positions):
    """Returns the outputs of an encoder's head, of those that can be packed."""
    head, layers = description.head, description.layers
    if head == "encoder":
        return {"sequence_output": hidden, "pooled_output": pooled}
    if head == "classification":
        return {"logits": layers["classifier"](layers["head_dropout"](pooled))}
    if head == "token_classification":
        return {"logits": layers["token_classifier"](layers["head_dropout"](hidden))}
    outputs = {}
    if head == "pretraining":
        masked = layers["mlm_transform"](hidden, mask_positions)
        decoder = layers.get("mlm_decoder")
        logits = layers["token_embedding"](masked, reverse=True) if decoder is None else decoder(masked)
        outputs["mlm_logits"] = layers["mlm_bias"](logits)
    if "next_sentence" in layers:
        outputs["nsp_logits"] = layers["next_sentence"](pooled)
    return outputs

"""The memory of a training step, estimated before the first one."""

import logging
import math

import tensorflow as tf
from tensorflow.python.client import device_lib

from keras_bert.memory import available_memory

_LOG = logging.getLogger("keras_bert")
_GRAPH = 120e6  # Bytes of graphs and compiled code.
_WORKING = 0.8  # Temporary tensors and gaps between tensors, in those of the largest block.
_LOGITS = 1.6  # Tensors of the logits over a vocabulary at a time.
# Times the available memory: estimates are up to 25% off.
_REFUSED = 1.3
_WARNED = 0.9


def check_memory(step, source, micro_batches, strategy):
    """Raises a `MemoryError` if batches of a source need far more than the free memory; warns if they may not fit."""
    sequences, predictions = largest_batch(source)
    available, sharing = _available(strategy)
    if available is None or not sequences:
        return

    def needed(micro_batches):
        pieces = micro_batches * strategy.num_replicas_in_sync
        computed = []
        for rows, length in sequences:
            rows_of_piece = -(-rows // pieces)
            computed.append((computed_together(step.model, rows_of_piece, length), length))
        needed_by_replica = step_bytes(
            step.model,
            computed,
            predictions,
            micro_batches,
            trimmed=step.is_rewired,
        )
        return sharing * needed_by_replica

    need = needed(micro_batches)
    limit = _WARNED * available
    if need <= limit:
        return
    rows, length = sequences[0]
    more_micro_batches = micro_batches
    while needed(more_micro_batches) > limit and more_micro_batches < rows:
        more_micro_batches *= 2
    are_enough = needed(more_micro_batches) <= limit
    advice = _advice(step.model, more_micro_batches if are_enough else None)
    message = (
        f"a training step on {rows:,} rows of {length:,} tokens needs about {_readable(need)} of memory, of which "
        f"{_readable(available)} are free: {advice}"
    )
    if need > _REFUSED * available:
        raise MemoryError(message)
    _LOG.warning("%s", message)


def _advice(model, micro_batches):
    """Returns how a step needs less memory, such as in more micro-batches, `None` if these would not be enough."""
    advice = "lower the batch size or the length"
    recomputes = any(getattr(layer, "remat", False) for layer in model._flatten_layers())
    if not recomputes:
        advice = f"recompute activations (`remat`=True), or {advice}"
    if micro_batches is not None:
        advice = f"compute it in {micro_batches} micro-batches (`gradient_accumulation`={micro_batches}), {advice}"
    return advice


def computed_together(model, rows, length):
    """Returns how many of the rows of a batch have activations at a time: windows of documents are limited."""
    limits = [layer.most_windows(length) for layer in model._flatten_layers() if hasattr(layer, "most_windows")]
    return min([rows, *limits])


def _readable(size):
    if size >= 1e9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.0f} MB"


def _available(strategy):
    """Returns the free bytes of the memory that training uses, `None` if unknown, and how many replicas share it."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return None, 1
    if not tf.config.list_logical_devices("GPU"):
        replicas_here = 1
        if strategy.num_replicas_in_sync > 1:
            replicas_here = len(strategy.extended.worker_devices)
        return available_memory(), replicas_here
    gpus = [device for device in device_lib.list_local_devices() if device.device_type == "GPU"]
    smallest = min(gpu.memory_limit for gpu in gpus)
    used = tf.config.experimental.get_memory_info("GPU:0")["current"]
    return smallest - used, 1


def largest_batch(source):
    """Returns the rows and the length of the sequences of the largest batch, a pair for each tower, and the number of
    masked positions of a row, `None` without any. The list of pairs is empty if they are unknown."""
    inputs = source.dataset().element_spec[0]
    if not isinstance(inputs, dict):
        return [], None
    names = [name for name in inputs if name.endswith("token_ids")]
    if not names:  # The two sides of a translation are read by different blocks.
        names = [name for name in inputs if name.endswith("_ids")][:1]
    sequences = [_rows_and_length(inputs[name].shape, source, name) for name in names]
    if None in sequences:
        sequences = []
    predictions = None
    if "mask_positions" in inputs:
        predictions = inputs["mask_positions"].shape[-1]
    return sequences, predictions


def _rows_and_length(shape, source, name):
    """Returns the number and the length of the sequences of an input in the largest batch; `None` if unknown."""
    length = shape[-1] or source.longest(name)
    rows = shape[0] or source.batch_size
    if not rows and length and hasattr(source, "tokens_per_batch"):
        rows = max(1, source.tokens_per_batch // length)
    if not rows or not length:
        return None
    for size in shape[1:-1]:
        rows *= size or source.windows_of(name)
    return rows, length


def step_bytes(model, sequences, predictions=None, micro_batches: int = 1, trimmed: bool = False):
    """Returns the bytes that a step of a replica needs besides weights and optimizer.

    `sequences` are `(rows, length)` of a micro-batch, a pair for each tower; `predictions` the masked positions of a
    row, `None` if all positions have logits; `trimmed` tells that the last block computes these and the first position
    alone.
    """
    blocks = _trained_blocks(model)
    recomputes = any(getattr(block, "remat", False) for block in blocks)
    kept = 0
    largest = 0  # Block of all towers so far.
    for rows, length in sequences:
        queries = [length] * len(blocks)
        if trimmed and blocks:
            queries[-1] = min(length, (predictions or 0) + 1)
        each = []
        for block, count in zip(blocks, queries, strict=True):
            each.append(block_bytes(block, rows, length, count))
        largest = max(largest, *each, 0)
        if recomputes:  # Their inputs, and two blocks at a time.
            each = [rows * length * block.hidden_size * _width(block) for block in blocks]
            kept += 2 * largest
        kept += sum(each)
        kept += rows * (predictions or length) * _vocabulary(model) * 4 * _LOGITS
    weights = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    return _GRAPH + 4 * weights * min(micro_batches, 2) + kept + _WORKING * largest


def _trained_blocks(model):
    """Returns the Transformer blocks with weights to train; a layer of attention alone is none."""
    blocks = []
    for layer in model._flatten_layers():
        is_block = hasattr(layer, "num_heads") and hasattr(layer, "intermediate_size")
        if is_block and layer.trainable_weights:
            blocks.append(layer)
    return blocks


def block_bytes(block, rows: int, length: int, queries: int):
    """Returns the bytes that a block keeps for the backward pass; of a row, it computes `queries` positions."""
    width = _width(block)
    masks = 1 if block.dropout else 0
    attentions = 2 if hasattr(block, "cross_attention") else 1
    # Input, key and value. Query, context, sum in float32, its LayerNorm and the mask of dropout.
    values = rows * length * 3 * width + rows * queries * ((3 + masks) * width + 4)
    # The softmax in float32, the mask of dropout and the product of both, or else the softmax in 16 bits.
    bytes_of_score = 4
    if block.attention_dropout:
        bytes_of_score += 2 * width
    elif width == 2:
        bytes_of_score += width
    scores = bytes_of_score * rows * block.num_heads * queries * length
    # Before and after the activation. The second mask and the second sum in float32.
    inner_bytes = 2 * width * block.intermediate_size
    outer_bytes = (masks * width + 4) * block.hidden_size
    feed_forward = rows * queries * (inner_bytes + outer_bytes)
    return attentions * (values * block.hidden_size + scores) + feed_forward


def _width(block):
    return 2 if block.compute_dtype in ("float16", "bfloat16") else 4


def _vocabulary(model):
    """Returns the number of logits of a position."""
    size = 0
    for tensor in getattr(model, "outputs", None) or []:
        if len(tensor.shape) == 3:
            size += tensor.shape[2] or 0
    return size

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
_REFUSED, _WARNED = 1.3, 0.9  # Times the available memory: estimates are up to 25% off.


def check_memory(step, source, micro_batches, strategy):
    """Raises a `MemoryError` if batches of a source need far more than the free memory; warns if they may not fit."""
    sequences, predictions = largest_batch(source)
    available, sharing = _available(strategy)
    if available is None or not sequences:
        return

    def needed(parts):
        pieces = parts * strategy.num_replicas_in_sync
        rows = [(computed_together(step.model, -(-rows // pieces), length), length) for rows, length in sequences]
        return sharing * step_bytes(step.model, rows, predictions, parts, step.is_rewired)

    need, limit = needed(micro_batches), _WARNED * available
    if need <= limit:
        return
    (rows, length), parts = sequences[0], micro_batches
    while needed(parts) > limit and parts < rows:
        parts *= 2
    accumulation = f"compute it in {parts} micro-batches (`gradient_accumulation`={parts}), "
    recomputes = any(getattr(layer, "remat", False) for layer in step.model._flatten_layers())
    message = (
        f"a training step on {rows:,} rows of {length:,} tokens needs about {_readable(need)} of memory, of which "
        f"{_readable(available)} are free: {accumulation if needed(parts) <= limit else ''}"
        f"{'' if recomputes else 'recompute activations (`remat`=True), or '}lower the batch size "
        "or the length"
    )
    if need > _REFUSED * available:
        raise MemoryError(message)
    _LOG.warning("%s", message)


def computed_together(model, rows, length):
    """Returns how many of the rows of a batch have activations at a time: windows of documents are limited."""
    limits = [layer.most_windows(length) for layer in model._flatten_layers() if hasattr(layer, "most_windows")]
    return min([rows, *limits])


def _readable(size):
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _available(strategy):
    """Returns the free bytes of the memory that training uses, `None` if unknown, and how many replicas share it."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return None, 1
    if not tf.config.list_logical_devices("GPU"):
        several = strategy.num_replicas_in_sync > 1
        return available_memory(), len(strategy.extended.worker_devices) if several else 1
    limits = [device.memory_limit for device in device_lib.list_local_devices() if device.device_type == "GPU"]
    return min(limits) - tf.config.experimental.get_memory_info("GPU:0")["current"], 1


def largest_batch(source):
    """Returns the rows and the length of the sequences of the largest batch, a pair for each tower, and the number of
    masked positions of a row, `None` without any. The list of pairs is empty if they are unknown."""
    inputs = source.dataset().element_spec[0]
    shapes = {name: spec.shape for name, spec in inputs.items()} if isinstance(inputs, dict) else {}
    names = [name for name in shapes if name.endswith("token_ids")]
    # The two sides of a translation are read by different blocks.
    names = names or [name for name in shapes if name.endswith("_ids")][:1]
    sequences = [_rows_and_length(shapes[name], source, name) for name in names]
    masked = shapes.get("mask_positions")
    return ([] if None in sequences else sequences), masked and masked[-1]


def _rows_and_length(shape, source, name):
    length, rows = shape[-1] or source.longest(name), shape[0] or source.batch_size
    if not rows and length and hasattr(source, "tokens_per_batch"):
        rows = max(1, source.tokens_per_batch // length)
    sequences = math.prod(size or source.windows_of(name) for size in shape[1:-1])
    return (rows * sequences, length) if rows and length else None


def step_bytes(model, sequences, predictions=None, micro_batches: int = 1, trimmed: bool = False):
    """Returns the bytes that a step of a replica needs besides weights and optimizer.

    `sequences` are `(rows, length)` of a micro-batch, a pair for each tower; `predictions` the masked positions of a
    row, `None` if all positions have logits; `trimmed` tells that the last block computes these and the first position
    alone.
    """
    blocks = [layer for layer in model._flatten_layers() if layer.trainable_weights and hasattr(layer, "num_heads")]
    blocks = [layer for layer in blocks if hasattr(layer, "intermediate_size")]  # Not attention alone.
    kept = largest = 0
    for rows, length in sequences:
        queries = [length] * len(blocks)
        queries[-1:] = [min(length, (predictions or 0) + 1)] if trimmed and blocks else queries[-1:]
        each = [block_bytes(block, rows, length, count) for block, count in zip(blocks, queries, strict=True)]
        largest = max(largest, *each, 0)
        if any(getattr(block, "remat", False) for block in blocks):  # Their inputs, and two blocks at a time.
            each = [2 * largest, *(rows * length * block.hidden_size * _width(block) for block in blocks)]
        kept += sum(each) + rows * (predictions or length) * _vocabulary(model) * 4 * _LOGITS
    weights = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    return _GRAPH + 4 * weights * min(micro_batches, 2) + kept + _WORKING * largest


def block_bytes(block, rows: int, length: int, queries: int):
    """Returns the bytes that a block keeps for the backward pass; of a row, it computes `queries` positions."""
    width, attentions = _width(block), 1 + hasattr(block, "cross_attention")
    masks = bool(block.dropout)
    # Input, key and value. Query, context, sum in float32, its LayerNorm and the mask of dropout.
    values = rows * length * 3 * width + rows * queries * ((3 + masks) * width + 4)
    # The softmax in float32, the mask of dropout and the product of both, or else the softmax in 16 bits.
    scores = 4 + (2 * width if block.attention_dropout else width if width == 2 else 0)
    # Before and after the activation. The second mask and the second sum in float32.
    feed_forward = rows * queries * (2 * width * block.intermediate_size + (masks * width + 4) * block.hidden_size)
    scores *= rows * block.num_heads * queries * length
    return attentions * (values * block.hidden_size + scores) + feed_forward


def _width(block):
    return 2 if block.compute_dtype in ("float16", "bfloat16") else 4


def _vocabulary(model):
    """Returns the number of logits of a position."""
    shapes = [tensor.shape for tensor in getattr(model, "outputs", None) or []]
    return sum(shape[2] or 0 for shape in shapes if len(shape) == 3)

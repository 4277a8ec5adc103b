"""The decoder of a Transformer, one token at a time, with cached keys and values.

The loops of `beams.py` and `sampling.py` run in one graph for any batch and source length. The new tokens of all
targets of a source are the rows of one `(batch, rows, width)` tensor, so that they read the encoder's keys and values
without copies. The cache has the keys and values of each row.
"""

import numbers
from typing import NamedTuple

from keras import ops

FORBIDDEN = -1e9


class CachedDecoder:
    """The decoder of a Transformer with a `TransformerDescription`, see `Decoder`."""

    def __init__(self, description):
        self.config = description.config
        self._layers = description.layers
        self._encoder, self._blocks = description.blocks("source"), description.blocks("target")

    def encode(self, ids, mask):
        """Returns what the steps read: keys and values of the encoder's output for all blocks, its mask, the table."""
        mask = self._layers["source_attention_mask"](mask)
        hidden = self._encode(ids, mask)
        read = [block.cross_attention.project_memory(hidden) for block in self._blocks]
        # Transposed once, since a product with the transposed table copies it.
        return Memory(read, mask, ops.transpose(self._layers["token_embedding"].embeddings))

    def _encode(self, ids, mask):
        hidden = self._layers["source_embeddings"](self._layers["token_embedding"](ids))
        for block in self._encoder:
            hidden = block(hidden, attention_mask=mask)
        return hidden

    def cross_attention(self, source_ids, source_mask, target_ids, target_mask):
        """Returns what targets, shifted right, attend to: probabilities `(batch, target length, source length)`.

        They are the mean of the heads of the last block.
        """
        memory_mask = self._layers["source_attention_mask"](source_mask)
        memory = self._encode(source_ids, memory_mask)
        mask = self._layers["target_attention_mask"](target_mask)
        hidden = self._layers["target_embeddings"](self._layers["token_embedding"](target_ids))
        for block in self._blocks:
            hidden, _, scores = block(hidden, memory, mask, memory_mask, return_attention_scores=True)
        return ops.mean(scores, axis=1)

    def caches(self, rows, length):
        """Returns empty keys and values of all blocks, each `(rows, heads, length, size)`."""

        def empty(block):
            attention = block.attention
            shape = (rows, attention.num_heads, length, attention.hidden_size // attention.num_heads)
            return ops.zeros(shape, attention.compute_dtype)

        return [(empty(block), empty(block)) for block in self._blocks]

    def logits(self, ids, position, caches, memory):
        """Returns the logits of the next token in float32, `(batch, rows, vocabulary)`, and the caches with `ids`.

        `ids` `(batch, rows)` are the last tokens, at `position`; `caches` those for `batch * rows` rows.
        """
        hidden = self._layers["target_embeddings"].step(self._layers["token_embedding"](ids), position)
        is_written = ops.arange(ops.shape(caches[0][0])[2], dtype="int32") <= position
        after = []
        for block, cache, read in zip(self._blocks, caches, memory.keys_and_values, strict=True):
            write = _Writer(cache, position)
            hidden = block.step(hidden, write, read, is_written[None, None, None], memory.mask)
            after.append(write.cache)
        logits = ops.matmul(hidden, ops.cast(memory.table, hidden.dtype))
        if "output_bias" in self._layers:
            logits = self._layers["output_bias"](logits)
        return ops.cast(logits, "float32"), after


class Memory(NamedTuple):
    """What the decoder reads at each step."""

    keys_and_values: list  # Pairs, one for each block, from `project_memory`.
    mask: object  # The encoder's attention mask.
    table: object  # `(width, vocabulary)`, the transposed token table.


class _Writer:
    """Writes the keys and values of new tokens at a position of a cache."""

    def __init__(self, cache, position):
        self.cache, self._position = cache, position

    def __call__(self, *new):
        rows, heads, length, size = ops.shape(self.cache[0])
        is_new = (ops.arange(length, dtype="int32") == self._position)[:, None]
        pairs = zip(self.cache, new, strict=True)
        self.cache = tuple(ops.where(is_new, ops.reshape(values, (rows, heads, 1, size)), old) for old, values in pairs)
        return self.cache


class Constraints:
    """What targets may be: their maximum lengths, the tokens with which they begin, and ids that never occur.

    `max_length` is the maximum number of target tokens, with the end token; or a tensor of one for each source, which
    the number of positions of the model limits. `prefix` is int32 `(batch, prefix length)`, -1 after shorter ones, or
    `None`. The attribute `limits`, `(batch,)`, has the maximum lengths, `length` is the largest of them.
    """

    def __init__(self, decoder, batch, max_length, prefix, forbidden):
        config = decoder.config
        self.forbidden = sorted(set(forbidden))
        if config.vocab_size <= len(self.forbidden):
            raise ValueError(f"`forbidden` must leave at least one of {config.vocab_size} ids")
        if isinstance(max_length, float):
            raise ValueError(f"`max_length` must be an int or a tensor of ints. Received: max_length={max_length}")
        if not isinstance(max_length, numbers.Integral):
            limits = ops.clip(ops.cast(max_length, "int32"), 0, config.max_position_embeddings)
            self.limits = ops.broadcast_to(limits, (batch,))
            self.length = ops.max(self.limits, initial=0)
        elif 0 <= max_length <= config.max_position_embeddings:
            self.limits, self.length = ops.full((batch,), int(max_length), "int32"), int(max_length)
        else:
            raise ValueError(
                "`max_length` must be at most the number of positions of the model, "
                f"{config.max_position_embeddings}. Received: max_length={max_length}"
            )
        if prefix is not None:
            padding = [(0, 0), (0, self.length)]
            prefix = ops.pad(prefix[:, : self.length], padding, constant_values=-1)[:, : self.length]
        self._prefix = prefix

    def forced(self, step):
        """Returns the tokens of the prefix at a step, `(batch, 1, 1)`, -1 after its end; `None` without a prefix."""
        return None if self._prefix is None else ops.take(self._prefix, step, axis=1)[:, None, None]

    def is_forbidden(self, ids):
        """Returns whether ids are among the forbidden ones."""
        forbidden = ops.zeros_like(ids, "bool")
        for wrong in self.forbidden:
            forbidden = ops.logical_or(forbidden, ids == wrong)
        return forbidden

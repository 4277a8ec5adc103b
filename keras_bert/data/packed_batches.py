"""Packed rows: several texts in each row of a batch, hardly any padding, one shape."""

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.data.batch_source import BatchSource
from keras_bert.data.bucketing import epoch_generator, is_ragged, planned_dataset, row_lengths, to_tensors
from keras_bert.data.token_rows import CompactRows, as_tensor, sequence_lengths

MOST_TEXTS = 64  # In a row.
_FACTORS = (1, 1.1, 1.25, 1.5, 2, 3, 4)  # Times the longest text: lengths of rows to try.
_RATIO = 1.03  # Target ratio of computed to real tokens.
_INPUTS = ("token_ids", "segment_ids")


class PackedBatches(BatchSource):
    """Packs in-memory texts into rows of one length, and splits the rows into batches, for `build_packed`.

    Each epoch contains every text once, in an order that depends only on `seed` and the epoch. Which lengths share a
    row is planned once; each epoch draws other texts of these lengths and shuffles the rows. A batch has a fixed number
    of rows and about `batch_size` texts. Missing texts and rows at the end have weight 0.

    Args:
        inputs: dict with the `tf.RaggedTensor`s `token_ids` and `segment_ids`, `(texts, length)`; `padding_mask` is
            ignored.
        targets: a feature or a dict of features, or `None`: either dense ones, a value per text, or `tf.RaggedTensor`s,
            a value per token, padded with -1.
        batch_size: int, mean number of texts per batch. Defaults to 32.
        sequence_length: int, length of the packed rows. Defaults to the length of the longest text, or up to four times
            that for at most 1.03 computed tokens per real token.
        shuffle: bool, whether to shuffle texts and rows. Defaults to `True`.
        seed: int, shuffle seed. Defaults to 0.

    Attributes:
        steps, sequence_length, tokens, seed: see `BatchSource`.
        batch_size: int, rows per batch.
        num_examples: int, texts per epoch.
        texts: int, the largest number of texts in a row, at most 64.
        computed: int, tokens per epoch, including padding.

    Example:
        batches = PackedBatches(inputs, labels, batch_size=32)
        trainer = Trainer(model_fn, optimizer_fn, classification_loss(), rewire=build_packed)
        trainer.fit(batches, epochs=3, evaluation=Batches(dev_inputs, dev_labels))
    """

    def __init__(
        self,
        inputs: Any,
        targets: Any = None,
        *,
        batch_size: int = 32,
        sequence_length: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
    ):
        check_count("batch_size", batch_size)
        check_count("seed", seed, 0)
        self.shuffle, self.seed = shuffle, seed
        if not all(is_ragged(inputs.get(name)) for name in _INPUTS):
            raise ValueError(
                f"`inputs` must have the `tf.RaggedTensor`s {' and '.join(_INPUTS)}. Received: {', '.join(inputs)}"
            )
        self._inputs, self._targets = to_tensors({name: inputs[name] for name in _INPUTS}), to_tensors(targets)
        self._lengths = row_lengths(self._inputs, self._targets)
        tokens = sequence_lengths(self._inputs["token_ids"])
        if longer := np.flatnonzero(tokens < self._lengths).tolist():
            text = longer[0]
            raise ValueError(
                "no feature may be longer than `token_ids`. Received: text "
                f"{text} with {tokens[text]} tokens and {self._lengths[text]} values of another feature"
            )
        self._inputs = {name: _padded(feature, self._lengths, 0) for name, feature in self._inputs.items()}
        if empty := np.flatnonzero(self._lengths == 0).tolist():
            raise ValueError(f"texts must have tokens, at least [CLS]. Received: text {empty[0]} without any")
        longest = int(self._lengths.max())
        sizes = [int(longest * factor) for factor in _FACTORS] if sequence_length is None else [sequence_length]
        check_count("sequence_length", sizes[0], longest)
        kinds = {is_ragged(feature) for feature in tf.nest.flatten(self._targets)}
        if len(kinds) > 1:
            raise ValueError("`targets` must all have a value per text, or all a value per token. Received: both")
        self._per_token = kinds == {True}
        if self._per_token:
            self._targets = tf.nest.map_structure(lambda tags: _padded(tags, self._lengths, -1), self._targets)
        self.num_examples, self.tokens = len(self._lengths), int(self._lengths.sum())
        self.computed = np.inf
        for size in sizes:
            if self.computed > _RATIO * self.tokens:
                self._try(size, batch_size)
        self.texts = self._plan.shape[1]

    def _try(self, size, batch_size):
        """Sets the plan with rows of some size if fewer tokens are computed than before."""
        plan = plan_rows(self._lengths, size)
        rows = max(1, round(batch_size * len(plan) / self.num_examples))
        steps = -(-len(plan) // rows)
        if steps * rows * size < self.computed:
            self._plan, self.sequence_length, self.batch_size, self.steps = plan, size, rows, steps
            self.computed = steps * rows * size

    def row_indices(self, epoch=0):
        """Returns the texts of each batch, integer arrays `(rows * texts,)` with -1 for missing texts."""
        return list(self._packed(epoch).reshape(self.steps, -1))

    def dataset(self, epoch=0, start=0):
        """Returns the batches of an epoch, a `tf.data.Dataset`, for `Trainer` or for `fit` of a packed model."""
        packed = self._packed(epoch).reshape(self.steps, self.batch_size, self.texts)
        return planned_dataset(self, packed, self._batch, start)

    def _packed(self, epoch):
        """Returns the texts of all rows of an epoch, `(steps * batch_size, texts)`, -1 for none."""
        packed = draw_texts(self._plan, self._lengths, epoch_generator(self, epoch))
        return np.pad(packed, [(0, self.steps * self.batch_size - len(packed)), (0, 0)], constant_values=-1)

    @tf.function(autograph=False)  # Traced once for the datasets of all epochs.
    def _batch(self, packed):
        inputs = pack(self._inputs, self._lengths.astype("int32"), packed, self.sequence_length)
        present = packed >= 0
        if self._per_token:
            take = functools.partial(_in_rows, packed=packed, size=self.sequence_length, padding=-1)
            weights = tf.reduce_any(present, 1)
        else:
            take = functools.partial(tf.gather, indices=tf.reshape(tf.maximum(packed, 0), [-1]))
            weights = tf.reshape(present, [-1])
        targets = None if self._targets is None else tf.nest.map_structure(take, self._targets)
        return inputs, targets, tf.cast(weights, tf.float32)


def plan_rows(lengths, size: int, most: int = MOST_TEXTS):
    """Returns which lengths share a row, `(rows, texts)`, 0 where a row has fewer texts than another one.

    Best fit, longest texts first: each text is put into the row with the least sufficient space. Rows with the same
    lengths are handled together. Lengths are from 1 to `size`, that of a row; a row has at most `most` texts.
    """
    rows = [{} for _ in range(size + 1)]  # The number of rows by their lengths, by the space that is left.
    full = {}  # Those with the maximum number of texts.

    def add(count, pattern, length, texts):
        """Adds texts of one length to each of a number of rows."""
        pattern = (*pattern, *[length] * texts)
        group = full if len(pattern) == most else rows[size - sum(pattern)]
        if count and pattern:
            group[pattern] = group.get(pattern, 0) + count

    counts = np.bincount(lengths, minlength=size + 1)
    for length in np.flatnonzero(counts)[::-1].tolist():
        left = int(counts[length])
        while left:
            fitting = next((group for group in rows[length:] if group), None)
            pattern, count = fitting.popitem() if fitting else ((), left)
            texts = min((size - sum(pattern)) // length, most - len(pattern))
            used, rest = divmod(min(left, count * texts), texts)
            add(used, pattern, length, texts)
            add(min(rest, 1), pattern, length, rest)
            add(count - used - min(rest, 1), pattern, length, 0)
            left -= used * texts + rest
    patterns = [pattern for group in (full, *rows) for pattern in group.items()]
    plan = np.zeros([sum(count for _, count in patterns), max(len(pattern) for pattern, _ in patterns)], np.uint16)
    first = 0
    for pattern, count in patterns:
        plan[first : first + count, : len(pattern)] = pattern
        first += count
    return plan


def draw_texts(plan, lengths, rng=None):
    """Returns texts with the lengths of a plan, `(rows, texts)`, -1 for none; random texts and rows with `rng`."""
    texts = np.arange(len(lengths), dtype=np.int32)
    if rng is not None:
        texts, plan = rng.permutation(texts), rng.permutation(plan)
    packed = np.full(plan.shape, -1, np.int32)
    places = np.flatnonzero(plan)
    by_length = np.argsort(plan.ravel()[places], kind="stable")
    packed.ravel()[places[by_length]] = texts[np.argsort(lengths[texts], kind="stable")]
    return packed


def pack(features, lengths, packed, size: int):
    """Returns the inputs of a model from `build_packed`, except `mask_positions`.

    `features` and `lengths` are those of all texts, `packed` `(rows, texts)` the numbers of each row's texts, -1 for
    none; rows have the length `size`.
    """
    in_rows = functools.partial(_in_rows, packed=packed, size=size)
    inputs = {name: in_rows(feature) for name, feature in features.items()}
    texts = tf.where(packed >= 0, tf.gather(lengths, tf.maximum(packed, 0)), 0)  # Their lengths.
    ends = tf.cumsum(texts, axis=1)
    place = tf.broadcast_to(tf.range(size), [tf.shape(packed)[0], size])
    number = tf.searchsorted(ends, place, side="right")  # Of the text of each token, from 0.
    start = tf.gather(ends - texts, tf.minimum(number, packed.shape[1] - 1), batch_dims=1)
    real = place < ends[:, -1:]
    inputs["text_numbers"] = tf.where(real, number + 1, 0)
    inputs["position_ids"] = tf.where(real, place - start, 0)
    inputs["text_starts"] = tf.where(packed >= 0, ends - texts, 0)
    return inputs


def _in_rows(feature, packed, size, padding=0):
    """Concatenates the texts of each row, `(rows, size)`, and pads the rows."""
    chosen = tf.boolean_mask(packed, packed >= 0)
    texts = feature.ragged(chosen) if isinstance(feature, CompactRows) else tf.gather(feature, chosen)
    counts = tf.reduce_sum(tf.cast(packed >= 0, texts.row_splits.dtype), 1)
    rows = tf.RaggedTensor.from_row_lengths(texts, counts).merge_dims(1, 2)
    return rows.to_tensor(padding, shape=[packed.shape[0], size])


def _padded(feature, lengths, padding):
    """Pads each text of a ragged feature to its length."""
    missing = lengths - sequence_lengths(feature)
    if not missing.any():
        return feature
    feature = as_tensor(feature)
    pad_values = tf.fill([missing.sum()], tf.cast(padding, feature.dtype))
    return tf.concat([feature, tf.RaggedTensor.from_row_lengths(pad_values, missing)], 1)

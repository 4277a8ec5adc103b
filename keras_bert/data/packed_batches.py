"""Packed rows: several texts in each row of a batch, hardly any padding, one shape."""

import dataclasses
import functools
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.data.batch_source import BatchSource
from keras_bert.data.bucketing import epoch_generator, planned_dataset
from keras_bert.data.features import is_ragged, row_lengths, to_tensors
from keras_bert.data.token_rows import CompactRows, as_tensor, sequence_lengths

MOST_TEXTS = 64  # In a row.
_FACTORS = (1, 1.1, 1.25, 1.5, 2, 3, 4)  # Times the longest text: lengths of rows to try.
_RATIO = 1.03  # Target ratio of computed to real tokens.
_INPUTS = ("token_ids", "segment_ids")


@dataclasses.dataclass(frozen=True)
class _PackedPlan:
    """The rows of an epoch, as batches."""

    rows: np.ndarray  # The lengths that share a row, see `plan_rows`.
    size: int  # Of a row, in tokens.
    batch_size: int  # Rows of a batch.
    steps: int

    @property
    def computed(self):
        """The tokens of all batches, including padding."""
        return self.steps * self.batch_size * self.size


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
        self.shuffle = shuffle
        self.seed = seed
        _check_are_ragged(inputs)
        features = to_tensors({name: inputs[name] for name in _INPUTS})
        target_features = to_tensors(targets)
        self._lengths = row_lengths(features, target_features)
        _check_lengths(sequence_lengths(features["token_ids"]), self._lengths)
        self._inputs = {}
        for name, feature in features.items():
            self._inputs[name] = _padded(feature, self._lengths, padding=0)
        self.num_examples = len(self._lengths)
        self.tokens = int(self._lengths.sum())
        sizes = self._sizes_to_try(sequence_length)
        self._per_token = _are_per_token(target_features)
        self._targets = target_features
        if self._per_token:
            pad_tags = functools.partial(_padded, lengths=self._lengths, padding=-1)
            self._targets = tf.nest.map_structure(pad_tags, target_features)
        plan = self._best_plan(sizes, batch_size)
        self._rows = plan.rows
        self.sequence_length = plan.size
        self.batch_size = plan.batch_size
        self.steps = plan.steps
        self.computed = plan.computed
        self.texts = self._rows.shape[1]

    def _sizes_to_try(self, sequence_length):
        """Returns the lengths of rows to try: a given one, or some times the longest text."""
        longest = int(self._lengths.max())
        if sequence_length is None:
            return [int(longest * factor) for factor in _FACTORS]
        check_count("sequence_length", sequence_length, longest)
        return [sequence_length]

    def _best_plan(self, sizes, batch_size):
        """Returns the first plan with little padding, or else the one with the fewest tokens."""
        best = None
        for size in sizes:
            plan = self._plan_of_size(size, batch_size)
            if best is None or plan.computed < best.computed:
                best = plan
            if best.computed <= _RATIO * self.tokens:
                break
        return best

    def _plan_of_size(self, size, batch_size):
        """Returns the plan with rows of some size, and about `batch_size` texts in a batch."""
        rows = plan_rows(self._lengths, size)
        rows_of_batch = max(1, round(batch_size * len(rows) / self.num_examples))
        return _PackedPlan(rows, size, rows_of_batch, steps=-(-len(rows) // rows_of_batch))

    def row_indices(self, epoch=0):
        """Returns the texts of each batch, integer arrays `(rows * texts,)` with -1 for missing texts."""
        return list(self._packed(epoch).reshape(self.steps, -1))

    def dataset(self, epoch=0, start=0):
        """Returns the batches of an epoch, a `tf.data.Dataset`, for `Trainer` or for `fit` of a packed model."""
        packed = self._packed(epoch).reshape(self.steps, self.batch_size, self.texts)
        return planned_dataset(self, packed, self._batch, start)

    def _packed(self, epoch):
        """Returns the texts of all rows of an epoch, `(steps * batch_size, texts)`, -1 for none."""
        packed = draw_texts(self._rows, self._lengths, epoch_generator(self, epoch))
        missing = self.steps * self.batch_size - len(packed)
        return np.pad(packed, [(0, missing), (0, 0)], constant_values=-1)

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
        targets = None
        if self._targets is not None:
            targets = tf.nest.map_structure(take, self._targets)
        return inputs, targets, tf.cast(weights, tf.float32)


def _check_are_ragged(inputs):
    """Raises unless the inputs that are read are ragged."""
    for name in _INPUTS:
        if not is_ragged(inputs.get(name)):
            raise ValueError(
                f"`inputs` must have the `tf.RaggedTensor`s {' and '.join(_INPUTS)}. Received: {', '.join(inputs)}"
            )


def _check_lengths(tokens, lengths):
    """Raises if a text has no tokens, or fewer than values of another feature; `tokens` are the tokens of each text."""
    longer = np.flatnonzero(tokens < lengths)
    if longer.size:
        text = int(longer[0])
        raise ValueError(
            "no feature may be longer than `token_ids`. Received: text "
            f"{text} with {tokens[text]} tokens and {lengths[text]} values of another feature"
        )
    empty = np.flatnonzero(lengths == 0)
    if empty.size:
        raise ValueError(f"texts must have tokens, at least [CLS]. Received: text {int(empty[0])} without any")


def _are_per_token(targets):
    """Whether targets have a value per token, rather than one per text."""
    are_ragged = {is_ragged(feature) for feature in tf.nest.flatten(targets)}
    if len(are_ragged) > 1:
        raise ValueError("`targets` must all have a value per text, or all a value per token. Received: both")
    return are_ragged == {True}


def plan_rows(lengths, size: int, most: int = MOST_TEXTS):
    """Returns which lengths share a row, `(rows, texts)`, 0 where a row has fewer texts than another one.

    Best fit, longest texts first: each text is put into the row with the least sufficient space. Rows with the same
    lengths are handled together. Lengths are from 1 to `size`, that of a row; a row has at most `most` texts.
    """
    patterns = _Patterns(size, most)
    counts = np.bincount(lengths, minlength=size + 1)
    for length in np.flatnonzero(counts)[::-1].tolist():
        left = int(counts[length])  # Texts of this length without a row.
        while left:
            pattern, rows = patterns.take(length) or ((), left)
            texts = min((size - sum(pattern)) // length, most - len(pattern))  # As many as one of the rows takes.
            full_rows, rest = divmod(min(left, rows * texts), texts)
            patterns.add((*pattern, *[length] * texts), full_rows)
            unchanged = rows - full_rows
            if rest:
                patterns.add((*pattern, *[length] * rest), 1)
                unchanged -= 1
            patterns.add(pattern, unchanged)
            left -= full_rows * texts + rest
    return patterns.to_array()


class _Patterns:
    """Rows with the same lengths, `size` tokens in a row, `most` texts at most.

    A pattern is the lengths of the texts of a row, a tuple. For each, there is the number of rows.
    """

    def __init__(self, size, most):
        self._size = size
        self._most = most
        self._by_space = [{} for _ in range(size + 1)]  # By the tokens that are left.
        self._full = {}  # Those with the maximum number of texts.

    def add(self, pattern, rows):
        """Adds a number of rows, which may be 0; rows without texts are not counted."""
        if not rows or not pattern:
            return
        if len(pattern) == self._most:
            group = self._full
        else:
            group = self._by_space[self._size - sum(pattern)]
        group[pattern] = group.get(pattern, 0) + rows

    def take(self, length):
        """Removes the pattern with the least space for a length; returns it with its rows, or `None` without one."""
        for group in self._by_space[length:]:
            if group:
                return group.popitem()
        return None

    def to_array(self):
        """Returns the lengths of all rows, `(rows, texts)`."""
        patterns = []
        rows = 0
        texts = 0
        for group in (self._full, *self._by_space):
            for pattern, count in group.items():
                patterns.append((pattern, count))
                rows += count
                texts = max(texts, len(pattern))
        lengths = np.zeros([rows, texts], np.uint16)
        first = 0
        for pattern, count in patterns:
            lengths[first : first + count, : len(pattern)] = pattern
            first += count
        return lengths


def draw_texts(plan, lengths, rng=None):
    """Returns texts with the lengths of a plan, `(rows, texts)`, -1 for none; random texts and rows with `rng`."""
    texts = np.arange(len(lengths), dtype=np.int32)
    rows = plan
    if rng is not None:
        texts = rng.permutation(texts)
        rows = rng.permutation(plan)
    packed = np.full(rows.shape, -1, np.int32)
    places = np.flatnonzero(rows)
    by_length = np.argsort(rows.ravel()[places], kind="stable")
    packed.ravel()[places[by_length]] = texts[np.argsort(lengths[texts], kind="stable")]
    return packed


def pack(features, lengths, packed, size: int):
    """Returns the inputs of a model from `build_packed`, except `mask_positions`.

    `features` and `lengths` are those of all texts, `packed` `(rows, texts)` the numbers of each row's texts, -1 for
    none; rows have the length `size`.
    """
    in_rows = functools.partial(_in_rows, packed=packed, size=size)
    inputs = {name: in_rows(feature) for name, feature in features.items()}
    text_lengths = tf.where(packed >= 0, tf.gather(lengths, tf.maximum(packed, 0)), 0)
    ends = tf.cumsum(text_lengths, axis=1)
    starts = ends - text_lengths
    place = tf.broadcast_to(tf.range(size), [tf.shape(packed)[0], size])
    number = tf.searchsorted(ends, place, side="right")  # Of the text of each token, from 0.
    start = tf.gather(starts, tf.minimum(number, packed.shape[1] - 1), batch_dims=1)
    real = place < ends[:, -1:]
    inputs["text_numbers"] = tf.where(real, number + 1, 0)
    inputs["position_ids"] = tf.where(real, place - start, 0)
    inputs["text_starts"] = tf.where(packed >= 0, starts, 0)
    return inputs


def _in_rows(feature, packed, size, padding=0):
    """Concatenates the texts of each row, `(rows, size)`, and pads the rows."""
    chosen = tf.boolean_mask(packed, packed >= 0)
    if isinstance(feature, CompactRows):
        texts = feature.ragged(chosen)
    else:
        texts = tf.gather(feature, chosen)
    counts = tf.reduce_sum(tf.cast(packed >= 0, texts.row_splits.dtype), 1)
    rows = tf.RaggedTensor.from_row_lengths(texts, counts).merge_dims(1, 2)
    return rows.to_tensor(padding, shape=[packed.shape[0], size])


def _padded(feature, lengths, padding):
    """Pads each text of a ragged feature to its length."""
    missing = lengths - sequence_lengths(feature)
    if not missing.any():
        return feature
    values = as_tensor(feature)
    pad_values = tf.fill([missing.sum()], tf.cast(padding, values.dtype))
    return tf.concat([values, tf.RaggedTensor.from_row_lengths(pad_values, missing)], 1)

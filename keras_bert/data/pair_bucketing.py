"""Batches of pairs of sequences and of several towers, each side padded to lengths of its own."""

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.data.batch_plans import GroupPlan, even_batches, first_within
from keras_bert.data.boundaries import fit_boundaries
from keras_bert.data.bucketing import Batches, PlannedBatches, batch_rows
from keras_bert.data.document_batches import DocumentLists, DocumentRows, window_sizes
from keras_bert.data.features import longest_sequences, pad_rows, to_tensors

# Of `PairBatches`.
_MOST_SOURCE = 12  # Lengths of sources.
_MOST_TARGET = 6  # Lengths of the targets of sources of one length.
_PADDING_RATIO = 1.15  # Target ratio of computed to real tokens.
_RATIOS = (1.08, 1.06, 1.04, 1.02, 1.0)  # Those of one side to try.
# Of `TowerBatches`.
_GROUPS = 16  # Of similar rows; more than in `Batches`, since the towers of a row differ in length.
_LENGTHS = 24  # That a tower is padded to.


class PairBatches(PlannedBatches):
    """Splits pairs of sequences into batches whose sources, and whose targets, are of similar length.

    Each epoch contains every pair once, in an order that depends only on `seed` and the epoch. The sources of a batch
    are padded to one length, its targets to another one; the fewest lengths are chosen for which at most 1.15 tokens
    are computed for each real one.

    Args:
        sources, targets: `tf.RaggedTensor`s of ids `(rows, length)`.
        labels: `tf.RaggedTensor` of ids as long as `targets`, padded with -1, or `None`.
        tokens_per_batch: int, maximum number of source tokens, and of target tokens, including padding, but at least
            one pair. Defaults to 4096.
        shuffle: bool, whether to shuffle pairs and batches; otherwise they are sorted by length. Defaults to `True`.
        seed: int, shuffle seed. Defaults to 0.

    Attributes:
        steps, num_examples, tokens, seed: see `BatchSource`; `tokens` are those of both sides.
        boundaries: list of (source length, target length), the lengths in use.
        computed: int, tokens per epoch, including padding and filler.

    Example:
        batches = PairBatches(sources, targets, labels, tokens_per_batch=4096)
        trainer.fit(batches, epochs=30)
    """

    def __init__(
        self,
        sources: Any,
        targets: Any,
        labels: Any = None,
        *,
        tokens_per_batch: int = 4096,
        shuffle: bool = True,
        seed: int = 0,
    ):
        check_count("tokens_per_batch", tokens_per_batch)
        check_count("seed", seed, 0)
        self.tokens_per_batch = tokens_per_batch
        self.shuffle = shuffle
        self.seed = seed
        self._sides = to_tensors({"source": sources, "target": targets})
        self._labels = to_tensors(labels)
        lengths = self._pair_lengths()
        self.num_examples = len(lengths)
        self.tokens = int(lengths.sum())
        plans = (self._planned(lengths, ratio) for ratio in _RATIOS)
        self._plan = first_within(plans, _PADDING_RATIO * self.tokens)
        self.boundaries = [tuple(pair) for pair in self._plan.boundaries.tolist()]
        self.sequence_length = int(np.max(self.boundaries))
        self.computed = self._plan.computed()

    def _pair_lengths(self):
        """Returns the lengths of both sides, `(rows, 2)`; raises for features that are no pairs."""
        features = {"sources": self._sides["source"], "targets": self._sides["target"]}
        if self._labels is not None:
            features["labels"] = self._labels
        for name, ids in features.items():
            is_ragged = isinstance(ids, tf.RaggedTensor)
            if not is_ragged or ids.shape.rank != 2 or not ids.dtype.is_integer:
                raise ValueError(f"`{name}` must be a `tf.RaggedTensor` of ids (rows, length). Received: {ids!r:.100}")
        rows = {name: int(ids.nrows()) for name, ids in features.items()}
        if len(set(rows.values())) > 1 or 0 in rows.values():
            raise ValueError(f"both sides must have the same number of rows, at least one. Received: rows={rows}")
        lengths = {name: ids.row_lengths().numpy() for name, ids in features.items()}
        if self._labels is not None:
            _check_label_lengths(lengths["labels"], lengths["targets"])
        sides = np.stack([lengths["sources"], lengths["targets"]], axis=1)
        return np.maximum(sides, 1)

    def _planned(self, lengths, ratio):
        """Returns a plan whose sides are padded to at most about `ratio` tokens per real one."""
        boundaries, row_groups = _pair_boundaries(lengths, ratio)
        counts = np.bincount(row_groups, minlength=len(boundaries))
        most = self.tokens_per_batch // np.max(boundaries, axis=1)
        sizes, batch_groups = even_batches(counts, most)
        return GroupPlan(boundaries, row_groups, sizes, batch_groups)

    @tf.function(autograph=False)  # Traced once for the datasets of all epochs.
    def _batch(self, all_rows, start, size, lengths):
        rows, weights = batch_rows(all_rows, start, size)
        take = functools.partial(pad_rows, rows=rows)
        inputs = {}
        for (side, ids), length in zip(self._sides.items(), tf.unstack(lengths, 2), strict=True):
            inputs[f"{side}_ids"] = take(ids, length=length)
            inputs[f"{side}_mask"] = take(ids.with_values(tf.ones_like(ids.values)), length=length)
        return inputs, take(self._labels, length=lengths[1], padding=-1), weights


def _check_label_lengths(labels, targets):
    """Raises unless labels are as long as targets; both are the lengths of all rows."""
    wrong = np.flatnonzero(labels != targets)
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(
            f"`labels` must be as long as `targets`. Received: {labels[row]} labels for {targets[row]} targets in row "
            f"{row}"
        )


def _pair_boundaries(lengths, ratio):
    """Returns pairs of boundaries, those of the sources with those of their targets, and the pair of each row."""
    sources, targets = lengths.T
    boundaries = []
    row_groups = np.zeros(len(lengths), np.uint16)
    source_boundaries = fit_boundaries(sources, _MOST_SOURCE, ratio)
    bucket = np.searchsorted(source_boundaries, sources)
    for index, source in enumerate(source_boundaries):
        here = bucket == index
        target_boundaries = fit_boundaries(targets[here], _MOST_TARGET, ratio)
        row_groups[here] = len(boundaries) + np.searchsorted(target_boundaries, targets[here])
        for target in target_boundaries:
            boundaries.append((source, target))
    return boundaries, row_groups


class TowerBatches(Batches):
    """`Batches` whose features are those of several towers: the part of a name before the first `_` is the tower.

    The features of a tower are padded to the longest row of the batch in this tower, rounded up to one of at most 24
    lengths: questions are not padded to the length of passages. Documents are padded in the same way to a number of
    windows, and their windows to a length.

    Example:
        batches = TowerBatches({"query_token_ids": ..., "passage_token_ids": ...}, targets, grouped=False)
    """

    def __init__(self, inputs: Any, targets: Any = None, *, batch_size: int = 32, **options):
        super().__init__(inputs, targets, batch_size=batch_size, **options)
        sizes = {}  # Of the features of each tower.
        for name, feature in self._input_features.items():
            sizes.setdefault(_tower(name), []).append(_row_sizes(feature))
        self._towers = {}
        for tower, of_features in sizes.items():
            self._towers[tower] = _TowerSizes(np.max(of_features, axis=0))

    def longest(self, name):
        return self._towers[_tower(name)].longest

    def windows_of(self, name):
        return self._towers[_tower(name)].windows

    def _fit(self, lengths):
        return self._planned(fit_boundaries(lengths, _GROUPS), lengths)

    def _inputs(self, rows, length):
        lengths = {tower: sizes.padded(rows) for tower, sizes in self._towers.items()}
        inputs = {}
        for name, feature in self._input_features.items():
            inputs[name] = pad_rows(feature, rows, lengths[_tower(name)])
        return inputs


class _TowerSizes:
    """The sizes of the rows of a tower, an array `(rows, 1)` of lengths, or `(rows, 2)` of numbers of windows, too.

    Attributes:
        longest: int, the largest length.
        windows: int, the largest number of windows.
    """

    def __init__(self, sizes):
        self._sizes = np.maximum(sizes, 1).astype("int32")
        self._boundaries = [fit_boundaries(values, _LENGTHS) for values in self._sizes.T]
        self.longest = int(self._boundaries[-1][-1])  # With padding.
        self.windows = 1
        if len(self._boundaries) == 2:
            self.windows = int(self._boundaries[0][-1])

    def padded(self, rows):
        """Returns the length to pad some rows to, a scalar, or the number of windows and the length of each."""
        largest = tf.reduce_max(tf.gather(self._sizes, rows), axis=0)
        rounded = []
        for number, size in enumerate(tf.unstack(largest, len(self._boundaries))):
            boundaries = tf.constant(self._boundaries[number], tf.int32)
            place = tf.searchsorted(boundaries, size[None])[0]
            rounded.append(tf.gather(boundaries, place))
        if len(rounded) == 1:
            return rounded[0]
        return tf.stack(rounded)


def _row_sizes(feature):
    """Returns the sizes of the rows of a feature, see `_TowerSizes`."""
    if isinstance(feature, DocumentRows | DocumentLists):
        return np.stack(window_sizes(feature), axis=1)
    return longest_sequences(feature)[:, np.newaxis]


def _tower(name):
    return name.partition("_")[0]

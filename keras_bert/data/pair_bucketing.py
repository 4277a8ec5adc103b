"""Batches of pairs of sequences and of several towers, each side padded to lengths of its own."""

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.data.bucketing import (
    Batches,
    GroupPlan,
    PlannedBatches,
    batch_rows,
    even_batches,
    first_within,
    fit_boundaries,
    longest_sequences,
    pad_rows,
    to_tensors,
)
from keras_bert.data.document_batches import DocumentLists, DocumentRows, window_sizes

_MOST_SOURCE, _MOST_TARGET = 12, 6
_PADDING_RATIO = 1.15  # Target ratio of computed to real tokens.
_RATIOS = (1.08, 1.06, 1.04, 1.02, 1.0)
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
        self.tokens_per_batch, self.shuffle, self.seed = tokens_per_batch, shuffle, seed
        self._sides = to_tensors({"source": sources, "target": targets})
        self._labels = to_tensors(labels)
        lengths = self._check()
        self.num_examples, self.tokens = len(lengths), int(lengths.sum())
        self._plan = first_within((self._planned(lengths, ratio) for ratio in _RATIOS), _PADDING_RATIO * self.tokens)
        self.boundaries = [tuple(pair) for pair in self._plan.boundaries.tolist()]
        self.sequence_length, self.computed = int(np.max(self.boundaries)), self._plan.computed()

    def _check(self):
        """Returns the lengths of both sides, `(rows, 2)`."""
        features = {"sources": self._sides["source"], "targets": self._sides["target"], "labels": self._labels}
        features = {name: ids for name, ids in features.items() if ids is not None}
        for name, ids in features.items():
            if not isinstance(ids, tf.RaggedTensor) or ids.shape.rank != 2 or not ids.dtype.is_integer:
                raise ValueError(f"`{name}` must be a `tf.RaggedTensor` of ids (rows, length). Received: {ids!r:.100}")
        rows = {name: int(ids.nrows()) for name, ids in features.items()}
        if len(set(rows.values())) > 1 or 0 in rows.values():
            raise ValueError(f"both sides must have the same number of rows, at least one. Received: rows={rows}")
        lengths = [ids.row_lengths().numpy() for ids in features.values()]
        wrong = np.flatnonzero(lengths[1] != lengths[-1])
        if wrong.size:
            row = int(wrong[0])
            raise ValueError(
                f"`labels` must be as long as `targets`. Received: {lengths[-1][row]} labels for {lengths[1][row]} "
                f"targets in row {row}"
            )
        return np.maximum(np.stack(lengths[:2], axis=1), 1)

    def _planned(self, lengths, ratio):
        boundaries, group = _boundaries(lengths, ratio)
        counts = np.bincount(group, minlength=len(boundaries))
        return GroupPlan(boundaries, group, *even_batches(counts, self.tokens_per_batch // np.max(boundaries, axis=1)))

    @tf.function(autograph=False)  # Traced once for the datasets of all epochs.
    def _batch(self, rows, start, size, lengths):
        rows, weights = batch_rows(rows, start, size)
        take = functools.partial(pad_rows, rows=rows)
        inputs = {}
        for (side, ids), length in zip(self._sides.items(), tf.unstack(lengths, 2), strict=True):
            inputs[f"{side}_ids"] = take(ids, length=length)
            inputs[f"{side}_mask"] = take(ids.with_values(tf.ones_like(ids.values)), length=length)
        return inputs, take(self._labels, length=lengths[1], padding=-1), weights


def _boundaries(lengths, ratio):
    """Returns pairs of boundaries: those of the sources, and for each of these, those of its targets."""
    sources, targets = lengths.T
    boundaries, group = [], np.zeros(len(lengths), np.uint16)
    source_boundaries = fit_boundaries(sources, _MOST_SOURCE, ratio)
    bucket = np.searchsorted(source_boundaries, sources)
    for index, source in enumerate(source_boundaries):
        here = bucket == index
        fits = fit_boundaries(targets[here], _MOST_TARGET, ratio)
        group[here] = len(boundaries) + np.searchsorted(fits, targets[here])
        boundaries += [(source, target) for target in fits]
    return boundaries, group


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
        for name, feature in self._features[0].items():
            sizes.setdefault(_tower(name), []).append(_sizes(feature))
        self._towers = {tower: _TowerSizes(np.max(of_features, axis=0)) for tower, of_features in sizes.items()}

    def longest(self, name):
        return self._towers[_tower(name)].longest

    def windows_of(self, name):
        return self._towers[_tower(name)].windows

    def _fit(self, lengths):
        return self._planned(fit_boundaries(lengths, _GROUPS), lengths)

    def _inputs(self, rows, length):
        lengths = {tower: sizes.padded(rows) for tower, sizes in self._towers.items()}
        return {name: pad_rows(feature, rows, lengths[_tower(name)]) for name, feature in self._features[0].items()}


class _TowerSizes:
    """The sizes of the rows of a tower, an array `(rows, 1)` of lengths, or `(rows, 2)` of numbers of windows, too.

    Attributes:
        longest: int, the largest length.
        windows: int, the largest number of windows.
    """

    def __init__(self, sizes):
        self._sizes = np.maximum(sizes, 1).astype("int32")
        self._boundaries = [fit_boundaries(values, _LENGTHS) for values in self._sizes.T]

        *windows, longest = [int(boundaries[-1]) for boundaries in self._boundaries]
        self.longest = longest  # With padding.
        self.windows = windows[0] if windows else 1

    def padded(self, rows):
        """Returns the length to pad some rows to, a scalar, or the number of windows and the length of each."""
        largest = tf.reduce_max(tf.gather(self._sizes, rows), axis=0)
        rounded = []
        for size, boundaries in zip(tf.unstack(largest, len(self._boundaries)), self._boundaries, strict=True):
            boundaries = tf.constant(boundaries, tf.int32)
            rounded.append(tf.gather(boundaries, tf.searchsorted(boundaries, size[None])[0]))
        return rounded[0] if len(rounded) == 1 else tf.stack(rounded)


def _sizes(feature):
    """Returns the sizes of the rows of a feature, see `_TowerSizes`."""
    if isinstance(feature, DocumentRows | DocumentLists):
        return np.stack(window_sizes(feature), axis=1)
    return longest_sequences(feature)[:, np.newaxis]


def _tower(name):
    return name.partition("_")[0]

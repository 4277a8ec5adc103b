"""Batches of pairs of sequences: sources and targets are padded to lengths of their own."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.checks import check_count
from keras_bert.training.batch_plans import GroupPlan, even_batches
from keras_bert.training.boundaries import fit_boundaries
from keras_bert.training.bucketing import PlannedBatches
from keras_bert.training.padding import pad_rows, to_tensors

_MOST_SOURCE, _MOST_TARGET = 12, 6
_PADDING_RATIO = 1.15  # Target ratio of computed to real tokens.
_RATIOS = (1.08, 1.06, 1.04, 1.02, 1.0)


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
        labels: Sequence | None = None,
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
        self.boundaries, self._plan = self._fit(lengths)
        self.sequence_length, self.computed = int(np.max(self.boundaries)), _computed(self._plan)

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

    def _fit(self, lengths):
        """Returns the boundaries and the plan."""
        fits = []
        for ratio in _RATIOS:
            boundaries, group = _boundaries(lengths, ratio)
            counts = np.bincount(group, minlength=len(boundaries))
            batches = even_batches(counts, self.tokens_per_batch // np.max(boundaries, axis=1))
            fits.append((boundaries, GroupPlan(boundaries, group, *batches)))
            if _computed(fits[-1][1]) <= _PADDING_RATIO * self.tokens:
                return fits[-1]
        return min(fits, key=lambda fit: _computed(fit[1]))

    @tf.autograph.experimental.do_not_convert
    def _batch(self, rows, start, size, lengths):
        rows = rows[start : start + size]
        take = functools.partial(pad_rows, rows=tf.where(rows < 0, rows[0], rows))
        inputs = {}
        for (side, ids), length in zip(self._sides.items(), tf.unstack(lengths, 2), strict=True):
            inputs[f"{side}_ids"] = take(ids, length=length)
            inputs[f"{side}_mask"] = take(ids.with_values(tf.ones_like(ids.values)), length=length)
        return inputs, take(self._labels, length=lengths[1], padding=-1), tf.cast(rows >= 0, tf.float32)


def _computed(plan):
    return int(plan.sizes @ plan.lengths().sum(axis=1))


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

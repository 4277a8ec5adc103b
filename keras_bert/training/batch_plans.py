"""Plans of the batches of in-memory rows: which rows form a batch, and the length to which it is padded."""

import numpy as np


class GroupPlan:
    """Batches of rows of one group each, a group being the rows of similar length; each group is filled up.

    `boundaries` `(groups, ...)` are the lengths to which rows are padded, `group` `(rows,)` is the group of each row;
    `sizes` and `groups`, `(steps,)`, are the rows and the group of each batch, with increasing groups.
    """

    def __init__(self, boundaries, group, sizes, groups):
        self.boundaries, self.group = np.array(boundaries), group
        self.sizes, self.groups = sizes, groups
        self.starts = np.cumsum(sizes) - sizes

    def arrange(self, rows):
        """Returns rows, a permutation of all, in the order of the batches, filler as -1."""
        # The filler of each group follows its rows.
        groups = len(self.boundaries)
        ends = np.cumsum(np.bincount(self.group, minlength=groups))
        room = np.cumsum(np.bincount(self.groups, self.sizes, groups).astype(int))
        return np.insert(self._by_group(rows), np.repeat(ends, np.diff(room - ends, prepend=0)), -1)

    def _by_group(self, rows):
        return rows[np.argsort(self.group[rows], kind="stable")]

    def lengths(self, arranged=None):
        """Returns the lengths to which the batches of arranged rows are padded, `(steps, ...)`."""
        return self.boundaries[self.groups]


class LeftoverPlan(GroupPlan):
    """Batches of rows of similar length, all of one size: rows that do not fill a batch move up to the next group."""

    def arrange(self, rows):
        return self._filled(self._by_group(rows))

    def _filled(self, rows):
        return np.pad(rows, (0, self.sizes.sum() - len(rows)), constant_values=-1)


class SamplePlan(LeftoverPlan):
    """Batches of rows of any length, all of one size, each padded to the boundary of its longest row."""

    def __init__(self, boundaries, group, size):
        super().__init__(boundaries, group, np.full(-(-len(group) // size), size), None)

    def arrange(self, rows):
        return self._filled(rows)

    def lengths(self, arranged):
        return self.boundaries[self.longest(self.group, arranged)]

    def longest(self, values, arranged):
        """Returns the maximum of `values` over the rows of each batch."""
        return np.where(arranged < 0, 0, values[arranged]).reshape(len(self.sizes), -1).max(1)


def leftover_batches(counts, size):
    """Returns the rows and the group of each batch of a `LeftoverPlan`, from the rows of each group."""
    batches, left = [], 0
    for rows in counts:
        full, left = divmod(left + rows, size)
        batches.append(full)
    batches[-1] += left > 0
    groups = np.repeat(np.arange(len(batches)), batches)
    return np.full_like(groups, size), groups


def even_batches(counts: np.ndarray, most: np.ndarray):
    """Splits the rows of each group into the fewest batches of equal numbers of rows, up to filler in the last one.

    `counts` are the rows of each group, `most` the maximum rows of its batches; at least one row is taken. Returns the
    rows and the group of each batch, `(steps,)`.
    """
    batches = -(-counts // np.maximum(most, 1))
    sizes = -(-counts // np.maximum(batches, 1))
    return np.repeat(sizes, batches), np.repeat(np.arange(len(counts)), batches)

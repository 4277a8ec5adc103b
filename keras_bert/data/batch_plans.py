"""Plans of batches: which rows form a batch, and the length to pad them to."""

import numpy as np


class GroupPlan:
    """Batches of rows of one group each, a group being the rows of similar length; each group is filled up.

    Args:
        boundaries: array `(groups, ...)`, the lengths to which the rows of a group are padded.
        row_groups: array `(rows,)`, the group of each row.
        sizes: array `(steps,)`, the rows of each batch.
        batch_groups: array `(steps,)`, the group of each batch; they increase.
    """

    def __init__(self, boundaries, row_groups, sizes, batch_groups):
        self.boundaries = np.array(boundaries)
        self.row_groups = row_groups
        self.sizes = sizes
        self.batch_groups = batch_groups
        self.starts = np.cumsum(sizes) - sizes

    def arrange(self, rows):
        """Returns rows, a permutation of all, in the order of the batches, filler as -1."""
        groups = len(self.boundaries)
        row_counts = np.bincount(self.row_groups, minlength=groups)
        places = np.bincount(self.batch_groups, self.sizes, groups).astype(int)
        # The filler of each group follows its rows.
        ends = np.cumsum(row_counts)
        return np.insert(self._by_group(rows), np.repeat(ends, places - row_counts), -1)

    def _by_group(self, rows):
        """Returns rows sorted by group, those of a group in their order."""
        return rows[np.argsort(self.row_groups[rows], kind="stable")]

    def lengths(self, arranged=None):
        """Returns the lengths to which the batches of arranged rows are padded, `(steps, ...)`."""
        return self.boundaries[self.batch_groups]

    def computed(self, arranged=None):
        """Returns the tokens of all batches, including padding and filler."""
        row_tokens = self.lengths(arranged).reshape(len(self.sizes), -1).sum(axis=1)
        return int(self.sizes @ row_tokens)


class LeftoverPlan(GroupPlan):
    """Batches of rows of similar length, all of one size: rows that do not fill a batch move up to the next group."""

    def arrange(self, rows):
        return self._filled(self._by_group(rows))

    def _filled(self, rows):
        """Returns rows with filler at the end, as many as there are places."""
        missing = self.sizes.sum() - len(rows)
        return np.pad(rows, (0, missing), constant_values=-1)


class SamplePlan(LeftoverPlan):
    """Batches of rows of any length, all of one size, each padded to the boundary of its longest row."""

    def __init__(self, boundaries, row_groups, size):
        steps = -(-len(row_groups) // size)
        super().__init__(boundaries, row_groups, sizes=np.full(steps, size), batch_groups=None)

    def arrange(self, rows):
        return self._filled(rows)

    def lengths(self, arranged):
        return self.boundaries[self.longest(self.row_groups, arranged)]

    def longest(self, values, arranged):
        """Returns the maximum of `values` over the rows of each batch."""
        of_places = np.where(arranged < 0, 0, values[arranged])
        return of_places.reshape(len(self.sizes), -1).max(1)


def leftover_batches(counts, size):
    """Returns the rows and the group of each batch of a `LeftoverPlan`, from the rows of each group."""
    batches = []
    left = 0
    for rows in counts:
        full, left = divmod(left + rows, size)
        batches.append(full)
    if left:
        batches[-1] += 1
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


def first_within(plans, tokens):
    """Returns the first plan that computes at most a number of tokens, or else the one with the fewest."""
    tried = []
    for plan in plans:
        tried.append(plan)
        if plan.computed() <= tokens:
            return plan
    return min(tried, key=lambda plan: plan.computed())

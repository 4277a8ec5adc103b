"""Splits of rows: a share of them that is drawn at random, to select the best run on; folds of cross-validation."""

import collections
import dataclasses
import math
import numbers

import numpy as np

from keras_bert.checks import check_count, is_number, with_plain_numbers
from keras_bert.data.text_files import valid_text


def split_numbers(count, share, seed):
    """Returns the numbers of the rows to train on, and those of a share of all `count` rows, drawn at random.

    Args:
        count: int, number of rows.
        share: float between 0 and 1.
        seed: int, seed of the draw.

    Returns:
        Two lists in ascending order.
    """
    drawn = 0
    if isinstance(share, float) and 0 < share < 1:
        drawn = round(share * count)
    if not 0 < drawn < count:
        example = "0.1"
        if is_number(share) and 1 < share < 100:  # Percent.
            example = f"{share / 100:g}"
        wanted = f"a fraction below 1, such as {example}, which is at least one of the rows and not all"
        raise ValueError(f"`validation_split` must be {wanted}. Received: {share!r} of {count} rows")
    order = np.random.default_rng(seed).permutation(count)
    held_out = sorted(order[:drawn].tolist())
    train = sorted(order[drawn:].tolist())
    return train, held_out


@with_plain_numbers
@dataclasses.dataclass(frozen=True)
class Folds:
    """The folds of a cross-validation: rows of one group are in the same fold.

    Args:
        count: int, the number of folds.
        groups: list with a value for each row. Defaults to `None`: what the rows say of themselves, such as their
            documents, see `Rows.groups`.
    """

    count: int
    groups: list | None = None

    def __post_init__(self):
        check_count("folds", self.count, least=2)

    def check(self, rows):
        """Raises an error if `rows` cannot be divided."""
        if self.groups is not None and len(self.groups) != len(rows):
            raise ValueError(
                f"`groups` must have a value for each of {len(rows):,} rows. Received: {len(self.groups):,} values"
            )
        if self.groups is None:
            check_folds(rows.groups(), self.count, rows.group)
        else:
            check_folds(self.groups, self.count)

    def assign(self, rows, seed):
        """Returns the fold of each row, from 1 on, as an integer array; `rows` are `Rows`."""
        self.check(rows)
        strata = rows.strata()
        if self.groups is not None:
            folds = balance_groups(self.groups, strata, self.count, seed)
        elif strata is None:
            folds = balance_groups(rows.groups(), None, self.count, seed)
        else:
            folds = deal_groups(rows.groups(), strata, self.count, seed)
        if np.bincount(folds)[1:].min() < rows.least_of_fold:
            raise ValueError(
                "`folds`: a fold of one row has no correlation. Expected fewer folds, of at least "
                f"{rows.least_of_fold} rows each. Received: folds={self.count} of {len(rows):,} rows"
            )
        return folds


def group_values(groups):
    """Returns groups, a list, an array, a Series or another iterable in order, as a list of values of JSON.

    Strings, integers and bools stay as they are; other values, such as dates, become their texts.
    """
    is_other = isinstance(groups, str | bytes | dict | set | frozenset)
    is_ordered = hasattr(groups, "__iter__") and not is_other
    if not is_ordered or hasattr(groups, "columns") or getattr(groups, "ndim", 1) != 1:
        expected = "a list with a value for each text, or the name of a column of `texts`"
        raise ValueError(f"`groups` must be {expected}. Received: {type(groups).__name__} {groups!r:.80}")
    values = groups.to_pylist() if hasattr(groups, "to_pylist") else groups  # Of Arrow.
    return [_group_value(f"groups[{number}]", value) for number, value in enumerate(values)]


def _group_value(place, value):
    """Returns a group as a value of JSON; `place` is what messages call it."""
    if hasattr(value, "numpy"):  # Of TensorFlow.
        value = value.numpy()
    dtype = getattr(value, "dtype", None)
    is_date = getattr(dtype, "kind", None) in ("M", "m")
    if isinstance(value, np.generic) and not is_date:
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType") or _is_nan(value):
        raise ValueError(f"`{place}` is missing. Expected a group for each text: fill in or leave out rows without one")
    if isinstance(value, list | dict | set | np.ndarray):
        raise ValueError(f"`{place}` must be one value, such as a string or an integer. Received: {value!r:.80}")
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, bool | numbers.Integral):
        return value
    return valid_text(str(value))


def _is_nan(value):
    """Whether a value is no number, or no date."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, numbers.Real) and math.isnan(value)


def check_folds(groups, folds, what="groups"):
    """Raises an error if there are not as many different groups as folds; messages call them `what`."""
    count = len(set(groups))
    if count < folds or folds < 2:
        raise ValueError(
            f"`folds` must be from 2 to the number of different {what}, {count}: expected fewer folds, or more rows. "
            f"Received: folds={folds}"
        )


def connected(rows):
    """Returns a number for each row, the same one for rows that share a value, also by way of others.

    `rows` is an iterable of iterables of values.
    """
    joined = _JoinedValues()
    firsts = []
    for first, *others in rows:
        firsts.append(first)
        joined.add(first)
        for value in others:
            joined.join(value, first)
    group_numbers = {}
    groups = []
    for first in firsts:
        root = joined.root(first)
        group_numbers.setdefault(root, len(group_numbers))
        groups.append(group_numbers[root])
    return groups


class _JoinedValues:
    """Groups of values, of which each has a root (union and find)."""

    def __init__(self):
        self._parents = {}

    def add(self, value):
        """Adds a value, alone in its group, unless it is there."""
        self._parents.setdefault(value, value)

    def join(self, value, other):
        """Joins the group of a value, which may be new, and that of another one."""
        self.add(value)
        self._parents[self.root(value)] = self.root(other)

    def root(self, value):
        """Returns the root of the group of a value."""
        parents = self._parents
        while parents[value] != value:
            parents[value] = parents[parents[value]]  # Shortens the way of later calls.
            value = parents[value]
        return value


def deal_groups(groups, strata, folds, seed):
    """Deals groups of few rows to folds in turn, in the order of their strata.

    Each fold has the same share of each stratum, or of low and high numbers. Groups are in the order of their first
    row, shuffled; `groups` and `strata` have a value for each row.
    """
    first_rows = {}
    for row, group in enumerate(groups):
        first_rows.setdefault(group, row)
    rows = np.random.default_rng(seed).permutation(sorted(first_rows.values())).tolist()
    rows.sort(key=strata.__getitem__)
    fold_of_row = {}
    for number, row in enumerate(rows):
        fold_of_row[row] = number % folds + 1
    return np.array([fold_of_row[first_rows[group]] for group in groups])


def balance_groups(groups, strata, folds, seed):
    """Gives each group, the largest first, to the fold that has the fewest rows of its strata, or the fewest rows.

    `groups` has a value for each row, and so has `strata`, unless it is `None`; numbers are no strata.
    """
    if strata is None or isinstance(strata[0], float):
        strata = [0] * len(groups)
    members = collections.defaultdict(collections.Counter)
    for group, stratum in zip(groups, strata, strict=True):
        members[group][stratum] += 1
    names = list(members)
    order = [names[number] for number in np.random.default_rng(seed).permutation(len(names))]
    order.sort(key=lambda name: -members[name].total())
    fold_counts = [collections.Counter() for _ in range(folds)]
    fold_of_group = {}
    for name in order:
        loads = [_load(counts, members[name]) for counts in fold_counts]
        best = loads.index(min(loads))
        fold_counts[best].update(members[name])
        fold_of_group[name] = best + 1
    return np.array([fold_of_group[group] for group in groups])


def _load(counts, own):
    """Returns how full a fold is for a group: its rows of the same strata, and then all; both are counts by stratum."""
    same = sum(count * counts[stratum] for stratum, count in own.items())
    return same, counts.total()

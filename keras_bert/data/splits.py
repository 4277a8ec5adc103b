"""Splits of rows: a share of them that is drawn at random, to select the best run on; folds of cross-validation."""

import collections
import dataclasses
import itertools
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
    drawn = round(share * count) if isinstance(share, float) and 0 < share < 1 else 0
    if not 0 < drawn < count:
        example = f"{share / 100:g}" if is_number(share) and 1 < share < 100 else "0.1"
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
        known = self.groups is None
        check_folds(rows.groups() if known else self.groups, self.count, rows.group if known else "groups")

    def assign(self, rows, seed):
        """Returns the fold of each row, from 1 on, as an integer array; `rows` are `Rows`."""
        self.check(rows)
        strata = rows.strata()
        groups = rows.groups() if self.groups is None else self.groups
        deal = deal_groups if self.groups is None and strata is not None else balance_groups
        found = deal(groups, strata, self.count, seed)
        if np.bincount(found)[1:].min() < rows.least_of_fold:
            raise ValueError(
                "`folds`: a fold of one row has no correlation. Expected fewer folds, of at least "
                f"{rows.least_of_fold} rows each. Received: folds={self.count} of {len(rows):,} rows"
            )
        return found


def group_values(groups):
    """Returns groups, a list, an array, a Series or another iterable in order, as a list of values of JSON.

    Strings, integers and bools stay as they are; other values, such as dates, become their texts.
    """
    is_ordered = hasattr(groups, "__iter__") and not isinstance(groups, str | bytes | dict | set | frozenset)
    if not is_ordered or hasattr(groups, "columns") or getattr(groups, "ndim", 1) != 1:
        expected = "a list with a value for each text, or the name of a column of `texts`"
        raise ValueError(f"`groups` must be {expected}. Received: {type(groups).__name__} {groups!r:.80}")
    values = groups.to_pylist() if hasattr(groups, "to_pylist") else list(groups)
    return [_group(f"groups[{number}]", value) for number, value in enumerate(values)]


def _group(place, value):
    if hasattr(value, "numpy"):  # Of TensorFlow.
        value = value.numpy()
    is_date = getattr(getattr(value, "dtype", None), "kind", None) in ("M", "m")
    if isinstance(value, np.generic) and not is_date:
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType") or _is_nan(value):
        raise ValueError(f"`{place}` is missing. Expected a group for each text: fill in or leave out rows without one")
    if isinstance(value, list | dict | set | np.ndarray):
        raise ValueError(f"`{place}` must be one value, such as a string or an integer. Received: {value!r:.80}")
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, bool | numbers.Integral) else valid_text(str(value))


def _is_nan(value):
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
    rows = list(map(tuple, rows))
    parents = {}

    def root(value):
        while parents[value] != value:
            parents[value] = value = parents[parents[value]]
        return value

    for first, *others in rows:
        parents.setdefault(first, first)
        for value in others:
            parents[root(parents.setdefault(value, value))] = root(first)
    numbers = {}
    return [numbers.setdefault(root(row[0]), len(numbers)) for row in rows]


def deal_groups(groups, strata, folds, seed):
    """Deals groups of few rows to folds in turn, in the order of their strata.

    Each fold has the same share of each stratum, or of low and high numbers. Groups are in the order of their first
    row, shuffled; `groups` and `strata` have a value for each row.
    """
    first = {group: row for row, group in reversed(list(enumerate(groups)))}
    rows = np.random.default_rng(seed).permutation(sorted(first.values())).tolist()
    rows.sort(key=strata.__getitem__)
    fold = dict(zip(rows, itertools.cycle(range(1, folds + 1)), strict=False))
    return np.array([fold[first[group]] for group in groups])


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
    counts = [collections.Counter() for _ in range(folds)]
    chosen = {}
    for name in order:
        own = members[name]

        def load(number, own=own):
            same = sum(count * counts[number][stratum] for stratum, count in own.items())
            return same, counts[number].total()

        best = min(range(folds), key=load)
        counts[best].update(own)
        chosen[name] = best + 1
    return np.array([chosen[group] for group in groups])

"""Shares of rows that are held out, and folds with whole groups."""

import collections
import datetime
import math

import numpy as np
import pytest

from keras_bert.data.splits import (
    balance_groups,
    check_folds,
    connected,
    deal_groups,
    group_values,
    split_numbers,
)


def test_a_share_of_the_rows():
    """In ascending order, each row in one part; the same for the same seed."""
    train, held_out = split_numbers(20, 0.25, seed=1)
    assert len(held_out) == 5
    assert train == sorted(train)
    assert held_out == sorted(held_out)
    assert sorted(train + held_out) == list(range(20))
    assert split_numbers(20, 0.25, seed=1) == (train, held_out)
    assert split_numbers(20, 0.25, seed=2) != (train, held_out)


@pytest.mark.parametrize(
    ("count", "share", "message"),
    [
        (20, 0.0, "`validation_split` must be a fraction below 1, such as 0.1, .* Received: 0.0 of 20 rows"),
        (20, 1.0, "such as 0.1"),
        (20, 20, "such as 0.2,"),  # Percent.
        (20, "0.1", "validation_split"),
        (20, True, "validation_split"),
        (2, 0.1, "validation_split"),  # No row.
        (2, 0.9, "validation_split"),  # All rows.
    ],
)
def test_shares_that_are_refused(count, share, message):
    with pytest.raises(ValueError, match=message):
        split_numbers(count, share, seed=1)


def test_rows_that_share_a_value_are_connected():
    """Also by way of others; groups are numbered in the order of their first rows."""
    assert connected([["a", "b"], ["c"], ["d", "b"], ["e", "d"], ["c", "c"]]) == [0, 1, 0, 0, 1]
    assert connected([]) == []


GROUPS = ["a", "b", "c", "d", "e", "f", "a", "b"]
STRATA = [0, 0, 0, 1, 1, 1, 0, 0]


def check_whole(groups, folds):
    """Asserts that the rows of a group are in one fold."""
    fold_of_group = {}
    for group, fold in zip(groups, folds, strict=True):
        assert fold_of_group.setdefault(group, fold) == fold


def test_groups_are_dealt_in_the_order_of_their_strata():
    """Each of the three folds has one group of each of the two strata."""
    folds = deal_groups(GROUPS, STRATA, 3, seed=1)
    check_whole(GROUPS, folds)
    groups_of_folds = collections.defaultdict(set)
    for group, stratum, fold in zip(GROUPS, STRATA, folds, strict=True):
        groups_of_folds[fold, stratum].add(group)
    assert sorted(groups_of_folds) == [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]
    assert {len(groups) for groups in groups_of_folds.values()} == {1}


def test_large_groups_are_balanced():
    """The largest group alone in a fold, the others together."""
    groups = ["a"] * 6 + ["b", "b", "b", "c", "c", "d"]
    folds = balance_groups(groups, None, 2, seed=1)
    check_whole(groups, folds)
    assert np.bincount(folds)[1:].tolist() == [6, 6]


def test_strata_of_large_groups_are_balanced():
    groups = ["a", "a", "b", "b", "c", "c", "d", "d"]
    strata = ["x", "x", "x", "x", "y", "y", "y", "y"]
    for seed in range(5):
        folds = balance_groups(groups, strata, 2, seed)
        check_whole(groups, folds)
        assert sorted(folds[:4]) == sorted(folds[4:]) == [1, 1, 2, 2]


def test_numbers_are_no_strata():
    groups = ["a", "b", "c", "d"]
    folds = balance_groups(groups, [0.5, 1.5, 2.5, 3.5], 2, seed=1)
    assert folds.tolist() == balance_groups(groups, None, 2, seed=1).tolist()


def test_there_must_be_as_many_groups_as_folds():
    check_folds(["a", "b", "a"], 2)
    with pytest.raises(ValueError, match="number of different documents, 2: .* Received: folds=3"):
        check_folds(["a", "b", "a"], 3, "documents")
    with pytest.raises(ValueError, match="folds"):
        check_folds(["a", "b"], 1)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["a", 1, True], ["a", 1, True]),
        (np.array([1, 2]), [1, 2]),
        ((number for number in (1, 2)), [1, 2]),
        ([b"a\xff", 1.5], ["a\\xff", "1.5"]),
        ([datetime.date(2020, 1, 2)], ["2020-01-02"]),
        (np.array(["2020-01-02"], "datetime64[D]"), ["2020-01-02"]),
    ],
)
def test_values_of_groups_are_those_of_json(groups, expected):
    found = group_values(groups)
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("ab", "`groups` must be a list with a value for each text, .* Received: str 'ab'"),
        ({"a": 1}, "Received: dict"),
        (np.zeros((2, 2)), "Received: ndarray"),
        (5, "Received: int"),
        (["a", None], r"`groups\[1\]` is missing. Expected a group for each text"),
        ([math.nan], r"`groups\[0\]` is missing"),
        (np.array(["NaT"], "datetime64[D]"), r"`groups\[0\]` is missing"),
        ([["a"]], r"`groups\[0\]` must be one value"),
    ],
)
def test_groups_that_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        group_values(groups)

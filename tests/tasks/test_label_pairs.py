"""Pairs of rows: drawn as a table of all pairs would tell, without one."""

import collections
import itertools
import tracemalloc

import pytest

from keras_bert.tasks.label_pairs import draw_pairs, even_shares

SETS = [(0,), (0, 1), (1,), (2,), (0, 2), (), (1, 2), (2,), ()]


def as_dict(pairs):
    """Returns whether the rows of each pair are similar; no pair is there twice."""
    rows = list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    assert len(set(rows)) == len(rows)
    assert all(first < second for first, second in rows)
    return dict(zip(rows, pairs.similar.tolist(), strict=True))


@pytest.mark.parametrize("labels", [[0, 1, 0, 2, 1, 0, 2], SETS, ["b", "a", "b"]])
def test_all_pairs_of_few_rows(labels):
    sets = [set(label) if isinstance(label, tuple) else {label} for label in labels]
    table = {}
    for first, second in itertools.combinations(range(len(sets)), 2):
        if sets[first] and sets[second]:  # Nothing is known of rows without labels.
            table[first, second] = bool(sets[first] & sets[second])
    assert as_dict(draw_pairs(labels, seed=0, most=1000)) == table
    some = as_dict(draw_pairs(labels, seed=1, most=4))
    assert len(some) <= 4
    assert some.items() <= table.items()


def test_classes_count_alike():
    labels = [0] * 500 + [1] * 40 + [2] * 30 + [3] * 20
    pairs = draw_pairs(labels, seed=3, most=400)
    similar, between = collections.Counter(), collections.Counter()
    for (first, second), is_similar in as_dict(pairs).items():
        if is_similar:
            similar[labels[first]] += 1
        else:
            between[labels[first], labels[second]] += 1
    assert similar == dict.fromkeys(range(4), 50)
    assert set(between.values()) == {33, 34}
    assert len(between) == 6
    again, other = draw_pairs(labels, seed=3, most=400), draw_pairs(labels, seed=4, most=400)
    assert as_dict(again) == as_dict(pairs) != as_dict(other)


def test_a_class_of_one_row_has_no_similar_pair():
    pairs = as_dict(draw_pairs([0, 0, 1, 2], seed=0))
    assert [rows for rows, is_similar in pairs.items() if is_similar] == [(0, 1)]
    assert any(3 in rows for rows in pairs)


def test_few_pairs_of_many_classes_have_each_class_equally_often():
    labels = [number % 50 for number in range(200)]
    often = collections.Counter()
    for (first, second), is_similar in as_dict(draw_pairs(labels, seed=0, most=400)).items():
        if not is_similar:
            often.update([labels[first], labels[second]])
    assert max(often.values()) - min(often.values()) <= 2
    assert len(often) == 50


def test_many_rows_need_little_memory():
    labels = [number % 77 for number in range(20_000)]
    tracemalloc.start()
    pairs = draw_pairs(labels, seed=0)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(as_dict(pairs)) == 20_000
    assert most < 50e6  # A table of all pairs would have 3.2 GB.


def test_shares():
    assert even_shares([1, 10, 3], 9) == [1, 5, 3]
    assert even_shares([5, 5, 5], 7) == [3, 2, 2]
    assert even_shares([1, 2], 10) == [1, 2]
    assert even_shares([0, 0], 5) == [0, 0]

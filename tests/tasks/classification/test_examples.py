"""Rows of texts with labels: fingerprints, and folds with the same share of each label."""

import numpy as np
import pytest

from keras_bert.data.splits import Folds
from keras_bert.tasks.classification.examples import TextExamples
from keras_bert.tasks.classification.predictions import dense


def test_the_first_rows():
    examples = TextExamples(["a", "b", "c"], ["x", "y", "z"], [1, 0, 1], [0, 1, 2])
    assert examples.first(2) == TextExamples(["a", "b"], ["x", "y"], [1, 0], [0, 1])
    assert TextExamples(["a", "b"], None, None, [0, 1]).first(1) == TextExamples(["a"], None, None, [0])


def test_a_fingerprint_changes_with_the_rows():
    rows = TextExamples(["a", "b"], None, [0, 1], [0, 1])
    different = [
        TextExamples(["b", "a"], None, [0, 1], [0, 1]),
        TextExamples(["a", "b"], None, [1, 0], [0, 1]),
        TextExamples(["a"], ["b"], [0], [0]),
    ]
    for other in different:
        assert other.fingerprint() != rows.fingerprint()
    other_ids = TextExamples(["a", "b"], None, [0, 1], [5, 6])
    assert other_ids.fingerprint() == rows.fingerprint()


def texts_of(labels):
    """Returns rows of different texts with these labels."""
    texts = [f"text {row}" for row in range(len(labels))]
    return TextExamples(texts, None, labels, list(range(len(labels))))


def test_folds_are_stratified():
    """Folds and the classes in them differ by at most one row."""
    labels = [0] * 23 + [1] * 11 + [2] * 2
    folds = Folds(5).assign(texts_of(labels), 1)
    counts = np.zeros([5, 3], int)
    np.add.at(counts, (folds - 1, labels), 1)
    assert counts.sum() == 36
    assert (np.ptp(counts, 0) <= 1).all()
    assert np.ptp(counts.sum(1)) == 1


def test_folds_depend_on_the_seed():
    examples = texts_of([0] * 23 + [1] * 11 + [2] * 2)
    folds = Folds(5).assign(examples, 1)
    np.testing.assert_array_equal(Folds(5).assign(examples, 1), folds)
    assert (Folds(5).assign(examples, 2) != folds).any()


def test_equal_texts_are_in_the_same_fold():
    twice = TextExamples(["a", "b", "a", "c", "a"], ["x"] * 5, [0, 1, 0, 2, 1], list(range(5)))
    together = Folds(3).assign(twice, 1)
    assert len(set(together[[0, 2, 4]])) == 1
    assert set(together) == {1, 2, 3}
    with pytest.raises(ValueError, match="`folds`.* different texts, 3"):
        Folds(4).assign(twice, 1)


def test_one_fold_is_too_few():
    with pytest.raises(ValueError, match="`folds` must be an integer of at least 2. Received: folds=1"):
        Folds(1)


@pytest.mark.parametrize("groups", [None, ["a", "a", "b", "c", "c"]])
def test_folds_of_numbers_have_two_rows(groups):
    """A row alone has no correlation."""
    numbers = TextExamples(["a", "b", "c", "d", "e"], None, [0.5, 1.0, 0.1, 2.0, 3.0], list(range(5)))
    assert sorted(Folds(2, groups).assign(numbers, 1)) in ([1, 1, 1, 2, 2], [1, 1, 2, 2, 2])
    with pytest.raises(ValueError, match="fold of one row has no correlation"):
        Folds(3, groups).assign(numbers, 1)


def test_folds_share_out_rare_labels():
    labels = [(0,)] * 20 + [(0, 1)] * 6 + [(1,)] * 6 + [(0, 2)] * 3 + [()] * 7
    folds = Folds(3).assign(texts_of(labels), 1)
    counts = np.array([dense(labels, 3)[folds == fold].sum(0) for fold in (1, 2, 3)])
    assert (np.ptp(counts, 0) <= 1).all()
    assert np.bincount(folds)[1:].tolist() == [14, 14, 14]

"""Rows of texts with labels: fingerprints, and folds with the same share of each label."""

import numpy as np
import pytest

from keras_bert.data.splits import Folds
from keras_bert.tasks.classification.examples import TextExamples
from keras_bert.tasks.classification.predictions import dense


def test_a_fingerprint_changes_with_the_rows():
    rows = [["a", "b"], None, [0, 1]], [["b", "a"], None, [0, 1]], [["a", "b"], None, [1, 0]], [["a"], ["b"], [0]]
    assert len({TextExamples(*columns, [0, 1]).fingerprint() for columns in rows}) == 4
    assert TextExamples(*rows[0], [0, 1]).fingerprint() == TextExamples(*rows[0], [5, 6]).fingerprint()


def test_folds_are_stratified():
    """Folds and the classes in them differ by at most one row; equal texts stay together; seeds differ."""
    labels = [0] * 23 + [1] * 11 + [2] * 2
    examples = TextExamples([f"text {row}" for row in range(36)], None, labels, list(range(36)))
    folds = [Folds(5).assign(examples, seed) for seed in (1, 1, 2)]
    counts = np.array(
        [[np.sum((folds[0] == fold) & (np.array(labels) == label)) for label in range(3)] for fold in range(1, 6)]
    )
    assert counts.sum() == 36
    assert (counts.max(0) - counts.min(0) <= 1).all()
    assert np.ptp(counts.sum(1)) == 1
    assert (folds[0] == folds[1]).all()
    assert (folds[0] != folds[2]).any()
    twice = TextExamples(["a", "b", "a", "c", "a"], ["x"] * 5, [0, 1, 0, 2, 1], list(range(5)))
    together = Folds(3).assign(twice, 1)
    assert len(set(together[[0, 2, 4]])) == 1
    assert set(together) == {1, 2, 3}
    with pytest.raises(ValueError, match="`folds` must be from 2 to the number of different texts, 3: expected fewer"):
        Folds(4).assign(twice, 1)
    with pytest.raises(ValueError, match="`folds` must be an integer of at least 2. Received: folds=1"):
        Folds(1)


@pytest.mark.parametrize("groups", [None, ["a", "a", "b", "c", "c"]])
def test_folds_of_numbers_have_two_rows(groups):
    """A row alone has no correlation."""
    numbers = TextExamples(["a", "b", "c", "d", "e"], None, [0.5, 1.0, 0.1, 2.0, 3.0], list(range(5)))
    assert sorted(Folds(2, groups).assign(numbers, 1)) in ([1, 1, 1, 2, 2], [1, 1, 2, 2, 2])
    with pytest.raises(ValueError, match="fold of one row has no correlation.* Received: folds=3 of 5 rows"):
        Folds(3, groups).assign(numbers, 1)


def test_folds_share_out_rare_labels():
    labels = [(0,)] * 20 + [(0, 1)] * 6 + [(1,)] * 6 + [(0, 2)] * 3 + [()] * 7
    examples = TextExamples([f"text {row}" for row in range(42)], None, labels, list(range(42)))
    folds = Folds(3).assign(examples, 1)
    counts = np.array([dense(labels, 3)[folds == fold].sum(0) for fold in (1, 2, 3)])
    assert (np.ptp(counts, 0) <= 1).all()
    assert np.bincount(folds)[1:].tolist() == [14, 14, 14]

"""Pairs of rows of a batch: batches in which classes count alike, and the loss against a loop over all pairs."""

import collections
import itertools

import numpy as np
import pytest

from keras_bert.tasks.label_pairs import LabelBatches, draw_rows, drawn_classes, label_pair_loss, rows_by_class

tf = pytest.importorskip("tensorflow")

pytestmark = [pytest.mark.tensorflow]

CLASSES = [0] * 50 + [1] * 4 + [2] * 30 + [3] * 20


def batches_of(labels, **options):
    ids = tf.ragged.constant([[1] * (1 + row % 5) for row in range(len(labels))])
    targets = np.array([label if isinstance(label, int) else 0 for label in labels])
    return LabelBatches({"token_ids": ids}, targets, labels=labels, **options)


def test_each_batch_has_equally_many_rows_of_each_class():
    batches = batches_of(CLASSES, batch_size=16, steps=30, seed=3)
    drawn = batches.row_indices(0)
    assert len(drawn) == batches.steps == 30
    assert batches.num_examples == 480
    often = collections.Counter()
    for rows in drawn:
        assert collections.Counter(CLASSES[row] for row in rows) == dict.fromkeys(range(4), 4)
        often.update(rows.tolist())
    # The rows of a class take turns.
    for rows in rows_by_class(CLASSES).values():
        assert max(often[row] for row in rows) - min(often[row] for row in rows) <= 1
    again = batches_of(CLASSES, batch_size=16, steps=30, seed=3)
    np.testing.assert_array_equal(again.row_indices(1), batches.row_indices(1))
    assert not np.array_equal(batches.row_indices(0), batches.row_indices(1))
    other = batches_of(CLASSES, batch_size=16, steps=30, seed=4)
    assert not np.array_equal(other.row_indices(0), drawn)


def test_batches_are_padded_to_their_longest_row():
    batches = batches_of(CLASSES, batch_size=4, steps=6)
    for rows, (inputs, targets, weights) in zip(batches.row_indices(1), batches.dataset(1), strict=True):
        lengths = [1 + row % 5 for row in rows]
        assert max(lengths) <= inputs["token_ids"].shape[1] <= 5
        np.testing.assert_array_equal(tf.reduce_sum(inputs["token_ids"], 1), lengths)
        np.testing.assert_array_equal(targets, [CLASSES[row] for row in rows])
        np.testing.assert_array_equal(weights, [1] * 4)


def test_many_classes_take_turns():
    classes = list(rows_by_class([row % 50 for row in range(200)]).values())
    drawn = draw_rows(classes, steps=25, size=8, seed=0)
    often = collections.Counter()
    for rows in drawn:
        own = collections.Counter((rows % 50).tolist())
        assert list(own.values()) == [2] * 4
        often.update(own)
    assert set(often.values()) == {4}
    # Never one class alone, also where one round of turns ends and the next begins.
    three = list(rows_by_class([row % 3 for row in range(30)]).values())
    drawn = draw_rows(three, steps=500, size=4, seed=0)
    assert all(len(set((rows % 3).tolist())) == 2 for rows in drawn)


def test_rows_of_several_classes_and_of_none():
    labels = [(0,), (0, 1), (1,), (2,), (0, 2), (), (1, 2), (2,), ()]
    assert rows_by_class(labels) == {0: [0, 1, 4], 1: [1, 2, 6], 2: [3, 4, 6, 7]}
    assert drawn_classes(labels)[3:] == [[5, 8]]  # Similar to no row.
    drawn = draw_rows(drawn_classes(labels), steps=20, size=8, seed=1)
    assert set(drawn.ravel().tolist()) == set(range(9))


def have_a_class_in_common(one, other):
    if isinstance(one, list):
        return np.dot(one, other) > 0
    return one == other


@pytest.mark.parametrize(
    "targets", [[0, 1, 0, 2, 1, 0], [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0]], [3] * 6]
)
def test_loss_is_that_of_a_loop_over_pairs(targets):
    """The last row is padding."""
    vectors = np.random.default_rng(0).normal(size=(6, 4))
    weights = np.array([1, 1, 1, 1, 1, 0])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similar = []
    others = []
    for first, second in itertools.combinations(range(5), 2):
        similarity = unit[first] @ unit[second]
        if have_a_class_in_common(targets[first], targets[second]):
            similar.append((similarity - 1) ** 2)
        else:
            others.append(similarity**2)
    expected = sum(np.mean(part) for part in (similar, others) if part) / 2
    outputs = {"embedding": tf.constant(vectors, tf.float32)}
    total, weight = label_pair_loss().sums(tf.constant(targets), outputs, tf.constant(weights, tf.float32))
    assert float(total / weight) == pytest.approx(expected, rel=1e-5)

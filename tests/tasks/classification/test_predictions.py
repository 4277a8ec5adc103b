"""Predictions: tables as other programs read them, scores against scikit-learn, thresholds against a search of all."""

import csv
import io

import numpy as np
import pytest
from scipy.special import logit
from sklearn.metrics import accuracy_score, f1_score
from sklearn.utils.class_weight import compute_class_weight

from keras_bert.tasks.classification.examples import TaskSpec
from keras_bert.tasks.classification.glue import TASKS
from keras_bert.tasks.classification.predictions import (
    balanced_weights,
    choose_thresholds,
    dense,
    most_frequent,
    multi_label_table,
    predict,
    predictions_table,
    probabilities,
    same_prediction,
    score,
    threshold_text,
)
from keras_bert.training.metrics import exact_match, macro_f1, micro_f1

LABELS = ["a\tb", "c\nd", "e\r\nf", '"g" h', 'i "j"', "\x00\x0b\x85\u2028", " k ", "\\t"]
TASK = TaskSpec("own", "Own", "text", None, "label", tuple("abcd"), (micro_f1, macro_f1, exact_match), multi_label=True)


@pytest.mark.parametrize("labels", [np.array(LABELS), ["no", "yes"]])
def test_labels_round_trip_through_the_table(labels):
    logits = np.log(np.eye(len(labels)) * 0.5 + 0.5 / len(labels))
    lines = predictions_table(logits, labels)
    header, *rows = csv.reader(io.StringIO("\n".join(lines) + "\n", newline=""), "excel-tab")
    assert header == ["label", *labels]
    assert [row[0] for row in rows] == list(labels)
    numbers = np.array([row[1:] for row in rows], float)
    np.testing.assert_allclose(numbers, np.exp(logits), atol=5e-5)


def test_names_are_quoted_only_if_necessary():
    assert predictions_table(np.zeros([1, 2]), ["no", "yes"])[0] == "label\tno\tyes"


def test_a_table_of_numbers():
    assert predictions_table(np.array([[1.25e-5], [-4e7]]), []) == ["value", "1.25e-05", "-4e+07"]


def test_scores():
    logits = np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 3.0], [1.0, 2.0]])  # 1, 0, 1, 1
    assert score(TASKS["mrpc"], [1, 0, 1, 0], logits) == pytest.approx({"f1": 0.8, "accuracy": 0.75})
    scores = score(TASKS["stsb"], [0.0, 1.0, 4.0], np.array([[0.0], [1.0], [2.0]]))
    assert list(scores) == ["spearman", "pearson"]
    assert scores == pytest.approx({"spearman": 1, "pearson": 4 / np.sqrt(52 / 3)})


@pytest.mark.parametrize("shape", [(4,), (4, 3)])
def test_there_is_a_logit_for_each_class(shape):
    with pytest.raises(ValueError, match=r"`logits` must have shape \(rows, 2\)"):
        predict(TASKS["rte"], np.zeros(shape))


@pytest.mark.parametrize(
    ("task", "label", "logits"),
    [(TASKS["rte"], 1, [[np.nan, 0.0]]), (TASK, (), [[np.nan] * 4])],
)
def test_logits_of_a_diverged_training_have_no_scores(task, label, logits):
    with pytest.raises(FloatingPointError, match="`logits`"):
        score(task, [label], logits)


def test_balanced_weights():
    labels = np.array([0, 0, 0, 2, 2, 0, 3])
    present = np.array([0, 2, 3])
    found = np.array(balanced_weights(labels, 4))
    expected = compute_class_weight("balanced", classes=present, y=labels)
    np.testing.assert_allclose(found[present], expected)
    assert found[1] == 1  # A class without rows.


def random_rows(rows=60, classes=4):
    random = np.random.default_rng(5)
    labels = random.random([rows, classes]) < [0.5, 0.2, 0.05, 0.0]
    logits = random.normal(size=[rows, classes]).astype("float32") + 2 * labels - 2
    return labels, np.round(logits, 1)  # With ties.


def test_scores_of_several_labels():
    """Also with a label that neither occurs nor is predicted, whose F1 is 0."""
    labels, logits = random_rows()
    logits[:, 3] = -9
    ids = [tuple(np.flatnonzero(row).tolist()) for row in labels]
    np.testing.assert_array_equal(dense(ids, 4), labels)
    for thresholds in (0.5, [0.3, 0.6, 0.5, 0.9]):
        predicted = probabilities(logits) >= thresholds
        np.testing.assert_array_equal(predict(TASK, logits, thresholds), predicted)
        expected = {
            "micro_f1": f1_score(labels, predicted, average="micro", zero_division=0.0),
            "macro_f1": f1_score(labels, predicted, average="macro", zero_division=0.0),
            "exact_match": accuracy_score(labels, predicted),
        }
        assert score(TASK, ids, logits, thresholds) == pytest.approx(expected)
        assert score(TASK, labels, logits, thresholds) == pytest.approx(expected)
    assert list(score(TASK, [(), ()], np.full([2, 4], -1.0)).values()) == [0.0, 0.0, 1.0]


def test_thresholds_are_the_best():
    """No other threshold has a higher F1; of several, the closest to 0.5 is taken."""
    labels, logits = random_rows()
    shared = choose_thresholds("shared", labels, logits)
    assert micro_f1(labels, probabilities(logits) >= shared) == best_micro_f1(labels, logits)
    assert 0.1 < shared < 0.5
    each = choose_thresholds("per_label", labels, logits)
    for place, threshold in enumerate(each[:3]):
        truth = labels[:, [place]]
        of_label = logits[:, [place]]
        found = micro_f1(truth, probabilities(of_label) >= threshold)
        assert found == best_micro_f1(truth, of_label)
    assert each[3] == 0.5  # The label does not occur.
    assert choose_thresholds(0.3, labels, logits) == 0.3


def best_micro_f1(labels, logits):
    """Returns the best F1 of all thresholds between the probabilities of rows."""
    chances = probabilities(logits)
    ends = np.unique(chances)
    middles = (ends[1:] + ends[:-1]) / 2
    return max(micro_f1(labels, chances >= middle) for middle in middles)


@pytest.mark.parametrize(
    ("chances", "labels", "threshold"),
    [
        ([0.9, 0.2, 0.1], [1, 0, 0], 0.5),
        # As few decimals as possible, between the probabilities of the rows.
        ([0.31, 0.012, 0.0055], [1, 0, 0], 0.2),
        # Too close to 0 for a threshold.
        ([1e-12, 1e-13, 1e-14], [1, 1, 1], 0.5),
        # Equal ones.
        ([0.5, 0.5, 0.5], [1, 0, 0], 0.5),
        # One and four labels have the same F1, 2/3; 0.5 predicts two.
        ([0.9, 0.7, 0.3, 0.2], [1, 0, 0, 1], 0.8),
    ],
)
def test_thresholds_of_one_label(chances, labels, threshold):
    logits = logit(np.array(chances)[:, None])
    targets = np.array(labels)[:, None]
    assert choose_thresholds("shared", targets, logits) == threshold
    assert choose_thresholds("per_label", targets, logits) == [threshold]


def test_text_of_thresholds():
    assert threshold_text([0.25, 0.5], ["a", "b"]) == "a 0.25, b 0.5"
    assert threshold_text(0.3, ["a", "b"]) == "0.3"


def test_predictions():
    logits = np.array([[2.0, -1.0, 0.0, -3.0], [-1.0, -1.0, -1.0, -1.0]])
    lines = multi_label_table(predict(TASK, logits), TASK.labels, probabilities(logits))
    assert lines[0] == "labels\ta\tb\tc\td"
    assert lines[1].startswith("a|c\t0.8808\t0.2689\t0.5000\t")
    assert lines[2].startswith('""\t0.2689')
    assert same_prediction(TASK, logits) is None
    assert same_prediction(TASK, logits[:1]) == "a, c"
    assert same_prediction(TASK, logits, 0.9) == "no label"
    assert same_prediction(TASKS["rte"], np.array([[0.0, 1.0], [1.0, 2.0]])) == "not_entailment"
    assert same_prediction(TASKS["stsb"], np.array([[2.5], [2.5]])) == "2.5"


def test_the_constant_prediction_with_the_highest_micro_f1():
    labels = [(0,), (0, 1), (0, 2), (1, 0), ()]
    scores = {}
    for ids in [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]:
        scores[ids] = micro_f1(dense(labels, 3), dense([ids] * 5, 3))
    assert most_frequent(labels) == max(scores, key=scores.get)
    assert most_frequent([(), ()]) == ()

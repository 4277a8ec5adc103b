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
    np.testing.assert_allclose([[float(cell) for cell in row[1:]] for row in rows], np.exp(logits), atol=5e-5)
    assert (lines[0] == "label\tno\tyes") == (len(labels) == 2)  # Quoted only if necessary.
    assert predictions_table(np.array([[1.25e-5], [-4e7]]), []) == ["value", "1.25e-05", "-4e+07"]


def test_scores():
    logits = np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 3.0], [1.0, 2.0]])  # 1, 0, 1, 1
    assert score(TASKS["mrpc"], [1, 0, 1, 0], logits) == pytest.approx({"f1": 0.8, "accuracy": 0.75})
    scores = score(TASKS["stsb"], [0.0, 1.0, 4.0], np.array([[0.0], [1.0], [2.0]]))
    assert list(scores.items()) == [("spearman", pytest.approx(1)), ("pearson", pytest.approx(4 / np.sqrt(52 / 3)))]
    for shape in ((4,), (4, 3)):
        with pytest.raises(ValueError, match=r"`logits` must have shape \(rows, 2\). Received: shape"):
            predict(TASKS["rte"], np.zeros(shape))
    with pytest.raises(FloatingPointError, match="`logits` must be finite. Received: NaN or infinity"):
        score(TASKS["rte"], [1], [[np.nan, 0.0]])


def test_balanced_weights():
    labels, present = np.array([0, 0, 0, 2, 2, 0, 3]), np.array([0, 2, 3])
    found = np.array(balanced_weights(labels, 4))
    np.testing.assert_allclose(found[present], compute_class_weight("balanced", classes=present, y=labels))
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
    with pytest.raises(FloatingPointError, match="`logits` must be finite"):
        score(TASK, [()], [[np.nan] * 4])


def test_thresholds_are_the_best():
    """No other threshold has a higher F1; of several, the closest to 0.5 is taken."""
    labels, logits = random_rows()
    everything = np.unique(probabilities(logits))
    middles = (everything[1:] + everything[:-1]) / 2

    def micro(labels, logits, threshold):
        return micro_f1(labels, probabilities(logits) >= threshold)

    shared = choose_thresholds("shared", labels, logits)
    assert micro(labels, logits, shared) == max(micro(labels, logits, middle) for middle in middles)
    assert 0.1 < shared < 0.5
    each = choose_thresholds("per_label", labels, logits)
    for place, threshold in enumerate(each[:3]):
        column = labels[:, [place]], logits[:, [place]]
        assert micro(*column, threshold) == max(micro(*column, middle) for middle in middles)
    assert each[3] == 0.5  # The label does not occur.
    assert choose_thresholds(0.3, labels, logits) == 0.3
    truth, one = np.array([[1], [0], [0]]), np.log(np.array([[0.9], [0.2], [0.1]]) / [[0.1], [0.8], [0.9]])
    assert choose_thresholds("shared", truth, one) == 0.5
    # As few decimals as possible, between the probabilities of the rows.
    assert choose_thresholds("shared", truth, one - 3) == 0.2  # 0.31, 0.012 and 0.0055.
    assert choose_thresholds("shared", np.ones([3, 1]), one - 30) == 0.5  # Too close to 0 for a threshold.
    assert choose_thresholds("per_label", truth, np.zeros([3, 1])) == [0.5]
    # One and four labels have the same F1, 2/3; 0.5 predicts two.
    assert choose_thresholds("shared", [[1], [0], [0], [1]], logit([[0.9], [0.7], [0.3], [0.2]])) == 0.8


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
    scores = {
        ids: micro_f1(dense(labels, 3), dense([ids] * 5, 3))
        for ids in [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    }
    assert most_frequent(labels) == max(scores, key=scores.get)
    assert most_frequent([(), ()]) == ()

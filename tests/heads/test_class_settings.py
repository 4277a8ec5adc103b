"""The settings of classes: names, thresholds, and the logits at which a label is predicted."""

import numpy as np
import pytest
from scipy.special import expit

from keras_bert.heads.class_settings import checked_labels, checked_thresholds, cuts, placeholders


@pytest.mark.parametrize("labels", [["a", "b"], ("a", "b"), np.array(["a", "b"]), [b"a", "b"], np.array([b"a", b"b"])])
def test_names_of_classes_become_strings(labels):
    assert checked_labels(labels, 2) == ["a", "b"]


def test_numbers_are_names():
    assert checked_labels([0, np.float64(1.5), True], 3) == ["0", "1.5", "True"]
    assert checked_labels(None, 3) is None


@pytest.mark.parametrize("labels", ["ab", b"ab", {"a": 0, "b": 1}, ["a"], ["a", "a"], [1, "1"], ["a", None], 2, []])
def test_other_labels_are_refused(labels):
    with pytest.raises(ValueError, match="`labels` must be 2 different names"):
        checked_labels(labels, 2)


def test_placeholders_are_those_of_transformers():
    assert placeholders(2) == ["LABEL_0", "LABEL_1"]


def test_thresholds_of_all_labels_and_of_each():
    assert checked_thresholds(None, None) is None
    assert checked_thresholds(np.float32(0.5), 3) == 0.5
    assert checked_thresholds(np.array([0.25, 0.5]), 2) == [0.25, 0.5]


@pytest.mark.parametrize("thresholds", [0, 1.0, [0.5], [0.5, 1.0], [0.5, "0.5"], "ab", object()])
def test_other_thresholds_are_refused(thresholds):
    with pytest.raises(ValueError, match="must be a number between 0 and 1, or a list of 2, one for each label"):
        checked_thresholds(thresholds, 2)


def test_only_multi_label_models_have_thresholds():
    with pytest.raises(ValueError, match="`thresholds`"):
        checked_thresholds(0.5, None)


def test_a_logit_at_its_cut_has_the_probability_of_the_threshold():
    np.testing.assert_allclose(expit(cuts([0.1, 0.5, 0.9])), [0.1, 0.5, 0.9])

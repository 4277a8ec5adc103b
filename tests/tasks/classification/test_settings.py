"""Flags of the tasks on texts."""

import pytest

from keras_bert.tasks.classification.settings import parse_threshold


@pytest.mark.parametrize(("value", "threshold"), [("0.5", 0.5), ("shared", "shared"), ("per_label", "per_label")])
def test_threshold_flag(value, threshold):
    assert parse_threshold(value) == threshold


@pytest.mark.parametrize("value", ["0", "1", "nan", "each"])
def test_wrong_thresholds(value):
    with pytest.raises(ValueError, match=f"`threshold` must be shared, per_label, or a number .*={value}"):
        parse_threshold(value)

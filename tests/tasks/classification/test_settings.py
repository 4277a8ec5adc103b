"""Flags of the tasks on texts."""

import pytest

from keras_bert.tasks.classification.settings import parse_threshold


def test_threshold_flag():
    assert [parse_threshold(value) for value in ("0.5", "shared", "per_label")] == [0.5, "shared", "per_label"]
    for value in ("0", "1", "nan", "each"):
        with pytest.raises(ValueError, match=f"`threshold` must be shared, per_label, or a number .*={value}"):
            parse_threshold(value)

"""How sure answers are: temperature and threshold of a model, and which of them it may have."""

import numpy as np
import pytest

from keras_bert.heads.confidence import OF_SEVERAL, Confidence, checked_confidence


def test_logits_are_divided_by_the_temperature():
    logits = np.array([1.0, -3.0])
    assert Confidence().scaled(logits) is logits
    assert Confidence(temperature=2.0).scaled(logits).tolist() == [0.5, -1.5]


def test_defaults_are_not_stored():
    assert Confidence().to_json() == {}
    assert Confidence.of({"temperature": 1.0, "threshold": 0.8}).to_json() == {"threshold": 0.8}
    assert checked_confidence({"temperature": 1.0}) is None
    assert checked_confidence(None) is None


def test_tags_have_no_threshold():
    assert checked_confidence({"temperature": 2.0}, OF_SEVERAL) == {"temperature": 2.0}
    with pytest.raises(ValueError, match="Received: threshold=0.5"):
        checked_confidence({"threshold": 0.5}, OF_SEVERAL)


def test_vectors_have_no_confidence():
    with pytest.raises(ValueError, match="`confidence` must be None"):
        checked_confidence({"temperature": 2.0}, ())

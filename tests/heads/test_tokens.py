"""Heads of each token: their outputs, and how their answers count."""

import numpy as np

from keras_bert.heads.confidence import OF_SEVERAL
from keras_bert.heads.tokens import ReplacedTokenDetection, TokenClassification


def test_tags_have_a_temperature_and_no_threshold():
    assert TokenClassification().confidence_fields(None) == OF_SEVERAL == ("temperature",)


def test_tokens_that_were_replaced():
    """The second token of a text of one is padding."""
    output = {
        "token_count": 1,
        "starts": np.array([3, -1]),
        "ends": np.array([4, -1]),
        "replaced": np.array([True, False]),
        "scores": np.array([0.75, 0.0]),
    }
    answer = ReplacedTokenDetection.answer(output, {"text": "é b"}, None)
    assert answer == {"tokens": [{"text": "b", "replaced": True, "start": 2, "end": 3, "score": 0.75}]}

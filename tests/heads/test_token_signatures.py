"""Texts cut at byte offsets, and the scores of entities, of which texts have different numbers."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.heads.token_signatures import dense_offsets, mean_scores, slices  # noqa: E402
from keras_bert.text.entities import entities  # noqa: E402


def test_substrings_are_padded():
    text = tf.constant(["ab c", ""])
    starts = tf.ragged.constant([[0, 3], []], dtype="int64")
    ends = tf.ragged.constant([[2, 4], []], dtype="int64")
    assert slices(text, starts, ends).numpy().tolist() == [[b"ab", b"c"], [b"", b""]]
    assert dense_offsets(starts).numpy().tolist() == [[0, 3], [-1, -1]]


def test_the_score_of_an_entity_is_the_mean_of_its_words():
    labels = ["O", "B-A", "I-A"]
    tags = tf.ragged.constant([[1, 2, 0], [0, 1]], dtype="int32")
    scores = tf.ragged.constant([[0.5, 0.75, 1.0], [0.125, 0.25]], dtype="float32")
    found = mean_scores(scores, entities(tags, labels))
    np.testing.assert_allclose(found.to_tensor(-1.0), [[0.625], [0.25]])

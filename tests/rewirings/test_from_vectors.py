"""Models on vectors of tokens have the outputs of the whole model."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.heads.classification import Classification
from keras_bert.rewirings.from_vectors import VECTORS, build_from_vectors
from tests.conftest import to_numpy


@pytest.mark.parametrize("head", ["classification", "token_classification", "multiple_choice", "mlm", "embedding"])
def test_outputs(build, task, head):
    model = build(head)
    inputs, _, _ = task(head)
    rewired = build_from_vectors(model)
    ids = inputs["token_ids"]
    table = keras_bert.describe(model).layers["token_embedding"]
    vectors = to_numpy(table(ids.reshape(-1, ids.shape[-1])))
    expected = model(inputs)
    found = rewired(inputs | {VECTORS: vectors})
    assert list(found) == list(expected)
    for name in expected:
        np.testing.assert_allclose(to_numpy(found[name]), to_numpy(expected[name]), atol=1e-5)


def test_a_head_that_is_more_than_a_head(build, monkeypatch):
    model = build("classification")
    monkeypatch.setattr(Classification, "run", None)
    with pytest.raises(ValueError, match="'classification' has no `run`.*leave_one_out"):
        build_from_vectors(model)


def test_positions_that_count_from_padding(config):
    config = dataclasses.replace(config, position_padding_id=1)
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 2)
    ids = np.array([[2, 7, 8, 3, 1, 1]])
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": (ids != 1).astype("int32")}
    vectors = keras.ops.convert_to_numpy(keras_bert.describe(model).layers["token_embedding"](ids))
    found = build_from_vectors(model)(inputs | {VECTORS: vectors})["logits"]
    np.testing.assert_allclose(to_numpy(found), to_numpy(model(inputs)["logits"]), atol=1e-5)

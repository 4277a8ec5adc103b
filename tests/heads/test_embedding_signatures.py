"""Vectors of encoders: poolings of several layers, and those that an encoder cannot have."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.heads.embedding_signatures import check_pooling, pool  # noqa: E402

MASK = np.array([[1, 1, 0]])
STATES = np.arange(12, dtype="float32").reshape(2, 1, 3, 2)  # Of two layers, three tokens of width 2.


def test_layers_are_concatenated():
    outputs = {"sequence_output": STATES[1], "hidden_states": list(STATES)}
    found = pool(outputs, MASK, "mean", layers=(-1, 0))
    np.testing.assert_allclose(found, [[7.0, 8.0, 1.0, 2.0]])


def test_the_pooled_output_is_scaled():
    outputs = {"pooled_output": np.array([[3.0, 4.0]])}
    np.testing.assert_allclose(pool(outputs, MASK, "pooled"), [[3.0, 4.0]])
    np.testing.assert_allclose(pool(outputs, MASK, "pooled", normalize=True), [[0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "pooling", "layers", "name"),
    [
        ({}, "min", (-1,), "pooling"),
        ({}, "pooled", (0,), "layers"),
        ({}, "mean", (0,), "hidden_states=True"),
        ({"hidden_states": True}, "mean", (2,), "layers"),
    ],
)
def test_poolings_that_an_encoder_cannot_have(build, options, pooling, layers, name):
    model = build("encoder", **options)
    with pytest.raises(ValueError, match=name):
        check_pooling(model, pooling, layers)

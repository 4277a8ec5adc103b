"""Layers of vectors: their order and names, beside NumPy."""

import numpy as np
import pytest

import keras_bert
from keras_bert.heads.text_vectors import TextVectors
from tests.conftest import to_numpy

VECTORS = TextVectors(pooling="pool", projection="dense", unit_length="unit")


@pytest.fixture(scope="module")
def encoder():
    return keras_bert.build_encoder(keras_bert.named_config("tiny"))


def states():
    """States of two texts, of which the second one has two tokens."""
    rng = np.random.default_rng(0)
    mask = np.array([[1, 1, 1], [1, 1, 0]], "int32")
    return {"sequence_output": rng.normal(size=(2, 3, 128)).astype("float32")}, {"padding_mask": mask}


def numpy_means(encoded, inputs):
    weights = inputs["padding_mask"][..., None]
    return (encoded["sequence_output"] * weights).sum(1) / weights.sum(1)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.parametrize("normalize", [False, True])
def test_without_a_projection_the_pooling_scales(encoder, normalize):
    layers = VECTORS.build(encoder, "mean", normalize, projection=None, projection_activation="linear")
    assert list(layers) == ["pool"]
    means = numpy_means(*states())
    expected = unit(means) if normalize else means
    np.testing.assert_allclose(to_numpy(VECTORS.run(layers, *states())), expected, atol=1e-5)


@pytest.mark.parametrize(("normalize", "names"), [(False, {"dense", "pool"}), (True, {"dense", "unit", "pool"})])
def test_the_scale_comes_after_the_projection(encoder, normalize, names):
    layers = VECTORS.build(encoder, "mean", normalize, projection=8, projection_activation="tanh")
    assert set(layers) == names
    assert {name: layer.name for name, layer in layers.items()} == {name: name for name in names}
    vectors = to_numpy(VECTORS.run(layers, *states()))
    kernel, bias = map(to_numpy, layers["dense"].weights)
    projected = np.tanh(numpy_means(*states()) @ kernel + bias)
    expected = unit(projected) if normalize else projected
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"pooling": "cls", "normalize": True, "projection": None, "projection_activation": "linear"},
        {"pooling": ("cls", "max"), "normalize": False, "projection": 8, "projection_activation": "tanh"},
        {"pooling": "mean", "normalize": True, "projection": 4, "projection_activation": "linear"},
    ],
)
def test_described_as_built(encoder, options):
    layers = VECTORS.build(encoder, **options)
    described = VECTORS.described(layers)
    described["pooling"] = type(options["pooling"])(described["pooling"])  # Of several, a list.
    assert described == options


@pytest.mark.parametrize(
    ("projection", "activation", "argument"),
    [(0, "tanh", "projection=0"), (2.5, "tanh", "projection=2.5"), (8, "relu", "projection_activation='relu'")],
)
def test_a_projection_that_cannot_be(encoder, projection, activation, argument):
    with pytest.raises(ValueError, match=argument):
        VECTORS.build(encoder, "mean", False, projection, activation)

"""Classifiers on the vector of a sentence encoder: which vector it is, and where its projection comes from."""

import types

import numpy as np

import keras_bert
from keras_bert.heads.sentence_classification import build_sentence_classifier, take_projection, vector_options
from keras_bert.metadata import Metadata
from tests.conftest import to_numpy


def test_the_vector_is_that_of_the_loaded_model():
    metadata = Metadata(pooling="cls", normalize=True, projection=8, projection_activation="tanh")
    expected = {"pooling": "cls", "normalize": True, "projection": 8, "projection_activation": "tanh"}
    sentence_encoder = types.SimpleNamespace(metadata=metadata, head="embedding", head_options=None)
    assert vector_options(sentence_encoder) == expected
    own = types.SimpleNamespace(metadata=metadata, head="sentence_classification", head_options={"pooling": "max"})
    assert vector_options(own) == expected | {"pooling": "max"}


def test_an_encoder_is_pooled_by_the_mean():
    encoder = types.SimpleNamespace(metadata=Metadata(), head="encoder", head_options=None)
    assert vector_options(encoder)["pooling"] == "mean"


def test_a_projection_is_taken_from_a_sentence_encoder(config):
    encoder = keras_bert.build_encoder(config)
    embedder = keras_bert.build_embedder(encoder, projection=8)
    model = build_sentence_classifier(encoder, 3, projection=8)
    take_projection(model, types.SimpleNamespace(model=lambda: embedder))
    kernel = model.get_layer("vector_projection").kernel
    np.testing.assert_array_equal(to_numpy(kernel), to_numpy(embedder.get_layer("sentence_projection").kernel))

"""Sentence encoders: arguments of the builder, and answers."""

import numpy as np
import pytest

import keras_bert
from keras_bert.heads.embedding import Embedding


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("projection", {"projection": 0}),
        ("projection", {"projection": 2.5}),
        ("projection_activation", {"projection": 8, "projection_activation": "relu"}),
        ("pooling", {"pooling": "min"}),
    ],
)
def test_bad_arguments(config, name, options):
    encoder = keras_bert.build_encoder(config)
    with pytest.raises(ValueError, match=f"`{name}`"):
        keras_bert.build_embedder(encoder, **options)


def test_answers_are_vectors_or_the_classes_of_zero_shot():
    vector = np.arange(3.0)
    assert Embedding().answer({"embedding": vector}, {}, None) == {"embedding": vector}
    zero_shot = {"labels": np.array([b"x", b"y"]), "probabilities": np.array([0.25, 0.75])}
    assert Embedding().answer(zero_shot, {}, None)["label"] == "y"

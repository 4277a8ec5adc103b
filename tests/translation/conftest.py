"""A small encoder-decoder."""

import keras
import numpy as np
import pytest

from keras_bert.translation.config import TransformerConfig
from keras_bert.translation.model import build_transformer

CONFIG = TransformerConfig(23, 16, 2, 1, 2, 32, dropout=0.0, max_position_embeddings=12)


def build(config, deviation=0.2):
    """Builds a model whose weights, biases too, differ from those of an initializer."""
    model = build_transformer(config)
    rng = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(weight + rng.normal(0, deviation, weight.shape))
    return model


@pytest.fixture(scope="session")
def model():
    keras.utils.set_random_seed(1)
    return build(CONFIG)


def batch(source_lengths=(6, 4), target_lengths=(5, 3), width=(6, 5)):
    rng = np.random.default_rng(0)
    inputs = {}
    for side, lengths, size in zip(("source", "target"), (source_lengths, target_lengths), width, strict=True):
        inputs[f"{side}_ids"] = rng.integers(1, 23, (2, size)).astype("int32")
        inputs[f"{side}_mask"] = (np.arange(size) < np.array(lengths)[:, None]).astype("int32")
    return inputs


def logits(model, inputs):
    return keras.ops.convert_to_numpy(model(inputs)["logits"])

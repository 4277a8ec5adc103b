"""Documents in windows: outputs and gradients beside a plain loop over the windows."""

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.rewirings.windowed import build_trimmed_windows, build_windowed

CONFIG = keras_bert.BertConfig(50, 16, 2, 2, 32, max_position_embeddings=16)
COUNTS = (1, 3, 2)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    return keras_bert.build_classifier(keras_bert.build_encoder(CONFIG), 3)


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(1)
    mask = np.zeros([3, 3, 10], "int32")
    for row, count in enumerate(COUNTS):
        for window in range(count):
            length = 6 if window == count - 1 else 10
            mask[row, window, :length] = 1
    ids = rng.integers(1, 50, mask.shape).astype("int32") * mask
    return {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": mask}


def plain(model, inputs):
    """Returns what the logits of the windows of each document have in common, each window without padding."""
    rows = []
    for row, count in enumerate(COUNTS):
        logits = []
        for window in range(count):
            length = inputs["padding_mask"][row, window].sum()
            one = {name: values[row, window : window + 1, :length] for name, values in inputs.items()}
            logits.append(model(one, training=False)["logits"])
        mean = keras.ops.mean(keras.ops.exp(keras.ops.concatenate(logits)), axis=0)
        rows.append(keras.ops.log(mean))
    return keras.ops.stack(rows)


@pytest.mark.parametrize("build", [build_windowed, lambda model: build_trimmed_windows(build_windowed(model))])
def test_outputs(model, inputs, build):
    windowed = build(model)
    found = keras.ops.convert_to_numpy(windowed(inputs, training=False)["logits"])
    np.testing.assert_allclose(found, keras.ops.convert_to_numpy(plain(model, inputs)), atol=1e-6)
    assert {id(weight) for weight in windowed.weights} == {id(weight) for weight in model.weights}


@pytest.mark.tensorflow
def test_gradients(model, inputs):
    import tensorflow as tf

    labels = np.array([0, 2, 1])
    gradients = []
    for logits in (lambda: build_windowed(model)(inputs, training=False)["logits"], lambda: plain(model, inputs)):
        with tf.GradientTape() as tape:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits())
        found = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
        gradients.append([tf.convert_to_tensor(gradient).numpy() for gradient in found])
    for found, expected in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_number_of_a_document_is_the_mean(inputs):
    keras.utils.set_random_seed(4)
    model = keras_bert.build_classifier(keras_bert.build_encoder(CONFIG), 1)
    found = keras.ops.convert_to_numpy(build_windowed(model)(inputs, training=False)["logits"])
    flat = {name: values.reshape(9, 10) for name, values in inputs.items()}
    windows = keras.ops.convert_to_numpy(model(flat, training=False)["logits"]).reshape(3, 3)
    expected = [[windows[row, :count].mean()] for row, count in enumerate(COUNTS)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_models_of_tokens_are_refused():
    tagger = keras_bert.build_token_classifier(keras_bert.build_encoder(CONFIG), 3)
    with pytest.raises(ValueError, match="must have outputs of whole texts.* head='token_classification'"):
        build_windowed(tagger)

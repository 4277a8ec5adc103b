"""Models whose last block computes only what the head reads have the outputs and gradients of the whole model."""

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import to_numpy


@pytest.mark.parametrize("head", ["mlm", "next_sentence", "classification", "multiple_choice"])
def test_outputs(build, task, head):
    model = build(head)
    inputs, _, _ = task(head)
    trimmed = keras_bert.models.build_trimmed(model)
    assert {id(weight) for weight in trimmed.weights} == {id(weight) for weight in model.weights}
    expected, found = model(inputs), trimmed(inputs)
    assert list(found) == list(expected)
    for name in expected:
        np.testing.assert_allclose(to_numpy(found[name]), to_numpy(expected[name]), atol=2e-5)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("head", "options"),
    [("pretraining", {"positions": "none"}), ("classification", {"remat": True})],
)
def test_gradients(build, task, head, options):
    import tensorflow as tf

    model = build(head, **options)
    inputs, _, _ = task(head)
    gradients = []
    for called in (model, keras_bert.models.build_trimmed(model)):
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(tf.sin(value)) for value in called(inputs).values())
        found = tape.gradient(loss, model.trainable_variables, unconnected_gradients="zero")
        gradients.append([tf.convert_to_tensor(gradient).numpy() for gradient in found])
    for weight, one, other in zip(model.trainable_variables, *gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * max(1, np.abs(one).max()), err_msg=weight.path)


def test_the_last_block_computes_less(build, task, config, monkeypatch):
    """The masked positions and [CLS] only."""
    model = build("pretraining")
    last = model.get_layer(f"block_{config.num_hidden_layers - 1}")
    widths = []
    forward = last.feed_forward.call
    monkeypatch.setattr(
        last.feed_forward, "call", lambda hidden, **options: widths.append(hidden.shape) or forward(hidden, **options)
    )
    keras_bert.models.build_trimmed(model)(task("pretraining")[0])
    assert widths[-1] == (3, 1 + 3, 32)


def test_other_models(build):
    inputs = keras.Input((3,))
    stranger = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    whole = [build(head) for head in ("encoder", "token_classification", "embedding")]
    for model in (*whole, build("classification", causal=True), stranger):
        assert keras_bert.models.build_trimmed(model) is model
    with pytest.raises(ValueError, match="is for training only: use the one that it was made from"):
        keras_bert.build_embedder(keras_bert.models.build_trimmed(build("classification")))

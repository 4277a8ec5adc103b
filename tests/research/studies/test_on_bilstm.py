"""A BiLSTM between encoder and head, and the pooler of left-to-right encoders."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import keras_bert
from research.studies.on_bilstm import build_on_bilstm
from tests.conftest import to_numpy

pytestmark = pytest.mark.tensorflow


@pytest.fixture(params=[False, True], ids=["both directions", "left to right"])
def encoder(config, request):
    return keras_bert.build_encoder(config, causal=request.param)


def bilstm_states(model, encoder, batch):
    """Returns the states of the BiLSTM of a model."""
    states = encoder(batch)["sequence_output"]
    return to_numpy(model.get_layer("encoder_bilstm")(states, batch["padding_mask"]))


def head(model, vectors):
    kernel, bias = model.get_layer("head").get_weights()
    return vectors @ kernel + bias


def test_a_classifier_equals_its_formula(encoder, batch):
    """A left-to-right encoder pools the last token, since [CLS] sees only itself."""
    model = build_on_bilstm(encoder, 3)
    states = bilstm_states(model, encoder, batch)
    places = np.zeros(3, int)
    if keras_bert.describe(encoder).causal:
        places = batch["padding_mask"].sum(1) - 1
    kernel, bias = model.get_layer("pooler").dense.get_weights()
    pooled = np.tanh(states[np.arange(3), places] @ kernel + bias)
    logits = to_numpy(model(batch)["logits"])
    np.testing.assert_allclose(logits, head(model, pooled), atol=1e-5)


def test_a_span_labeler_equals_its_formula(encoder, batch):
    model = build_on_bilstm(encoder)
    expected = head(model, bilstm_states(model, encoder, batch))
    outputs = model(batch)
    np.testing.assert_allclose(to_numpy(outputs["start_logits"]), expected[..., 0], atol=1e-5)
    np.testing.assert_allclose(to_numpy(outputs["end_logits"]), expected[..., 1], atol=1e-5)


def test_the_bilstm_is_trained(encoder):
    model = build_on_bilstm(encoder, 3)
    assert any("encoder_bilstm" in weight.path for weight in model.trainable_weights)


def test_an_odd_width(config):
    odd = dataclasses.replace(config, hidden_size=9, num_attention_heads=3)
    encoder = keras_bert.build_encoder(odd)
    with pytest.raises(ValueError, match="even `hidden_size`. Received: hidden_size=9"):
        build_on_bilstm(encoder, 2)

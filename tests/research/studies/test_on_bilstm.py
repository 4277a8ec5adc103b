"""A BiLSTM between encoder and head, and the pooler of left-to-right encoders."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import keras_bert
from research.studies.on_bilstm import build_on_bilstm
from tests.conftest import to_numpy

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("causal", [False, True])
def test_outputs_equal_the_formulas(config, batch, causal):
    encoder = keras_bert.build_encoder(config, causal=causal)
    states = to_numpy(encoder(batch)["sequence_output"])
    mask = batch["padding_mask"]
    lengths = batch["padding_mask"].sum(1)
    classifier = build_on_bilstm(encoder, 3)
    labeler = build_on_bilstm(encoder)
    for model in (classifier, labeler):
        sequence = to_numpy(model.get_layer("encoder_bilstm")(states, mask))
        vectors = sequence
        if model is classifier:
            # A left-to-right encoder pools the last token, since [CLS] sees only itself.
            pooled = sequence[np.arange(3), lengths - 1 if causal else 0]
            kernel, bias = model.get_layer("pooler").dense.get_weights()
            vectors = np.tanh(pooled @ kernel + bias)
        kernel, bias = model.get_layer("head").get_weights()
        outputs = model(batch)
        expected = vectors @ kernel + bias
        if model is classifier:
            np.testing.assert_allclose(to_numpy(outputs["logits"]), expected, atol=1e-5)
        else:
            for column, name in enumerate(("start_logits", "end_logits")):
                np.testing.assert_allclose(to_numpy(outputs[name]), expected[..., column], atol=1e-5)
        assert any("encoder_bilstm" in weight.path for weight in model.trainable_weights)


def test_an_odd_width(config):
    encoder = keras_bert.build_encoder(dataclasses.replace(config, hidden_size=9, num_attention_heads=3))
    with pytest.raises(ValueError, match="a BiLSTM needs an even `hidden_size`. Received: hidden_size=9"):
        build_on_bilstm(encoder, 2)

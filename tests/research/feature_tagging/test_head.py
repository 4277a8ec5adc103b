"""The feature-based tagger: a BiLSTM on a frozen encoder."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from research.feature_tagging.head import build_bilstm_tagger, split_bilstm_tagger
from tests.conftest import to_numpy


@pytest.fixture(scope="module")
def encoder(config):
    deep = dataclasses.replace(config, num_hidden_layers=4)
    return keras_bert.build_encoder(deep, hidden_states=True)


@pytest.fixture
def model(encoder):
    return build_bilstm_tagger(encoder, 3, features="sum_last_four", width=8, dropout=0.4)


def test_the_features_are_states_of_the_encoder(model, encoder, batch):
    """Without dropout, also in training."""
    extractor, _ = split_bilstm_tagger(model)
    features = to_numpy(extractor(batch, training=True)["features"])
    states = [to_numpy(state) for state in encoder(batch)["hidden_states"][1:]]
    np.testing.assert_allclose(features, np.concatenate(states, -1), atol=1e-5)


def test_the_tagger_on_features(model, batch):
    """It equals the whole model; padding changes nothing."""
    extractor, tagger = split_bilstm_tagger(model)
    features = to_numpy(extractor(batch)["features"])
    outputs = tagger({"features": features, "padding_mask": batch["padding_mask"]})
    second_alone = {name: value[1:2, :7] for name, value in batch.items()}
    expected = to_numpy(model(second_alone)["logits"])
    np.testing.assert_allclose(to_numpy(outputs["logits"])[1:2, :7], expected, atol=1e-5)


def test_the_encoder_is_not_trained(model):
    _, tagger = split_bilstm_tagger(model)
    paths = {weight.path for weight in model.trainable_weights}
    assert paths == {weight.path for weight in tagger.trainable_weights}
    layers = {path.split("/")[0] for path in paths}
    assert layers == {"weighted_sum", "bilstm_0", "bilstm_1", "token_classifier"}


@pytest.fixture(scope="module")
def short(config):
    """An encoder of one block."""
    return keras_bert.build_encoder(config)


@pytest.mark.parametrize(
    ("num_classes", "options", "message"),
    [
        (3, {}, "needs an encoder with at least 4 blocks. Received: 1 block"),
        (3, {"features": "second_to_last"}, "needs an encoder with at least 2 blocks"),
        (3, {"features": "first"}, "`features` must be one of .* Received: features='first'"),
        (0, {}, "`num_classes`"),
        (3, {"features": "last", "num_layers": 9}, "`num_layers` .* at most 8"),
        (3, {"features": "last", "width": 7}, "`width` must be a positive even integer"),
    ],
)
def test_wrong_sizes(short, num_classes, options, message):
    with pytest.raises(ValueError, match=message):
        build_bilstm_tagger(short, num_classes, **options)


def test_another_model_is_not_split(encoder):
    with pytest.raises(ValueError, match="`model` .* Received: .*'encoder'"):
        split_bilstm_tagger(encoder)


def test_a_tagger_with_other_rates_of_dropout(short, monkeypatch):
    model = build_bilstm_tagger(short, 3, features="last", width=8)
    monkeypatch.setattr(model.get_layer("bilstm_dropout_0"), "rate", 0.1)
    with pytest.raises(ValueError, match="'bilstm_dropout_0' has rate=0.1"):
        keras_bert.describe(model)


TAGS = ["O", "B-PER", "I-PER"]


@pytest.fixture(params=["sum_all", "last"])
def tagger(config, request):
    """A tagger whose weights are no start values."""
    encoder = keras_bert.build_encoder(config)
    options = {"width": 8, "num_layers": 1, "dropout": 0.3}
    model = build_bilstm_tagger(encoder, 3, features=request.param, **options)
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.3))
    return model, request.param


@pytest.mark.parametrize("format", ["huggingface", "keras"])
def test_saved_models(tagger, batch, pieces, tmp_path, format):
    model, features = tagger
    keras_bert.save(model, tmp_path, pieces, labels=TAGS, format=format)
    bert = keras_bert.load(tmp_path)
    assert bert.head == "bilstm_tagging"
    assert bert.labels == TAGS
    assert bert.metadata.head_options == {"features": features}
    assert keras_bert.describe(bert.model()).options == keras_bert.describe(model).options
    logits = to_numpy(bert.model()(batch)["logits"])
    np.testing.assert_allclose(logits, to_numpy(model(batch)["logits"]), atol=1e-5)


def test_what_a_tagger_has_no_form_for(tagger, pieces, tmp_path):
    model, _ = tagger
    with pytest.raises(ValueError, match="Google's format .* bilstm_tagging"):
        keras_bert.save(model, tmp_path / "google", pieces, format="google")
    assert keras_bert.models.build_trimmed(model) is model

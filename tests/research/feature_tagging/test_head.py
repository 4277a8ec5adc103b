"""The feature-based tagger: a BiLSTM on a frozen encoder."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from research.feature_tagging.head import build_bilstm_tagger, split_bilstm_tagger
from research.recurrent import FEATURES, BiLSTM, EncoderFeatures, WeightedSum
from research.run_feature_tagging import FEATURES as NAMED
from tests.conftest import to_numpy


@pytest.fixture(scope="module")
def encoder(config):
    return keras_bert.build_encoder(dataclasses.replace(config, num_hidden_layers=4), hidden_states=True)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def lstm(inputs, kernel, recurrent, bias):
    """Returns the outputs of an LSTM for one sequence, from its definition."""
    output = cell = np.zeros(len(recurrent))
    outputs = []
    for row in inputs:
        i, f, g, o = np.split(row @ kernel + output @ recurrent + bias, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        output = sigmoid(o) * np.tanh(cell)
        outputs.append(output)
    return np.array(outputs)


def test_bilstm_of_padded_rows():
    layer = BiLSTM(4)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(3, 6, 5)).astype("float32")
    lengths = (6, 3, 0)
    outputs = to_numpy(layer(inputs, (np.arange(6) < np.array(lengths)[:, None]).astype("int32")))
    for row, output, length in zip(inputs, outputs, lengths, strict=True):
        assert (output[length:] == 0).all()
        if length:
            forward = lstm(row[:length], *layer.forward.get_weights()[:3])
            backward = lstm(row[:length][::-1], *layer.backward.get_weights()[:3])[::-1]
            np.testing.assert_allclose(output[:length], np.concatenate([forward, backward], 1), atol=1e-6)


def test_weighted_sum():
    layer = WeightedSum(3)
    inputs = np.arange(12, dtype="float32").reshape(1, 2, 6)
    np.testing.assert_allclose(to_numpy(layer(inputs)), [[[2, 3], [8, 9]]], rtol=1e-6)  # The mean.
    layer.set_weights([np.log([1.0, 2.0, 5.0]), np.array([8.0])])
    np.testing.assert_allclose(to_numpy(layer(inputs))[0, 0], [0 + 2 * 2 + 5 * 4, 1 + 2 * 3 + 5 * 5], rtol=1e-6)


STATES = {
    "embeddings": [0],
    "second_to_last": [3],
    "last": [4],
    "sum_last_four": [1, 2, 3, 4],
    "concat_last_four": [1, 2, 3, 4],
    "sum_all": [1, 2, 3, 4],
}


def test_features():
    states = [np.full((2, 3, 1), float(index)) for index in range(5)]
    assert tuple(STATES) == FEATURES == NAMED
    for features, numbers in STATES.items():
        layer = EncoderFeatures(features)
        assert layer.count(4) == len(numbers)
        assert to_numpy(layer(states))[1, 2].tolist() == numbers


def test_the_split(encoder, batch):
    model = build_bilstm_tagger(encoder, 3, features="sum_last_four", width=8, dropout=0.4)
    extractor, tagger = split_bilstm_tagger(model)
    extracted = to_numpy(extractor(batch, training=True)["features"])  # Without dropout, also in training.
    np.testing.assert_allclose(
        extracted, to_numpy(keras.ops.concatenate(encoder(batch)["hidden_states"][1:], -1)), atol=1e-5
    )
    logits = to_numpy(tagger({"features": extracted, "padding_mask": batch["padding_mask"]})["logits"])
    # Padding changes nothing.
    alone = to_numpy(model({name: value[1:2, :7] for name, value in batch.items()})["logits"])
    np.testing.assert_allclose(logits[1:2, :7], alone, atol=1e-5)
    paths = {weight.path for weight in model.trainable_weights}
    assert paths == {weight.path for weight in tagger.trainable_weights}
    assert {path.split("/")[0] for path in paths} - {"weighted_sum"} == {"bilstm_0", "bilstm_1", "token_classifier"}


def test_bad_arguments(config, encoder):
    short = keras_bert.build_encoder(config)
    for (*sizes, options), message in (
        ((short, 3, {}), "needs an encoder with at least 4 blocks. Received: 1 block"),
        ((short, 3, {"features": "second_to_last"}), "needs an encoder with at least 2 blocks"),
        ((short, 3, {"features": "first"}), "`features` must be one of embeddings, .* Received: features='first'"),
        ((short, 0, {}), "`num_classes` must be a positive integer. Received: num_classes=0"),
        ((short, 3, {"features": "last", "num_layers": 9}), "`num_layers` must be a positive integer, at most 8. Rec"),
        ((short, 3, {"features": "last", "width": 7}), "`width` must be a positive even integer. Received: width=7"),
    ):
        with pytest.raises(ValueError, match=message):
            build_bilstm_tagger(*sizes, **options)
    with pytest.raises(ValueError, match="`model` must come from build_bilstm_tagger. Received: .*'encoder'"):
        split_bilstm_tagger(encoder)
    model = build_bilstm_tagger(short, 3, features="last", width=8)
    model.get_layer("bilstm_dropout_0").rate = 0.1
    with pytest.raises(ValueError, match="The layer 'bilstm_dropout_0' has rate=0.1, where 0.5 is expected"):
        keras_bert.describe(model)


TAGS = ["O", "B-PER", "I-PER"]


@pytest.mark.parametrize("features", ["sum_all", "last"])
def test_saved_models(config, batch, pieces, tmp_path, features):
    """In both formats; what transformers opens is the encoder."""
    model = build_bilstm_tagger(keras_bert.build_encoder(config), 3, features, width=8, num_layers=1, dropout=0.3)
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.3))
    logits = to_numpy(model(batch)["logits"])
    for format in ("huggingface", "keras"):
        keras_bert.save(model, tmp_path / format, pieces, labels=TAGS, format=format)
        bert = keras_bert.load(tmp_path / format)
        assert (bert.head, bert.labels, bert.metadata.head_options) == ("bilstm_tagging", TAGS, {"features": features})
        assert keras_bert.describe(bert.model()).options == keras_bert.describe(model).options
        np.testing.assert_allclose(to_numpy(bert.model()(batch)["logits"]), logits, atol=1e-5)
    with pytest.raises(ValueError, match="Google's format has no names for a bilstm_tagging head"):
        keras_bert.save(model, tmp_path / "google", pieces, format="google")
    assert keras_bert.models.build_trimmed(model) is model

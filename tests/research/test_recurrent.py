"""Layers of recurrent models: a bidirectional LSTM, and the hidden states that it reads."""

import numpy as np
import pytest

from research import recurrent
from research.recurrent import FEATURES, BiLSTM, EncoderFeatures, WeightedSum
from research.run_feature_tagging import FEATURES as FLAG_VALUES
from tests.conftest import to_numpy
from tests.layers import test_layers as promises
from tests.layers.test_layers import HIDDEN, ROWS
from tests.research.formulas import lstm


@pytest.mark.parametrize(
    ("kind", "arguments", "inputs"),
    [
        (recurrent.BiLSTM, (4, True), [HIDDEN, ROWS]),
        (recurrent.WeightedSum, (2,), [HIDDEN]),
    ],
)
def test_promises_of_all_layers(kind, arguments, inputs):
    promises.test_configs_and_declared_outputs(kind, arguments, inputs)


def both_directions(layer, row):
    """Returns the outputs of a `BiLSTM` for a row without padding."""
    forward = lstm(row, *layer.forward.get_weights()[:3])
    backward = lstm(row[::-1], *layer.backward.get_weights()[:3])
    return np.concatenate([forward, backward[::-1]], axis=1)


def test_bilstm_of_padded_rows():
    layer = BiLSTM(4)
    inputs = np.random.default_rng(0).normal(size=(3, 6, 5)).astype("float32")
    lengths = np.array([6, 3, 0])
    mask = (np.arange(6) < lengths[:, None]).astype("int32")
    outputs = to_numpy(layer(inputs, mask))
    for row, output, length in zip(inputs, outputs, lengths, strict=True):
        assert (output[length:] == 0).all()
        if length:
            expected = both_directions(layer, row[:length])
            np.testing.assert_allclose(output[:length], expected, atol=1e-6)


def test_separate_directions_read_their_own_half():
    layer = BiLSTM(4, separate=True)
    inputs = np.random.default_rng(0).normal(size=(1, 6, 10)).astype("float32")
    mask = np.ones((1, 6), "int32")
    outputs = to_numpy(layer(inputs, mask))
    changed = inputs.copy()
    changed[..., 5:] += 1
    others = to_numpy(layer(changed, mask))
    np.testing.assert_array_equal(others[..., :4], outputs[..., :4])
    assert (others[..., 4:] != outputs[..., 4:]).all()


def test_weighted_sum():
    layer = WeightedSum(3)
    inputs = np.arange(12, dtype="float32").reshape(1, 2, 6)
    mean = [[[2, 3], [8, 9]]]
    np.testing.assert_allclose(to_numpy(layer(inputs)), mean, rtol=1e-6)
    layer.set_weights([np.log([1.0, 2.0, 5.0]), np.array([8.0])])
    first = [0 + 2 * 2 + 5 * 4, 1 + 2 * 3 + 5 * 5]
    np.testing.assert_allclose(to_numpy(layer(inputs))[0, 0], first, rtol=1e-6)


# The hidden states that each kind of features reads, of an encoder with four blocks.
STATES = {
    "embeddings": [0],
    "second_to_last": [3],
    "last": [4],
    "sum_last_four": [1, 2, 3, 4],
    "concat_last_four": [1, 2, 3, 4],
    "sum_all": [1, 2, 3, 4],
}


def test_names_of_features():
    assert tuple(STATES) == FEATURES
    assert FLAG_VALUES == FEATURES


@pytest.mark.parametrize("features", STATES)
def test_features(features):
    states = [np.full((2, 3, 1), float(index)) for index in range(5)]
    layer = EncoderFeatures(features)
    assert layer.count(4) == len(STATES[features])
    assert to_numpy(layer(states))[1, 2].tolist() == STATES[features]


def test_features_that_an_encoder_does_not_have():
    with pytest.raises(ValueError, match="`features`='sum_last_four' .* at least 4 blocks"):
        EncoderFeatures("sum_last_four").count(3)

"""What all layers promise."""

import pytest

from research import recurrent
from research.rivals import layers
from tests.layers import test_layers as promises
from tests.layers.test_layers import HIDDEN, ROWS

LAYERS = [  # Layers with arguments that are not the defaults, and the inputs of a call.
    (layers.AttentionFlow, (0.3,), [HIDDEN, HIDDEN, ROWS, ROWS]),
    (layers.BothDirections, (), [HIDDEN]),
    (layers.Highway, (8, 0.3), [HIDDEN]),
    (layers.JoinLogits, (), [HIDDEN[..., 0], ROWS, ROWS]),
    (layers.MaskedMax, (), [HIDDEN, ROWS]),
    (layers.NextAndPrevious, (), [HIDDEN]),
    (layers.PairAttention, (), [HIDDEN, HIDDEN, ROWS]),
    (layers.SplitPair, (), [ROWS, ROWS, ROWS]),
    (recurrent.BiLSTM, (4, True), [HIDDEN, ROWS]),
    (recurrent.WeightedSum, (2,), [HIDDEN]),
]


@pytest.mark.parametrize(("kind", "arguments", "inputs"), LAYERS)
def test_promises(kind, arguments, inputs):
    promises.test_configs_and_declared_outputs(kind, arguments, inputs)

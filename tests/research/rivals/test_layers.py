"""Layers of models that read the two parts of a pair separately, or a text in both directions."""

import numpy as np
import pytest
import scipy.special

from research.rivals import layers
from tests.conftest import to_numpy
from tests.layers import test_layers as promises
from tests.layers.test_layers import HIDDEN, ROWS


@pytest.mark.parametrize(
    ("kind", "arguments", "inputs"),
    [  # Arguments that are not the defaults, and the inputs of a call.
        (layers.AttentionFlow, (0.3,), [HIDDEN, HIDDEN, ROWS, ROWS]),
        (layers.BothDirections, (), [HIDDEN]),
        (layers.Highway, (8, 0.3), [HIDDEN]),
        (layers.JoinLogits, (), [HIDDEN[..., 0], ROWS, ROWS]),
        (layers.MaskedMax, (), [HIDDEN, ROWS]),
        (layers.NextAndPrevious, (), [HIDDEN]),
        (layers.PairAttention, (), [HIDDEN, HIDDEN, ROWS]),
        (layers.SplitPair, (), [ROWS, ROWS, ROWS]),
    ],
)
def test_promises_of_all_layers(kind, arguments, inputs):
    promises.test_configs_and_declared_outputs(kind, arguments, inputs)


def padded(values, length):
    return [*values, *[0] * (length - len(values))]


def test_the_parts_of_a_pair(batch):
    outputs = layers.SplitPair()(*batch.values())
    ids, mask, other_ids, other_mask = [to_numpy(output) for output in outputs]
    for row, tokens in enumerate(batch["token_ids"]):
        is_real = batch["padding_mask"][row] == 1
        segments = batch["segment_ids"][row]
        first = tokens[is_real & (segments == 0)]
        second = tokens[is_real & (segments == 1)]
        assert ids[row].tolist() == padded(first, 12)
        assert mask[row].tolist() == padded(np.ones_like(first), 12)
        assert other_ids[row].tolist() == padded(second, 12)
        assert other_mask[row].tolist() == padded(np.ones_like(second), 12)


def test_logits_move_back_to_the_second_part(batch):
    """[CLS] has a learned logit; other positions have the probability 0."""
    layer = layers.JoinLogits()
    logits = np.arange(36, dtype="float32").reshape(3, 12) + 1
    layer.build(logits.shape)
    layer.set_weights([np.array([0.5])])
    joined = to_numpy(layer(logits, batch["segment_ids"], batch["padding_mask"]))
    for row, length in enumerate(batch["padding_mask"].sum(1)):
        probabilities = scipy.special.softmax(joined[row])
        assert joined[row, 0] == 0.5
        assert joined[row, 4:length].tolist() == logits[row, : max(length - 4, 0)].tolist()
        assert (probabilities[1:4] == 0).all()
        assert (probabilities[length:] == 0).all()


@pytest.fixture
def states():
    """The states of a part of three positions and of another one of five, by two rows; the mask of the other one.

    The other part of the second row is empty.
    """
    rng = np.random.default_rng(0)
    own = rng.normal(size=(2, 3, 4)).astype("float32")
    others = rng.normal(size=(2, 5, 4)).astype("float32")
    return own, others, np.array([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]])


def test_attention_between_parts(states):
    own, others, mask = states
    attended = to_numpy(layers.PairAttention()(own, others, mask))
    weights = scipy.special.softmax(own[0] @ others[0, :3].T, axis=-1)
    np.testing.assert_allclose(attended[0], weights @ others[0, :3], atol=1e-6)
    assert (attended[1] == 0).all()


def test_the_maximum_of_a_part(states):
    _, others, mask = states
    pooled = to_numpy(layers.MaskedMax()(others, mask))
    np.testing.assert_array_equal(pooled, [others[0, :3].max(0), np.zeros(4)])


def similarities(context, question, vector):
    """Returns S of Seo et al., equation 1: the product of a vector with [h; u; h * u] for each pair."""
    rows = []
    for h in context:
        products = [vector @ np.concatenate([h, u, h * u]) for u in question]
        rows.append(products)
    return np.array(rows)


def attention_flow(context, question, vector):
    """Returns G of Seo et al., equations 2 to 4."""
    scores = similarities(context, question, vector)
    attended = scipy.special.softmax(scores, axis=1) @ question
    summary = scipy.special.softmax(scores.max(1)) @ context
    return np.concatenate([context, attended, context * attended, context * summary], axis=1)


def test_attention_flow_equals_its_formula():
    rng = np.random.default_rng(0)
    layer = layers.AttentionFlow()
    context = rng.normal(size=(2, 5, 4)).astype("float32")
    question = rng.normal(size=(2, 3, 4)).astype("float32")
    context_mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    question_mask = np.array([[1, 1, 1], [1, 1, 0]])
    layer.build(context.shape)
    layer.set_weights([rng.normal(size=(3, 4))])
    vector = layer.get_weights()[0].ravel()
    outputs = to_numpy(layer(context, question, context_mask, question_mask))
    whole = attention_flow(context[0], question[0], vector)
    np.testing.assert_allclose(outputs[0], whole, atol=1e-5)
    without_padding = attention_flow(context[1, :3], question[1, :2], vector)
    np.testing.assert_allclose(outputs[1, :3], without_padding, atol=1e-5)
    assert np.isfinite(outputs).all()


def test_a_highway_layer():
    layer = layers.Highway(3)
    inputs = np.array([[1.0, -2.0, 3.0]], "float32")
    layer.build((None, 3))
    layer.set_weights([np.eye(3), np.zeros(3), np.zeros((3, 3)), np.log([1.0, 1.0, 3.0])])
    # The gates are 1/2, 1/2 and 3/4; ReLU removes the negative number.
    np.testing.assert_allclose(to_numpy(layer(inputs)), [[1, -1, 3]], rtol=1e-6)


def test_states_that_predict_the_next_and_the_previous_token():
    """Left to right without the last one, right to left without the first one."""
    left = np.array([1.0, 2.0, 3.0])
    right = np.array([10.0, 20.0, 30.0])
    states = np.stack([left, right], axis=-1)[None]
    selected = to_numpy(layers.NextAndPrevious()(states))
    assert selected[0, :, 0].tolist() == [1, 2, 20, 30]

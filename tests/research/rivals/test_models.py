"""The models that BERT is compared with: ELMo's language model, GLUE's baseline, BiDAF."""

import keras
import numpy as np
import pytest
import scipy.special

from research.rivals import layers
from research.rivals.models import build_bidaf, build_bilm, build_bilstm_classifier
from tests.conftest import to_numpy
from tests.research.feature_tagging.test_head import lstm


@pytest.fixture(scope="module")
def language_model():
    keras.utils.set_random_seed(3)
    model = build_bilm(50, width=8)
    for weight in model.weights:  # So that differences are large.
        weight.assign(keras.random.normal(weight.shape, stddev=0.5))
    return model


@pytest.fixture(scope="module")
def outputs(language_model, batch):
    """The outputs of the language model for `batch`."""
    return keras.tree.map_structure(to_numpy, language_model(_ids(batch)))


def test_the_language_model_equals_its_formula(language_model, outputs, batch):
    found = {layer.name: layer for layer in language_model.layers}
    table = to_numpy(found["token_embedding"].embeddings)
    bias = to_numpy(found["softmax_bias"].bias)
    for row, length in enumerate(batch["padding_mask"].sum(1)):
        directions = []
        for name, turn in (("forward", slice(None)), ("backward", slice(None, None, -1))):
            states = [table[batch["token_ids"][row, :length]][turn]]
            for index in range(2):
                part = getattr(found[f"lstm_{index}"], name)
                state = lstm(states[-1], *part.get_weights()[:3])
                states.append(states[-1] + state if index else state)
            directions.append([state[turn] for state in states])
        for index, states in enumerate(zip(*directions, strict=True)):
            expected = np.concatenate(states, -1)
            np.testing.assert_allclose(outputs["hidden_states"][index][row, :length], expected, atol=1e-5)
        left = directions[0][-1][:-1] @ table.T + bias
        right = directions[1][-1][1:] @ table.T + bias
        logits = outputs["mlm_logits"][row]
        places = batch["padding_mask"].shape[1] - 1
        np.testing.assert_allclose(logits[: length - 1], left, atol=1e-4)
        np.testing.assert_allclose(logits[places : places + length - 1], right, atol=1e-4)


def _ids(batch):
    return {name: batch[name] for name in ("token_ids", "padding_mask")}


@pytest.mark.parametrize(("classes", "features"), [({"pair": False}, False), ({"pair": True}, False), (None, True)])
def test_padding_changes_nothing(language_model, classes, features):
    """The second text of the last row is empty."""
    sizes = {"embedding_size": 8, "width": 6, "language_model": language_model if features else None}
    model = build_bilstm_classifier(50, 3, **classes, **sizes) if classes else build_bidaf(50, **sizes)
    places = np.arange(5)
    mask = (places < np.array([[5], [4], [2]])).astype("int32")
    ids = np.random.default_rng(0).integers(5, 50, (3, 5)).astype("int32")
    inputs = {"token_ids": ids * mask, "segment_ids": (places >= 2) * mask, "padding_mask": mask}
    rows = model(inputs)
    for row, length in ((1, 4), (2, 2)):
        alone = model({part: value[row : row + 1, :length] for part, value in inputs.items()})
        for output, value in alone.items():
            expected = to_numpy(rows[output])[row]
            expected = expected if classes else expected[:length]
            np.testing.assert_allclose(to_numpy(value)[0], expected, atol=1e-5)
    trained = {weight.path for weight in model.trainable_weights}
    assert not trained & {weight.path for weight in language_model.weights}
    assert any("weighted_sum" in path for path in trained) == features


def test_the_parts_of_a_pair(batch):
    ids, mask, other, other_mask = map(to_numpy, layers.SplitPair()(*batch.values()))
    for row, (tokens, segments, real) in enumerate(zip(*batch.values(), strict=True)):
        for part, (found, found_mask) in enumerate(((ids, mask), (other, other_mask))):
            expected = tokens[(segments == part) & (real == 1)]
            assert found[row].tolist() == [*expected, *[0] * (12 - len(expected))]
            assert found_mask[row].tolist() == [1] * len(expected) + [0] * (12 - len(expected))


def test_logits_move_back_to_the_second_part(batch):
    layer = layers.JoinLogits()
    logits = np.arange(36, dtype="float32").reshape(3, 12) + 1
    found = to_numpy(layer(logits, batch["segment_ids"], batch["padding_mask"]))
    layer.set_weights([np.array([0.5])])
    found = to_numpy(layer(logits, batch["segment_ids"], batch["padding_mask"]))
    for row, length in enumerate(batch["padding_mask"].sum(1)):
        probabilities = scipy.special.softmax(found[row])
        assert found[row, 0] == 0.5
        assert found[row, 4:length].tolist() == logits[row, : max(length - 4, 0)].tolist()
        assert (probabilities[1:4] == 0).all()
        assert (probabilities[length:] == 0).all()


def test_attention_between_parts():
    rng = np.random.default_rng(0)
    states, others = rng.normal(size=(2, 3, 4)).astype("float32"), rng.normal(size=(2, 5, 4)).astype("float32")
    mask = np.array([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]])
    found = to_numpy(layers.PairAttention()(states, others, mask))
    weights = scipy.special.softmax(states[0] @ others[0, :3].T, axis=-1)
    np.testing.assert_allclose(found[0], weights @ others[0, :3], atol=1e-6)
    assert (found[1] == 0).all()
    pooled = to_numpy(layers.MaskedMax()(others, mask))
    np.testing.assert_array_equal(pooled, [others[0, :3].max(0), np.zeros(4)])


def test_attention_flow_equals_its_formula():
    rng = np.random.default_rng(0)
    layer = layers.AttentionFlow()
    context, question = (rng.normal(size=(2, length, 4)).astype("float32") for length in (5, 3))
    masks = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]), np.array([[1, 1, 1], [1, 1, 0]])
    layer.build(context.shape)
    layer.set_weights([rng.normal(size=(3, 4))])
    found = to_numpy(layer(context, question, *masks))
    vector = layer.get_weights()[0].ravel()
    for row, (length, asked) in enumerate(zip(masks[0].sum(1), masks[1].sum(1), strict=True)):
        h, u = context[row, :length], question[row, :asked]
        # Seo et al., equations 1 to 4.
        s = np.array([[vector @ np.concatenate([one, other, one * other]) for other in u] for one in h])
        attended = scipy.special.softmax(s, axis=1) @ u
        summary = scipy.special.softmax(s.max(1)) @ h
        expected = np.concatenate([h, attended, h * attended, h * summary], axis=1)
        np.testing.assert_allclose(found[row, :length], expected, atol=1e-5)
    assert np.isfinite(found).all()


def test_a_highway_layer():
    layer = layers.Highway(3)
    inputs = np.array([[1.0, -2.0, 3.0]], "float32")
    layer.build((None, 3))
    layer.set_weights([np.eye(3), np.zeros(3), np.zeros((3, 3)), np.log([1.0, 1.0, 3.0])])
    # The gates are 1/2, 1/2 and 3/4; ReLU removes the negative number.
    np.testing.assert_allclose(to_numpy(layer(inputs)), [[1, -1, 3]], rtol=1e-6)

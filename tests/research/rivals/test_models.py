"""The models that BERT is compared with: ELMo's language model, GLUE's baseline, BiDAF."""

import keras
import numpy as np
import pytest

from research.rivals.models import build_bidaf, build_bilm, build_bilstm_classifier
from tests.conftest import to_numpy
from tests.research.formulas import lstm


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
    inputs = {name: batch[name] for name in ("token_ids", "padding_mask")}
    return keras.tree.map_structure(to_numpy, language_model(inputs))


def states_of(model, direction, vectors):
    """Returns the states of a direction from the embeddings to the last layer, for a row without padding."""
    states = [vectors]
    for index in range(2):
        layer = getattr(model.get_layer(f"lstm_{index}"), direction)
        state = lstm(states[-1], *layer.get_weights()[:3])
        if index:
            state = states[-1] + state
        states.append(state)
    return states


@pytest.mark.parametrize("row", [0, 1, 2])
def test_the_language_model_equals_its_formula(language_model, outputs, batch, row):
    length = batch["padding_mask"][row].sum()
    table = to_numpy(language_model.get_layer("token_embedding").embeddings)
    bias = to_numpy(language_model.get_layer("softmax_bias").bias)
    vectors = table[batch["token_ids"][row, :length]]
    forward = states_of(language_model, "forward", vectors)
    backward = states_of(language_model, "backward", vectors[::-1])
    for index, (left, right) in enumerate(zip(forward, backward, strict=True)):
        expected = np.concatenate([left, right[::-1]], -1)
        found = outputs["hidden_states"][index][row, :length]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    # The next tokens, then the previous ones.
    logits = outputs["mlm_logits"][row]
    places = batch["padding_mask"].shape[1] - 1
    next_tokens = forward[-1][:-1] @ table.T + bias
    previous = backward[-1][::-1][1:] @ table.T + bias
    np.testing.assert_allclose(logits[: length - 1], next_tokens, atol=1e-4)
    np.testing.assert_allclose(logits[places : places + length - 1], previous, atol=1e-4)


@pytest.fixture(scope="module")
def padded():
    """Rows of lengths 5, 4 and 2; the second text of the last one is empty."""
    places = np.arange(5)
    mask = (places < np.array([[5], [4], [2]])).astype("int32")
    ids = np.random.default_rng(0).integers(5, 50, (3, 5)).astype("int32")
    return {
        "token_ids": ids * mask,
        "segment_ids": (places >= 2) * mask,
        "padding_mask": mask,
    }


def row_alone(inputs, row):
    """Returns the inputs of a row without padding."""
    length = inputs["padding_mask"][row].sum()
    return {name: value[row : row + 1, :length] for name, value in inputs.items()}


@pytest.mark.parametrize("pair", [False, True])
def test_padding_changes_nothing_in_a_bilstm(padded, pair):
    model = build_bilstm_classifier(50, 3, pair=pair, embedding_size=8, width=6)
    logits = to_numpy(model(padded)["logits"])
    for row in (1, 2):
        alone = to_numpy(model(row_alone(padded, row))["logits"])
        np.testing.assert_allclose(alone[0], logits[row], atol=1e-5)


def test_padding_changes_nothing_in_bidaf(language_model, padded):
    model = build_bidaf(50, embedding_size=8, width=6, language_model=language_model)
    outputs = model(padded)
    for row, length in ((1, 4), (2, 2)):
        for name, value in model(row_alone(padded, row)).items():
            expected = to_numpy(outputs[name])[row, :length]
            np.testing.assert_allclose(to_numpy(value)[0], expected, atol=1e-5)


def test_a_language_model_below_is_not_trained(language_model):
    model = build_bidaf(50, embedding_size=8, width=6, language_model=language_model)
    trained = {weight.path for weight in model.trainable_weights}
    assert trained.isdisjoint(weight.path for weight in language_model.weights)
    assert any("weighted_sum" in path for path in trained)

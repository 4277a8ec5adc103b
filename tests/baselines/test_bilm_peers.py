"""ELMo's language model beside PyTorch's LSTMs with the same weights."""

import keras
import numpy as np
import pytest

from keras_bert.baselines.bilm import build_bilm
from tests.conftest import to_numpy

torch = pytest.importorskip("torch", reason="a peer, see `make peers`")


def twin(lstm):
    """Returns `torch.nn.LSTM` with the weights of a Keras LSTM, which has the same order of gates."""
    width = lstm.units
    found = torch.nn.LSTM(lstm.cell.kernel.shape[0], width, batch_first=True)
    kernel, recurrent, bias = (torch.tensor(to_numpy(weight)) for weight in lstm.weights[:3])
    values = {"weight_ih_l0": kernel.T, "weight_hh_l0": recurrent.T, "bias_ih_l0": bias, "bias_hh_l0": 0 * bias}
    with torch.no_grad():
        for name, value in values.items():
            getattr(found, name).copy_(value)
    return found


def test_the_language_model_equals_two_stacks_of_lstms(batch):
    model = build_bilm(50, width=16)
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.3))
    found = model({name: batch[name] for name in ("token_ids", "padding_mask")})
    layers = {layer.name: layer for layer in model.layers}
    table = torch.tensor(to_numpy(layers["token_embedding"].embeddings))
    bias = torch.tensor(to_numpy(layers["softmax_bias"].bias))
    for row, length in enumerate(batch["padding_mask"].sum(1)):
        states = {}
        for name in ("forward", "backward"):
            state = table[torch.tensor(batch["token_ids"][row, :length])][None]
            state = state.flip(1) if name == "backward" else state
            stack = [state]
            for index in range(2):
                with torch.inference_mode():
                    output = twin(getattr(layers[f"lstm_{index}"], name))(stack[-1])[0]
                stack.append(stack[-1] + output if index else output)
            states[name] = [state.flip(1) if name == "backward" else state for state in stack]
        for index, pair in enumerate(zip(*states.values(), strict=True)):
            expected = torch.cat(pair, -1)[0].numpy()
            np.testing.assert_allclose(to_numpy(found["hidden_states"][index])[row, :length], expected, atol=1e-5)
        logits, places = to_numpy(found["mlm_logits"])[row], batch["padding_mask"].shape[1] - 1
        left, right = (states[name][-1][0] @ table.T + bias for name in ("forward", "backward"))
        np.testing.assert_allclose(logits[: length - 1], left[:-1].numpy(), rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(logits[places : places + length - 1], right[1:].numpy(), rtol=1e-5, atol=1e-4)

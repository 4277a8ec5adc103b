"""Models converted to ONNX and LiteRT, run by ONNX Runtime and the LiteRT interpreter."""

import dataclasses

import numpy as np
import pytest

import keras_bert
from tests.conftest import HEADS, to_numpy

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.slow,
    # Converters and Keras raise deprecation warnings about their own calls.
    pytest.mark.filterwarnings("ignore"),
]

SHAPES = [(1, 1), (3, 17), (4, 40)]


def batch_of(head, rows, length):
    rng = np.random.default_rng(rows * length)
    batch = {
        "token_ids": rng.integers(5, 50, (rows, length)),
        "segment_ids": rng.integers(0, 2, (rows, length)),
        "padding_mask": np.arange(length) < rng.integers(1, length + 1, (rows, 1)),
    }
    if head == "multiple_choice":
        batch = {name: np.stack([value, value[::-1]], 1) for name, value in batch.items()}
        batch["padding_mask"][-1, 0] = 0  # An absent choice.
    if head == "pretraining":
        batch["mask_positions"] = rng.integers(0, length, (rows, 2))
    return {name: value.astype("int32") for name, value in batch.items()}


def onnx_runner(model, path):
    pytest.importorskip("tf2onnx", reason="pip install -r requirements-convert.txt")
    runtime = pytest.importorskip("onnxruntime", reason="pip install -r requirements-convert.txt")
    model.export(path / "model.onnx", format="onnx", verbose=False)
    session = runtime.InferenceSession(path / "model.onnx")
    names = {value.name for value in session.get_inputs()}
    assert names == set(model.input)
    # The Keras export loses the output names; outputs are in the order of a sorted dict.
    return lambda batch: dict(zip(sorted(model.output), session.run(None, batch), strict=True))


def litert_runner(model, path):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="pip install -r requirements-convert.txt")
    model.export(path / "model.tflite", format="litert", verbose=False)
    # This interpreter has no Flex delegate, so TensorFlow operations would not run.
    signature = interpreter.Interpreter(str(path / "model.tflite")).get_signature_runner()
    return lambda batch: signature(**batch)


@pytest.mark.parametrize("runner", [onnx_runner, litert_runner])
@pytest.mark.parametrize(
    ("head", "hidden_act", "options"),
    [
        ("pretraining", "gelu", {}),
        ("question_answering", "gelu", {}),
        ("multiple_choice", "gelu", {}),
        ("classification", "gelu_new", {"causal": True, "positions": "sinusoid"}),
        ("token_classification", "silu", {"positions": "none"}),
    ],
)
def test_converted_models_compute_the_same(config, tmp_path, runner, head, hidden_act, options):
    encoder = keras_bert.build_encoder(dataclasses.replace(config, hidden_act=hidden_act), **options)
    model = HEADS[head].build(encoder)
    model(batch_of(head, 1, 2))
    run = runner(model, tmp_path)
    for rows, length in SHAPES:
        batch = batch_of(head, rows, length)
        outputs, expected = run(batch), model(batch)
        assert set(outputs) == set(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], to_numpy(value), atol=1e-5, err_msg=f"{name} {rows} {length}")

"""Keras' own export of models to ONNX and LiteRT; `export_onnx` and `export_litert` have tests of their own."""

import numpy as np
import pytest

from tests.conftest import to_numpy
from tests.exporting.token_ids import batch_of

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.slow,
    # Converters and Keras raise deprecation warnings about their own calls.
    pytest.mark.filterwarnings("ignore"),
]


def onnx_runner(model, path):
    pytest.importorskip("tf2onnx", reason="`make convert` installs tf2onnx")
    runtime = pytest.importorskip("onnxruntime", reason="`make convert` installs onnxruntime")
    model.export(path / "model.onnx", format="onnx", verbose=False)
    session = runtime.InferenceSession(path / "model.onnx")
    # The Keras export loses the output names; outputs are in the order of a sorted dict.
    return lambda batch: dict(zip(sorted(model.output), session.run(None, batch), strict=True))


def litert_runner(model, path):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="`make convert` installs ai-edge-litert")
    model.export(path / "model.tflite", format="litert", verbose=False)
    # This interpreter has no Flex delegate, so TensorFlow operations would not run.
    signature = interpreter.Interpreter(str(path / "model.tflite")).get_signature_runner()
    return lambda batch: signature(**batch)


@pytest.mark.parametrize("runner", [onnx_runner, litert_runner])
@pytest.mark.parametrize("head", ["pretraining", "multiple_choice"])
def test_converted_models_compute_the_same(build, tmp_path, runner, head):
    model = build(head)
    model(batch_of(head, 1, 2))
    run = runner(model, tmp_path)
    for shape in [(1, 1), (3, 17)]:
        batch = batch_of(head, *shape)
        outputs, expected = run(batch), model(batch)
        assert set(outputs) == set(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], to_numpy(value), atol=1e-5, err_msg=f"{name} {shape}")

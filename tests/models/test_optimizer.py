"""The optimizer on every backend: against NumPy, and in `model.fit`. Eight devices are in test_fit_trainer.py."""

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import to_numpy
from tests.training.numpy_optimizer import numpy_steps


@pytest.mark.parametrize("kind", ["AdamW", "LAMB"])
def test_updates_equal_numpy(kind):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(4, 6))
    gradients = rng.normal(size=(5, 4, 6))
    variables = [keras.Variable(start.astype("float32"), name=name) for name in ("plain", "query_key_value", "bias")]
    options = {"fused": ["query_key_value"]} if kind == "LAMB" else {"rates": {"query_key_value": 0.25}}
    optimizer = getattr(keras_bert, kind)(0.01, weight_decay=0.1, epsilon=1e-8, undecayed=["bias"], **options)
    for gradient in gradients.astype("float32"):
        optimizer.apply([keras.ops.convert_to_tensor(gradient)] * 3, variables)
    second = {"parts": 3} if kind == "LAMB" else {"learning_rate": 0.0025}
    cases = {"kind": kind}, {"kind": kind, **second}, {"weight_decay": 0.0}
    for variable, case in zip(variables, cases, strict=True):
        case = {"learning_rate": 0.01, "weight_decay": 0.1, "epsilon": 1e-8, **case}
        np.testing.assert_allclose(to_numpy(variable), numpy_steps(start, gradients, **case), atol=2e-6)


def test_clipping_and_schedule(build, batch):
    """Two steps of `fit` are two updates with the clipped gradient, at the rates of the schedule: first 0, then 0.1."""
    model = build("regression")
    kernel = model.get_layer("classifier").kernel
    before = to_numpy(kernel)
    optimizer = keras_bert.create_optimizer(
        model, 0.1, total_steps=10, warmup_steps=1, weight_decay=0.0, global_clipnorm=1e-3
    )
    eager = keras.backend.backend() == "tensorflow"
    model.compile(optimizer, "mse", run_eagerly=eager, jit_compile=False if eager else "auto")
    for _ in range(2):
        np.testing.assert_array_equal(to_numpy(kernel), before)
        model.fit(batch, {"logits": np.ones((3, 1), "float32")}, batch_size=3, epochs=1, verbose=0)
    # Adam's steps are as long as the rate, 0.1 * (1 - 1 / 10), whatever the norm of the gradient.
    moved = np.abs(to_numpy(kernel) - before)
    assert 0.05 < np.median(moved) <= moved.max() < 0.095

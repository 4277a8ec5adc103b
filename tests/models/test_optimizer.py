"""The optimizer on every backend: against NumPy, and in `model.fit`. Eight devices are in test_fit_trainer.py."""

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import to_numpy
from tests.training.numpy_optimizer import numpy_steps

# What makes the weight `query_key_value` another one, for the optimizer and for its formulas.
OPTIONS = {
    "AdamW": ({"rates": {"query_key_value": 0.25}}, {"learning_rate": 0.0025}),
    "LAMB": ({"fused": ["query_key_value"]}, {"parts": 3}),
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_updates_equal_numpy(kind):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(4, 6))
    gradients = rng.normal(size=(5, 4, 6))
    options, of_formula = OPTIONS[kind]
    cases = {"plain": {"kind": kind}, "query_key_value": {"kind": kind} | of_formula, "bias": {"weight_decay": 0.0}}
    variables = [keras.Variable(start.astype("float32"), name=name) for name in cases]
    make_optimizer = getattr(keras_bert, kind)
    optimizer = make_optimizer(0.01, weight_decay=0.1, epsilon=1e-8, undecayed=["bias"], **options)
    for gradient in gradients.astype("float32"):
        optimizer.apply([keras.ops.convert_to_tensor(gradient)] * 3, variables)
    for variable in variables:
        settings = {"learning_rate": 0.01, "weight_decay": 0.1, "epsilon": 1e-8} | cases[variable.name]
        expected = numpy_steps(start, gradients, **settings)
        np.testing.assert_allclose(to_numpy(variable), expected, atol=2e-6, err_msg=variable.name)


def test_clipping_and_schedule(build, batch):
    """Two steps of `fit` are two updates with the clipped gradient, at the rates of the schedule: first 0, then 0.1."""
    model = build("regression")
    kernel = model.get_layer("classifier").kernel
    before = to_numpy(kernel)
    optimizer = keras_bert.create_optimizer(
        model, 0.1, total_steps=10, warmup_steps=1, weight_decay=0.0, global_clipnorm=1e-3
    )
    options = {"jit_compile": "auto"}
    if keras.backend.backend() == "tensorflow":
        options = {"jit_compile": False, "run_eagerly": True}
    model.compile(optimizer, "mse", **options)
    for _ in range(2):
        np.testing.assert_array_equal(to_numpy(kernel), before)
        model.fit(batch, {"logits": np.ones((3, 1), "float32")}, batch_size=3, epochs=1, verbose=0)
    # Adam's steps are as long as the rate, 0.1 * (1 - 1 / 10), whatever the norm of the gradient.
    moved = np.abs(to_numpy(kernel) - before)
    assert 0.05 < np.median(moved) <= moved.max() < 0.095

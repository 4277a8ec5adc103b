"""The optimizer on every backend: against NumPy, and in `model.fit` on one device and on eight."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import to_numpy
from tests.training.numpy_optimizer import numpy_steps


@pytest.mark.parametrize("kind", ["AdamW", "LAMB"])
def test_updates_equal_numpy(kind):
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(4, 6)), rng.normal(size=(5, 4, 6))
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


DEVICES = """
import os, sys
import keras, numpy as np
import keras_bert

config = keras_bert.BertConfig(50, 32, 2, 4, 64, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
rng = np.random.default_rng(0)
inputs = {name: rng.integers(1, 2, (16, 8)) for name in ("token_ids", "segment_ids", "padding_mask")}
inputs["token_ids"], inputs["mask_positions"] = rng.integers(5, 50, (16, 8)), rng.integers(1, 8, (16, 3))
targets = {"mlm_logits": rng.integers(5, 50, (16, 3)), "nsp_logits": rng.integers(0, 2, 16)}
weights = {"mlm_logits": rng.integers(0, 2, (16, 3)).astype("float32"), "nsp_logits": np.ones(16, "float32")}
found = []
for count in (1, 8):
    devices = keras.distribution.list_devices()[:count]
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
    keras.utils.set_random_seed(1)
    model = keras_bert.build_pretrainer(keras_bert.build_encoder(config))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    optimizer = keras_bert.create_optimizer(model, 1e-3, total_steps=8, warmup_steps=2)
    model.compile(optimizer, dict.fromkeys(targets, loss))
    model.fit(inputs, targets, sample_weight=weights, batch_size=16, epochs=4, shuffle=False, verbose=0)
    found.append([keras.ops.convert_to_numpy(weight) for weight in model.weights])
assert len(devices) == 8
print(max(np.abs(one - other).max() for one, other in zip(*found)))
"""


@pytest.mark.skipif(keras.config.backend() != "jax", reason="needs JAX, this is another backend")
def test_eight_devices_equal_one():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    run = subprocess.run([sys.executable, "-c", DEVICES], capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 1e-5

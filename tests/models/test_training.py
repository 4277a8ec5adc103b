"""Training on TensorFlow: two replicas, recomputation."""

import pathlib
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest

from tests.conftest import HEADS, to_numpy

pytestmark = pytest.mark.tensorflow


TRAINED = [head for head in HEADS if head not in ("encoder", "embedding", "untied", "multi_label")]


@pytest.mark.parametrize(
    "head", [head if head == "regression" else pytest.param(head, marks=pytest.mark.slow) for head in TRAINED]
)
def test_fit_under_mirrored_strategy(mirrored, build, task, head):
    import tensorflow as tf

    inputs, targets, losses = task(head, copies=2)
    with mirrored.scope():
        model = build(head)
        model.compile(keras.optimizers.Adam(3e-3), losses)
    dataset = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(6)
    history = model.fit(dataset, epochs=8, shuffle=False, verbose=0).history["loss"]
    assert mirrored.num_replicas_in_sync == 2
    assert history[-1] < history[0]


def gradients(model, inputs, jit):
    import tensorflow as tf

    @tf.function(jit_compile=jit)
    def step():
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            loss = tf.reduce_mean(tf.square(tf.cast(outputs["sequence_output"], "float32") - 0.5))
            loss += tf.reduce_mean(outputs["pooled_output"])
        return loss, [tf.convert_to_tensor(value) for value in tape.gradient(loss, model.trainable_variables)]

    return step()


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_recomputation_keeps_the_gradients_with_dropout(build, batch, jit):
    results = []
    for remat in (False, True):
        keras.utils.set_random_seed(5)
        model = build("encoder", remat=remat)
        model(batch)
        results.append(gradients(model, batch, jit))
    (loss, expected), (remat_loss, got) = results
    np.testing.assert_allclose(remat_loss, loss, rtol=1e-6)
    for variable, left, right in zip(model.trainable_variables, got, expected, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5 * max(1.0, np.abs(right).max()), err_msg=variable.path)
    # With dropout, that is.
    first, second = (to_numpy(model(batch, training=True)["sequence_output"]) for _ in range(2))
    assert np.abs(first - second).max() > 0.01


MEMORY = r"""
    import re, sys
    import tensorflow as tf, keras_bert
    remat = sys.argv[1] == "True"

    def peak():  # in KB; getrusage would tell the parent's if that is larger
        return int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read()).group(1))

    config = keras_bert.BertConfig(vocab_size=100, hidden_size=256, num_hidden_layers=12, num_attention_heads=4,
                                   intermediate_size=1024)
    encoder = keras_bert.build_encoder(config, remat=remat)
    inputs = {name: tf.ones((16, 256), "int32") for name in encoder.input}

    @tf.function
    def step(inputs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder(inputs, training=True)["pooled_output"])
        return tape.gradient(loss, encoder.trainable_variables)

    step({name: value[:1] for name, value in inputs.items()})  # tracing aside
    before = peak()
    step(inputs)
    print((peak() - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="reads the peak memory from Linux' /proc")
def test_recomputation_saves_memory():
    def peak(remat):
        command = [sys.executable, "-c", textwrap.dedent(MEMORY), str(remat)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    kept, recomputed = peak(False), peak(True)
    print(f"peak of a step over its start: {kept} MB kept, {recomputed} MB with remat")  # noqa: T201
    assert recomputed < 0.6 * kept

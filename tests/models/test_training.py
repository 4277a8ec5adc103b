"""Training on TensorFlow: two replicas, memory use of rematerialization."""

import pathlib
import subprocess
import sys

import keras
import pytest

pytestmark = pytest.mark.tensorflow


def test_fit_under_mirrored_strategy(mirrored, build, task):
    import tensorflow as tf

    inputs, targets, losses = task("regression", copies=2)
    with mirrored.scope():
        model = build("regression")
        model.compile(keras.optimizers.SGD(0.01), losses, jit_compile=False)
        model.optimizer.build(model.trainable_variables)
    dataset = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(6)
    history = model.fit(dataset, epochs=2, shuffle=False, verbose=0).history["loss"]
    assert mirrored.num_replicas_in_sync == 2
    assert history[-1] < history[0]


MEMORY = r"""
import re
import tensorflow as tf, keras_bert

def peak():  # in kB; getrusage would report the parent's if that is larger
    return int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read()).group(1))

def step(encoder, rows):
    inputs = {name: tf.ones((rows, 256), "int32") for name in encoder.input}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder(inputs, training=True)["pooled_output"])
    return tape.gradient(loss, encoder.trainable_variables)

config = keras_bert.BertConfig(vocab_size=100, hidden_size=256, num_hidden_layers=5, num_attention_heads=4,
                               intermediate_size=1024)
steps = []
for remat in (True, False):
    encoder = keras_bert.build_encoder(config, remat=remat)
    steps.append(tf.function(lambda rows, encoder=encoder: step(encoder, rows), autograph=False))
    steps[-1](tf.constant(1))  # Trace first.
before = peak()
for step in steps:
    step(tf.constant(8))
    print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="reads the peak memory from Linux' /proc")
def test_remat_saves_memory():
    output = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True).stdout
    recomputed, kept = map(int, output.split())
    assert recomputed < 0.6 * kept

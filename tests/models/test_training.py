"""Memory use of rematerialization."""

import pathlib
import subprocess
import sys

import pytest

MEMORY = r"""
import re
import tensorflow as tf, keras_bert

def peak():  # in kB; getrusage would report the parent's if that is larger
    return int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read()).group(1))

@tf.function(autograph=False)
def step(rows):
    inputs = {name: tf.ones((rows, 512), "int32") for name in encoder.input}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder(inputs, training=True)["pooled_output"])
    return tape.gradient(loss, encoder.trainable_variables)

encoder = keras_bert.build_encoder(keras_bert.BertConfig(20, 16, 4, 4, 32), remat=True)
step(tf.constant(1))  # Trace first.
before = peak()
step(tf.constant(8))
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="reads the peak memory from Linux' /proc")
def test_remat_saves_memory():
    output = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True).stdout
    # Otherwise, each block keeps the probabilities of attention before and after dropout.
    kept = 4 * 2 * (8 * 4 * 512 * 512 * 4) / 1024
    assert int(output) < kept

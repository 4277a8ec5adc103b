"""One model after another in one process."""

import gc

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from keras_bert.training.release import releasing_graphs

pytestmark = pytest.mark.tensorflow


def graphs():
    gc.collect()
    return {id(thing) for thing in gc.get_objects() if isinstance(thing, FuncGraph)}


def differentiate(build):
    model = build("classification")
    ids = np.ones([2, 5], "int32")

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids}
            loss = tf.reduce_sum(model(inputs, training=True)["logits"])
        return tape.gradient(loss, model.trainable_variables[0].value)

    step()


def test_nothing_stays(build):
    before = graphs()
    with releasing_graphs():
        differentiate(build)
    assert not graphs() - before


def test_without_it_graphs_stay(build):
    """If this fails TensorFlow frees them by itself, and `releasing_graphs` can go."""
    before = graphs()
    differentiate(build)
    assert graphs() - before

"""Losses of all rows together are equal for any number of replicas and micro-batches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.training.contrastive import in_batch_loss
from keras_bert.training.step import StepOptions, TrainStep
from tests.training.small_towers import assert_same, train


@pytest.mark.usefixtures("eager")
def test_replicas_and_micro_batches_change_nothing(tmp_path, mirrored):
    alone = train(tmp_path / "alone")
    assert len(alone[0]) == 2
    assert min(loss for loss, _ in alone[0]) > 0
    assert_same(train(tmp_path / "two", strategy=mirrored, micro_batches=2), alone)


def test_a_gradient_cache_keeps_dropout():
    """Both computations of a micro-batch have the same dropout: the gradient is the finite difference of the loss."""
    keras.utils.set_random_seed(2)
    queries, passages = keras.Input((4,), name="query"), keras.Input((2, 4), name="passage")
    drop, dense = keras_bert.layers.Dropout(0.5), keras.layers.Dense(6, use_bias=False)
    outputs = {"query_embedding": drop(dense(queries)), "passage_embedding": drop(dense(passages))}
    model, optimizer = keras.Model({"query": queries, "passage": passages}, outputs), keras_bert.AdamW(0.0)
    optimizer.build(model.trainable_variables)
    step = TrainStep(model, optimizer, [in_batch_loss(1.0)], StepOptions(micro_batches=3, seed=1))
    rng = np.random.default_rng(2)
    inputs = {"query": rng.normal(size=(6, 4)), "passage": rng.normal(size=(6, 2, 4))}
    targets = {"query_ids": tf.range(6), "passage_ids": tf.reshape(tf.range(12), (6, 2))}
    inputs = {name: tf.constant(value, tf.float32) for name, value in inputs.items()}
    batch = inputs, targets, tf.ones(6), tf.constant([6.0]), tf.constant(0), tf.constant(0.0)
    run = tf.function(lambda: step(*batch), autograph=False)
    _, _, norm, _ = run().numpy()
    kernel, differences = model.trainable_variables[0], []
    start = kernel.numpy()
    for index in np.ndindex(start.shape):
        losses = []
        for change in (1e-2, -1e-2):
            moved = start.copy()
            moved[index] += change
            kernel.assign(moved)
            losses.append(run().numpy()[1])
        differences.append((losses[0] - losses[1]) / 2e-2)
    assert np.linalg.norm(differences) == pytest.approx(norm, rel=1e-3)


def test_xla_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a loss of all rows together. Received: 'loss'"):
        train(tmp_path, jit_compile=True)

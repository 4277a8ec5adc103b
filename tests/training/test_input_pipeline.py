"""Batches for replicas; streams and phases."""

import math

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.training.input_pipeline import Phases, Stream, replica_dataset
from keras_bert.training.losses import Loss
from tests.training.small_run import linear


def test_each_row_goes_to_one_replica(mirrored):
    numbers = tf.data.Dataset.range(5).map(lambda x: (x, x)).batch(5)
    loss = Loss("count", None, None)
    dataset = replica_dataset(mirrored, Stream(numbers).dataset, [loss], micro_batches=2)
    ((inputs, _, weights, totals),) = dataset
    found = [part.numpy().tolist() for part in mirrored.experimental_local_results(inputs)]
    real = [part.numpy().tolist() for part in mirrored.experimental_local_results(weights)]
    assert found == [[0, 1, 2, 3], [4, 4, 4, 4]]
    assert real == [[1, 1, 1, 1], [1, 0, 0, 0]]
    assert [part.numpy().tolist() for part in mirrored.experimental_local_results(totals)] == [[5], [5]]
    batches = keras_bert.data.Batches(tf.ragged.constant([[1]] * 4), batch_size=2)
    alone = replica_dataset(tf.distribute.get_strategy(), batches.dataset)
    assert alone.element_spec[2].shape == (2,)  # Static shapes, as TPUs and XLA need.


def test_unsupported_batches():
    run, x = linear(), np.ones((7, 3), "float32")
    inputs = tf.data.Dataset.from_tensor_slices({"x": x}).batch(3)
    with pytest.raises(ValueError, match="the weights of a batch must have one value per row"):
        run.evaluate(tf.data.Dataset.from_tensors(({"x": x}, x[:, 0], x[:, :2])))
    with pytest.raises(ValueError, match="`targets` are required by the loss. Received: batches without targets"):
        run.fit(inputs)
    with pytest.raises(ValueError, match=r"is infinite. Expected `Stream\(dataset, steps\)`. Received: <_Repeat"):
        run.predict(inputs.repeat())
    message = "must be a `Batches`, a `Stream`, `Phases`, another `BatchSource` or a `tf.data.Dataset`. Received: dict"
    with pytest.raises(ValueError, match=message):
        run.predict({"x": x})


def test_streams():
    """Epochs of 3 batches, each in a different order; a resumed run reads the batches not yet seen."""
    dataset = tf.data.Dataset.range(6).batch(2)

    def read(choose):
        batches = choose(Stream(dataset.shuffle(3, seed=1)))
        return [inputs.numpy().tolist() for inputs, *_ in batches.take(9)]

    seen = read(lambda stream: stream.segment(0).make_dataset())
    assert [sorted(seen[start : start + 3]) for start in (0, 3, 6)] == [[[0, 1], [2, 3], [4, 5]]] * 3
    assert seen[:3] != seen[3:6]
    assert read(lambda stream: stream.segment(4).make_dataset())[:5] == seen[4:]
    assert read(lambda stream: stream.dataset(epoch=2, start=1)) == seen[7:]
    assert Stream(dataset).segment(4).steps == math.inf  # One iterator reads every epoch.
    assert Stream(dataset.repeat(), steps=5).steps == 5
    with pytest.raises(ValueError, match="`steps`, the number of batches per epoch, is required"):
        Stream(dataset.filter(lambda x: True))


def test_phases_locate_a_step():
    """3 and 2 steps per epoch."""
    first, second = (keras_bert.data.Batches(tf.ragged.constant([[1]] * rows), batch_size=1) for rows in (3, 2))
    phases = Phases([(first, 4), (second, 1), (first, 3)])
    assert phases.steps == 8

    def place(source, step):
        segment = source.segment(step)
        return segment.source, *segment.make_dataset.args, segment.steps

    assert [place(phases, step) for step in range(8)] == [
        (first, 0, 0, 3),
        (first, 0, 1, 2),
        (first, 0, 2, 1),
        (first, 1, 0, 1),  # The phase ends before the epoch.
        (second, 0, 0, 1),
        (first, 0, 0, 3),
        (first, 0, 1, 2),
        (first, 0, 2, 1),
    ]
    assert place(first, 7) == (first, 2, 1, 2)
    with pytest.raises(ValueError, match="`step` is past the last phase. Received: step=8, steps=8"):
        phases.segment(8)

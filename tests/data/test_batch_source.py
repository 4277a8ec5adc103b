"""Streams and phases."""

import math

import pytest
import tensorflow as tf

import keras_bert
from keras_bert.data.batch_source import Phases, Stream

DATASET = tf.data.Dataset.range(6).batch(2)  # 3 batches.


def read(dataset, count=9):
    """Returns the inputs of some batches, as lists."""
    return [inputs.numpy().tolist() for inputs, *_ in dataset.take(count)]


@pytest.fixture
def stream():
    return Stream(DATASET.shuffle(3, seed=1))


def test_epochs_of_a_stream_have_different_orders(stream):
    seen = read(stream.segment(0).make_dataset())
    for start in (0, 3, 6):
        assert sorted(seen[start : start + 3]) == [[0, 1], [2, 3], [4, 5]]
    assert seen[:3] != seen[3:6]


def test_a_resumed_run_reads_the_batches_not_yet_seen(stream):
    seen = read(Stream(DATASET.shuffle(3, seed=1)).segment(0).make_dataset())
    assert read(stream.segment(4).make_dataset())[:5] == seen[4:]


def test_a_stream_starts_at_any_step(stream):
    seen = read(Stream(DATASET.shuffle(3, seed=1)).segment(0).make_dataset())
    assert read(stream.dataset(epoch=2, start=1)) == seen[7:]


def test_steps_of_a_stream():
    assert Stream(DATASET).segment(4).steps == math.inf  # One iterator reads every epoch.
    assert Stream(DATASET.repeat(), steps=5).steps == 5
    with pytest.raises(ValueError, match="`steps`, the number of batches per epoch, is required"):
        Stream(DATASET.filter(lambda x: True))


def test_phases_locate_a_step():
    """3 and 2 steps per epoch."""
    first = keras_bert.data.Batches(tf.ragged.constant([[1]] * 3), batch_size=1)
    second = keras_bert.data.Batches(tf.ragged.constant([[1]] * 2), batch_size=1)
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

"""Streams and phases."""

import math

import pytest
import tensorflow as tf

import keras_bert
from keras_bert.data.batch_source import Phases, Stream


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

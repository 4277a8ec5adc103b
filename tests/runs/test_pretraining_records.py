"""The records of each phase, and those to evaluate on."""

import types

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.pretraining.record_files import serialize  # noqa: E402
from keras_bert.runs import pretraining_records  # noqa: E402
from keras_bert.runs.pretraining import Objective  # noqa: E402

PHASES = [
    {"length": 16, "steps": 2, "batch": 4},
    {"length": 24, "steps": 1, "batch": 2},
    {"length": 16, "steps": 1, "batch": 8},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pieces):
    """Records of lengths 16 and 24, and their vocabulary."""
    folder = tmp_path_factory.mktemp("records")
    for length in (16, 24):
        features = {
            "input_ids": np.full([8, length], 5),
            "input_mask": np.ones([8, length], int),
            "segment_ids": np.zeros([8, length], int),
            "next_sentence_labels": np.zeros([8, 1], int),
        }
        with tf.io.TFRecordWriter(f"{folder}/{length}.tfrecord") as writer:
            for record in serialize(features):
                writer.write(record)
    (folder / "vocab.txt").write_text("\n".join(pieces))
    return folder


def sources(folder, *lengths):
    return [f"{folder}/{length}.tfrecord" for length in lengths]


def test_each_phase_reads_the_source_of_its_length(folder):
    records = pretraining_records.open_phases(
        PHASES,
        sources(folder, 24, 16),
        Objective(),
        vocabulary=folder / "vocab.txt",
    )
    assert [source.sequence_length for source in records] == [16, 24, 16]
    assert [source.batch_size for source in records] == [4, 2, 8]


@pytest.mark.parametrize("lengths", [(16,), (16, 16), (16, 24, 24)])
def test_there_is_one_source_for_each_length(folder, lengths):
    with pytest.raises(ValueError, match="`data`"):
        pretraining_records.open_phases(
            PHASES,
            sources(folder, *lengths),
            Objective(),
            vocabulary=folder / "vocab.txt",
        )


def test_the_records_to_evaluate_on_have_the_batches_and_the_limit(folder):
    vocabulary = folder / "vocab.txt"
    (source,) = sources(folder, 16)
    (records,) = pretraining_records.open_phases(PHASES[:1], [source], Objective(), vocabulary=vocabulary)
    held_out = pretraining_records.open_eval_data(source, records, Objective(), vocabulary=vocabulary, examples=5)
    assert held_out.batch_size == 4
    assert held_out.num_examples == 5


def test_the_vocabulary_of_the_records_to_evaluate_on_is_that_of_the_others(folder, tmp_path):
    (source,) = sources(folder, 16)
    (records,) = pretraining_records.open_phases(
        PHASES[:1],
        [source],
        Objective(),
        vocabulary=folder / "vocab.txt",
    )
    other = tmp_path / "vocab.txt"
    other.write_text((folder / "vocab.txt").read_text() + "\nmore")
    with pytest.raises(ValueError, match="`eval_data`: the vocabulary"):
        pretraining_records.open_eval_data(source, records, Objective(), vocabulary=other)


def test_an_error_without_a_damaged_record_keeps_its_message(folder):
    error = types.SimpleNamespace(message="the disk is full")
    located = pretraining_records.located(error, sources(folder, 16))
    assert str(located).startswith("the disk is full")

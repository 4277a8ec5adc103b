"""Records beside those of protobuf, read by it and by the reader of Google's program."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.pretraining.generate import generate  # noqa: E402
from keras_bert.pretraining.records import serialize  # noqa: E402
from keras_bert.pretraining.settings import Settings  # noqa: E402
from tests.pretraining import numbered  # noqa: E402

pytestmark = pytest.mark.tensorflow


def by_protobuf(row):
    features = {
        name: tf.train.Feature(float_list=tf.train.FloatList(value=values.tolist()))
        if values.dtype == np.float32
        else tf.train.Feature(int64_list=tf.train.Int64List(value=map(int, values)))
        for name, values in row.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features))


def rows_of(features):
    count = len(next(iter(features.values())))
    return [{name: values[row] for name, values in features.items()} for row in range(count)]


# Where a varint becomes a byte longer, in each of the widths that arrays come in.
EDGES = [0, 1, 127, 128, 129, 255, 256, 2**14 - 1, 2**14, 30_522, 2**16, 2**21 - 1, 2**21, 2**28 - 1, 2**28]
EDGES += [2**31, 2**32 - 1, 2**32, 2**35 - 1, 2**35, 2**42, 2**49, 2**56, 2**63 - 1]


@pytest.mark.parametrize("bits", [7, 8, 14, 16, 21, 28, 29, 32, 33, 63])
def test_integers_of_every_width(bits):
    values = np.array([value for value in EDGES if value < 2**bits])
    for dtype in ("uint8", "uint16", "int32", "uint32", "int64", "uint64"):
        if values.max() > np.iinfo(dtype).max:
            continue
        features = {"x": np.stack([values, values[::-1]]).astype(dtype)}
        for record, row in zip(serialize(features), rows_of(features), strict=True):
            assert tf.train.Example.FromString(record).features.feature["x"].int64_list.value == row["x"].tolist()
            # One name alone: there is only one order of the map.
            assert record == by_protobuf(row).SerializeToString(deterministic=True)


@pytest.mark.parametrize("seed", range(20))
def test_examples_equal_those_of_protobuf(seed):
    rng = np.random.default_rng(seed)
    count, length = (
        rng.integers(0, 6),
        rng.choice([0, 1, 2, 40, 41, 42, 127, 128, 300, 20_000][: 10 if seed < 4 else 9]),
    )
    features = {
        "input_ids": rng.integers(0, [1, 128, 30_522, 2**31][seed % 4], (count, length)),
        "input_mask": rng.random((count, length)) < 0.5,
        "empty": np.zeros((count, 0), np.int32),
        "weights": rng.normal(size=(count, rng.integers(0, 90))).astype(np.float32),
        "no_floats": np.zeros((count, 0), np.float32),
        "Ünï" * rng.integers(1, 40): np.zeros((count, 1), np.uint8),
        "columns": np.asfortranarray(rng.normal(size=(count, 3)).astype(np.float32)),
    }
    records = serialize(features)
    assert len(records) == count
    for record, row in zip(records, rows_of(features), strict=True):
        # Parsed, since protobuf may order the names in another way.
        assert tf.train.Example.FromString(record) == by_protobuf(row)


def test_googles_reader_reads_static_records(tmp_path):
    source = numbered.Numbered(numbered.random_documents(0, documents=5, sentences=9, words=(2, 9)))
    numbered.write(tmp_path / "a.txt", source.text)
    settings = Settings(sequence_length=32, static=True)
    manifest = generate(tmp_path / "a.txt", tmp_path / "data", source.pieces, settings, shards=1)
    length, predictions = 32, 5
    # As `input_fn_builder` of Google's run_pretraining.py has it.
    name_to_features = {
        "input_ids": tf.io.FixedLenFeature([length], tf.int64),
        "input_mask": tf.io.FixedLenFeature([length], tf.int64),
        "segment_ids": tf.io.FixedLenFeature([length], tf.int64),
        "masked_lm_positions": tf.io.FixedLenFeature([predictions], tf.int64),
        "masked_lm_ids": tf.io.FixedLenFeature([predictions], tf.int64),
        "masked_lm_weights": tf.io.FixedLenFeature([predictions], tf.float32),
        "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
    }
    records = numbered.records(tmp_path / "data")
    assert len(records) == manifest["examples"]
    for record in records:
        example = tf.io.parse_single_example(record, name_to_features)
        assert set(tf.train.Example.FromString(record).features.feature) == set(name_to_features)
        count = int(tf.reduce_sum(example["masked_lm_weights"]))
        assert example["masked_lm_weights"].numpy().tolist() == [1] * count + [0] * (predictions - count)
        assert count == max(1, round(0.15 * int(tf.reduce_sum(example["input_mask"]))))

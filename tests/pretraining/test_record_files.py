"""Records, compared with those of protobuf, and read by protobuf."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.pretraining.record_files import serialize


def by_protobuf(row):
    example = tf.train.Example()
    for name, values in row.items():
        feature = example.features.feature[name]
        if values.dtype == np.float32:
            feature.float_list.value.extend(values.tolist())
            feature.float_list.SetInParent()  # A list of no numbers has a type, too.
        else:
            feature.int64_list.value.extend(map(int, values))
            feature.int64_list.SetInParent()
    return example


def row_of(features, number):
    return {name: values[number] for name, values in features.items()}


# Values where a varint becomes one byte longer, for each integer type.
EDGES = [0, 1, 127, 128, 129, 255, 256, 2**14 - 1, 2**14, 30_522, 2**16, 2**21 - 1, 2**21, 2**28 - 1, 2**28]
EDGES += [2**31, 2**32 - 1, 2**32, 2**35 - 1, 2**35, 2**42, 2**49, 2**56, 2**63 - 1]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_of_every_width(dtype):
    for bits in (7, 8, 14, 16, 21, 28, 29, 32, 33, 63):
        values = np.array([value for value in EDGES if value < 2**bits])
        if values.max() > np.iinfo(dtype).max:
            break
        features = {"x": np.stack([values, values[::-1]]).astype(dtype)}
        records = serialize(features)
        assert len(records) == 2
        for number, record in enumerate(records):
            # A single name, so that the order of the map is unique.
            expected = by_protobuf(row_of(features, number))
            assert record == expected.SerializeToString(deterministic=True)


@pytest.mark.parametrize("length", [0, 1, 2, 41, 42, 127, 128, 300, 20_000])
def test_examples_equal_protobuf(length):
    rng = np.random.default_rng(length)
    count = 0 if length == 300 else 3
    features = {
        "input_ids": rng.integers(0, [1, 128, 30_522, 2**31][length % 4], (count, length)),
        "input_mask": rng.random((count, length)) < 0.5,
        "empty": np.zeros((count, 0), np.int32),
        "weights": rng.normal(size=(count, rng.integers(0, 90))).astype(np.float32),
        "no_floats": np.zeros((count, 0), np.float32),
        "Ünï" * rng.integers(1, 40): np.zeros((count, 1), np.uint8),
        "columns": np.asfortranarray(rng.normal(size=(count, 3)).astype(np.float32)),
    }
    records = serialize(features)
    assert len(records) == count
    for number, record in enumerate(records):
        # Parsed, since protobuf may order the names differently.
        assert tf.train.Example.FromString(record) == by_protobuf(row_of(features, number))

"""Records for `model.fit`: the same examples as `Records`, resuming at any epoch, records of other programs."""

import collections

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.pretraining.generate import generate  # noqa: E402
from keras_bert.pretraining.masking import Masking  # noqa: E402
from keras_bert.pretraining.record_dataset import RecordDataset  # noqa: E402
from keras_bert.pretraining.record_files import checksums, parse_example, record_offsets  # noqa: E402
from keras_bert.pretraining.settings import Settings  # noqa: E402
from tests.pretraining import numbered  # noqa: E402
from tests.pretraining.numbered import Numbered, random_documents  # noqa: E402

pytestmark = pytest.mark.tensorflow
LENGTH = 32
SOURCE = Numbered(random_documents(0, documents=8, sentences=(10, 20), words=(2, 9)))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of the same text, with dynamic and with static masks."""
    folder = tmp_path_factory.mktemp("records")
    numbered.write(folder / "a.txt", SOURCE.text)
    for name, static in (("dynamic", False), ("static", True)):
        generate(folder / "a.txt", folder / name, SOURCE.pieces, Settings(LENGTH, static=static), shards=3)
    generate(folder / "a.txt", folder / "packed", SOURCE.pieces, Settings(LENGTH), shards=1, compress=True)
    return folder


def test_examples_are_parsed_as_by_tensorflow():
    example = tf.train.Example()
    example.features.feature["large"].int64_list.value.extend([0, 127, 128, 2**31, 2**62, -1])
    example.features.feature["floats"].float_list.value.extend([0.5, -1e9])
    example.features.feature["none"].int64_list.value.extend([])
    example.features.feature["text"].bytes_list.value.extend([b"a"])
    found = parse_example(example.SerializeToString())
    assert {name: values.tolist() for name, values in found.items()} == {
        "large": [0, 127, 128, 2**31, 2**62, -1],
        "floats": [0.5, -1e9],
        "none": [],
    }
    single = b"\x08\x01\x08\xac\x02\x0a\x02\x03\x04"  # 1 and 300 as fields of their own, 3 and 4 packed.
    halves = b"\x1a" + bytes([len(single)]) + single + b"\x1a\x02\x08\x05"  # A list in two parts.
    floats = b"\x12\x05\x0d" + np.float32(0.5).tobytes()
    content = b"".join(
        b"\x0a" + bytes([len(feature) + 5]) + b"\x0a\x01" + name + b"\x12" + bytes([len(feature)]) + feature
        for name, feature in ((b"a", halves), (b"b", floats))
    )
    content = b"\x0a" + bytes([len(content)]) + content
    expected = tf.train.Example.FromString(content).features.feature
    found = parse_example(content)
    assert found["a"].tolist() == list(expected["a"].int64_list.value) == [1, 300, 3, 4, 5]
    assert found["b"].tolist() == list(expected["b"].float_list.value) == [0.5]
    for cut in (b"\x0a", b"\x0a\x05abc", b"\x08\x01", b"\x0a\x02\x0a\x7f"):
        with pytest.raises(ValueError, match="not a serialized tf.train.Example"):
            parse_example(cut)


def test_records_are_found_as_by_tensorflow(folders, tmp_path):
    for path in sorted((folders / "dynamic").glob("examples-*")):
        content = path.read_bytes()
        found = [content[start:end] for start, end in record_offsets(path)]
        assert found == list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    (tmp_path / "cut.tfrecord").write_bytes(content[:-5])
    with pytest.raises(ValueError, match=f"the record after {len(found) - 1} complete ones is truncated"):
        record_offsets(tmp_path / "cut.tfrecord")


def test_checksums(folders, tmp_path):
    """Those of TensorFlow; a record with another one is damaged."""
    assert checksums([b"123456789"]) == [((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) % 2**32]  # Known value.
    path = min((folders / "static").glob("examples-*"))
    content, offsets = bytearray(path.read_bytes()), record_offsets(path)
    stored = [int.from_bytes(content[end : end + 4], "little") for _, end in offsets.tolist()]
    assert checksums([bytes(content[start:end]) for start, end in offsets.tolist()]).tolist() == stored
    content[int(offsets[3][1]) - 1] ^= 1
    (tmp_path / "damaged.tfrecord").write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged.tfrecord: record 3: is damaged. Copy the file again"):
        RecordDataset(f"{tmp_path}/*.tfrecord", SOURCE.pieces, batch_size=len(offsets))[0]


def unmasked(batches):
    """Counts the examples of batches: ids before masking, segments, NSP label."""
    counted = collections.Counter()
    for inputs, targets, weights in batches:
        ids = inputs["token_ids"].copy()
        rows, columns = np.nonzero(weights["mlm_logits"])
        ids[rows, inputs["mask_positions"][rows, columns]] = targets["mlm_logits"][rows, columns]
        for row in np.flatnonzero(weights["nsp_logits"]):
            counted[
                (*ids[row], *inputs["segment_ids"][row], *inputs["padding_mask"][row], targets["nsp_logits"][row])
            ] += 1
    return counted


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_every_example_once(folders, kind):
    stored, once = numbered.arrays(folders / kind), RecordDataset(folders / kind, batch_size=7)
    steps = len(once)
    dataset = RecordDataset(folders / kind, batch_size=7, steps=2 * steps)
    ids = numbered.unmasked(stored) if kind == "static" else stored["input_ids"]
    rows = np.concatenate([ids, stored["segment_ids"], stored["input_mask"], stored["next_sentence_labels"]], 1)
    assert (dataset.examples, dataset.sequence_length, dataset.static) == (len(rows), LENGTH, kind == "static")
    first = [dataset[index] for index in range(steps)]
    assert {values.shape for inputs, _, _ in first for values in inputs.values()} == {(7, LENGTH), (7, 5)}
    second = [dataset[steps + index] for index in range(steps)]
    assert unmasked(first) == unmasked(second) == collections.Counter(map(tuple, rows.tolist()))
    assert (first[0][0]["token_ids"] != second[0][0]["token_ids"]).any()
    again = RecordDataset(folders / kind, batch_size=7, steps=2 * steps, start=steps + 1)[2]
    keras.tree.map_structure(np.testing.assert_array_equal, again, second[3])


def test_batches_are_functions_of_their_numbers(folders):
    """In any order, at the border of two passes, and with another `start`: threads read the next batches."""
    dataset = RecordDataset(folders / "dynamic", batch_size=64, steps=9)
    expected = [RecordDataset(folders / "dynamic", batch_size=64, steps=9)[index] for index in range(9)]
    for order in (range(9), range(8, -1, -1), np.random.default_rng(0).permutation(9).tolist()):
        for index in order:
            keras.tree.map_structure(np.testing.assert_array_equal, dataset[index], expected[index])
    for index in (-1, 9):
        with pytest.raises(IndexError, match="expected a batch from 0 to 8"):
            dataset[index]
    dataset.start, dataset.steps = 2, 3
    keras.tree.map_structure(np.testing.assert_array_equal, dataset[0], expected[2])


def test_masks(folders):
    """15% of the tokens of each record."""
    inputs, _, weights = RecordDataset(folders / "dynamic", batch_size=16, shuffle=False)[0]
    lengths = inputs["padding_mask"].sum(1)
    assert weights["mlm_logits"].sum(1).tolist() == [max(1, round(0.15 * length)) for length in lengths.tolist()]


def test_mistakes(folders, tmp_path):
    for source, options, message in (
        (tmp_path, {}, "has no manifest.json. Expected the folder of a finished run of create_pretraining_data"),
        (folders / "packed", {}, "compressed records are read by `Records` only"),
        (
            folders / "static",
            {"masking": Masking()},
            "the records already contain masks",
        ),
        (
            folders / "dynamic",
            {"vocabulary": [*SOURCE.pieces, "other"]},
            "were not made with .*: the hashes of the pieces differ",
        ),
        (folders / "static", {"start": 10**6}, "`start` must be a step of the run, 0 to "),
        (folders / "static", {"batch_size": 0}, "`batch_size` must be at least 1"),
        (folders / "static", {"limit": 0}, "`limit` must be at least 1"),
        (folders / "static", {"steps": -1}, "`steps` must be at least 1"),
        (f"{folders}/*/*.tfrecord", {"vocabulary": SOURCE.pieces}, "static/.*: record 0: features or lengths differ"),
        (f"{folders}/static/*.tfrecord", {"vocabulary": SOURCE.pieces[:9]}, "record 0: `input_ids` has ids outside"),
        (f"{folders}/dynamic/*.tfrecord", {}, "the vocabulary of the records is unknown: set `vocabulary`"),
    ):
        with pytest.raises(ValueError, match=message):
            RecordDataset(source, **options)

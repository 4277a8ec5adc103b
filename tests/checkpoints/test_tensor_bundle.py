"""Checkpoints read without TensorFlow equal those that TensorFlow reads."""

import struct

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.checkpoints.tensor_bundle import TensorBundle  # noqa: E402
from keras_bert.wire_format import message  # noqa: E402

pytestmark = pytest.mark.tensorflow
NAMES = [f"layer_{number:03}/{'inner/' * (number % 7)}kernel" for number in range(600)]


@pytest.fixture
def prefix(tmp_path):
    """600 tensors: several blocks of the index, names with common beginnings, scalars, empty ones."""
    rng = np.random.default_rng(0)
    kinds = ("float32", "float64", "int32", "int64", "float16")
    shapes = ((), (0, 3), (1,), (2, 3), (300,))
    tensors = [
        rng.normal(size=shapes[number % 3 + number % 2]).astype(kinds[number % 5]) for number in range(len(NAMES))
    ]
    path = str(tmp_path / "model.ckpt")
    tf.raw_ops.SaveV2(prefix=path, tensor_names=NAMES, shape_and_slices=[""] * len(NAMES), tensors=tensors)
    return path


def test_equals_tensorflow(prefix):
    expected = tf.train.load_checkpoint(prefix)
    found = TensorBundle(prefix)
    shapes = {name: tuple(shape) for name, shape in expected.get_variable_to_shape_map().items()}
    assert found.get_variable_to_shape_map() == shapes
    for name in NAMES:
        np.testing.assert_array_equal(found.get_tensor(name), expected.get_tensor(name), strict=True)


def test_damaged_files(prefix, tmp_path):
    index, data = tmp_path / "model.ckpt.index", tmp_path / "model.ckpt.data-00000-of-00001"
    content = index.read_bytes()
    for damaged in (b"", content[:-1], content[50:], b"\xff" * 200 + content[200:]):
        index.write_bytes(damaged)
        with pytest.raises(ValueError, match="the index is damaged"):
            TensorBundle(prefix)
    # In the entry of a vector, what TensorFlow's reader ends the process for.
    vector = b"\x08\x01\x12\x04\x12\x02\x08\x01"
    for changed in (
        b"\x08\x01\x12\x04\x12\x02\x08\xff",
        b"\x08\x01\x12\x04\x12\x02\x12\x01",
        b"\x08\x01\x12\x04\x12\x00\x08\x01",
    ):
        assert vector in content
        index.write_bytes(content.replace(vector, changed))
        with pytest.raises(ValueError, match="the index is damaged"):
            TensorBundle(prefix)
    index.write_bytes(content)
    data.write_bytes(data.read_bytes()[:-8])
    bundle = TensorBundle(prefix)
    with pytest.raises(ValueError, match="bytes, expected .* at "):
        [bundle.get_tensor(name) for name in NAMES]


def number(value):
    return message([(1, value)])[1:]


def block(*entries):
    """A block of entries: how many bytes of the key before are shared, the others of the key, and the value."""
    parts = [number(shared) + number(len(key)) + number(len(value)) + key + value for shared, key, value in entries]
    return b"".join(parts) + struct.pack("<II", 0, 1)


def table(*data, handles=None):
    """A table of blocks of data, with one handle of each unless others are given."""
    content = b""
    places = []
    for entries in data:
        places.append(number(len(content)) + number(len(entries)))
        content += entries + b"\0"
    index = block(*((0, b"%05d" % count, place) for count, place in enumerate(places * (handles or 1))))
    footer = number(0) + number(0) + number(len(content)) + number(len(index))
    return content + index + b"\0" + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


HEADER = (0, b"", b"\x08\x01")
ENTRY = b"\x08\x01"
LONG = [(0, b"a" * 5000, ENTRY), *((5000, b"%05d" % count, ENTRY) for count in range(500))]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (table(block(HEADER, *LONG)), "names are too long"),  # 2.5 MB of names in 12 KB.
        (table(block(HEADER), struct.pack("<I", 0), handles=2000), "blocks are not in order"),
    ],
)
def test_small_files_that_fill_memory(tmp_path, content, message):
    (tmp_path / "a.index").write_bytes(table(block(HEADER, (0, b"a", ENTRY))))
    assert TensorBundle(tmp_path / "a").get_variable_to_shape_map() == {"a": ()}
    (tmp_path / "a.index").write_bytes(content)
    with pytest.raises(ValueError, match=f"the index is damaged: .*{message}$"):
        TensorBundle(tmp_path / "a")


def test_a_partitioned_variable(tmp_path):
    path = str(tmp_path / "model.ckpt")
    names = ["whole", "parts", "parts"]
    halves = ["", "4 2 0,2:0,2", "4 2 2,2:0,2"]
    tf.raw_ops.SaveV2(
        prefix=path, tensor_names=names, shape_and_slices=halves, tensors=[tf.ones(3)] + [tf.ones((2, 2))] * 2
    )
    bundle = TensorBundle(path)
    assert bundle.get_variable_to_shape_map() == {"whole": (3,), "parts": (4, 2)}
    np.testing.assert_array_equal(bundle.get_tensor("whole"), [1, 1, 1])
    with pytest.raises(ValueError, match="it is partitioned, which is not supported"):
        bundle.get_tensor("parts")


def test_a_type_without_numpy(tmp_path):
    path = str(tmp_path / "model.ckpt")
    tf.raw_ops.SaveV2(prefix=path, tensor_names=["a"], shape_and_slices=[""], tensors=[tf.constant(["b"])])
    with pytest.raises(ValueError, match="the type 7 is not supported"):
        TensorBundle(path).get_tensor("a")

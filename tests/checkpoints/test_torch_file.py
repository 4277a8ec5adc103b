"""PyTorch's files are read without running them. Whole files of PyTorch are among the goldens, see test_world.py."""

import contextlib
import os
import pickle
import random
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

from keras_bert.checkpoints.torch_file import read_torch_file
from keras_bert.checkpoints.weight_files import read_file

STORAGE = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpuK\6tQ"  # Key 0, 6 numbers.
NUMBERS = np.arange(6, dtype="<f4").tobytes()
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n("


# 2,000 dicts of 2,000 pairs, of which there is one list.
DICTS = b"ccollections\nOrderedDict\nq\1](" + b"X\1\0\0\0aN\x86" * 2000 + b"e\x85q\2(" + b"h\1h\2R" * 2000 + b"t"


def tensor(offset, shape, strides):
    """The instructions of a tensor in the storage."""
    numbers = b"".join(b"K%c" % offset if part is None else part for part in (None, integers(shape), integers(strides)))
    return REBUILD + STORAGE + numbers + b"\x89ccollections\nOrderedDict\n)RtR"


def integers(values):
    return b"(" + b"".join(b"K%c" % value for value in values) + b"t"


@pytest.fixture
def written(tmp_path):
    def write(value, content=NUMBERS):
        path = tmp_path / "pytorch_model.bin"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model/data.pkl", b"\x80\2}X\1\0\0\0a" + value + b"s.")
            archive.writestr("model/data/0", content)
        return path

    return write


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ((0, (2, 3), (3, 1)), [[0, 1, 2], [3, 4, 5]]),
        ((0, (3, 2), (1, 3)), [[0, 3], [1, 4], [2, 5]]),  # Transposed.
        ((1, (2,), (3,)), [1, 4]),
        ((5, (), ()), 5),
        ((6, (0, 3), (3, 1)), np.zeros((0, 3))),
        ((0, (1, 6), (0, 1)), [[0, 1, 2, 3, 4, 5]]),
    ],
)
def test_views_of_a_storage(written, place, expected):
    ((shape, read),) = read_torch_file(written(tensor(*place))).values()
    np.testing.assert_array_equal(read(), expected)
    assert shape == np.shape(expected)


class Command:
    def __reduce__(self):
        return os.system, ("false",)


def pickled(value):
    return pickle.dumps(value, protocol=2)[2:-1]  # Without the frame of a program of its own.


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (pickled(Command()), f"it names '{os.system.__module__}.system', which is not run"),
        (pickled({"b": 1}), "'a' is a dict and no tensor"),
        (pickled(1.5), "'a' is a float and no tensor"),
        (pickled(OrderedDict), "'a' is a _Global and no tensor"),
        (tensor(0, (7,), (1,)), r"a tensor of shape \(7,\) is outside of its storage of 6"),
        (tensor(0, (2, 3), (4, 1)), r"a tensor of shape \(2, 3\) is outside"),
        (tensor(0, (100, 3), (0, 1)), r"a tensor of shape \(100, 3\) is outside"),  # 100 copies.
        (REBUILD + STORAGE + b"K\0" + b"tR", "it may be truncated"),
        (tensor(0, (6,), (1,)).replace(b"K\6t", b"\x8a\x09" + b"\1" * 9 + b"t", 2), "sizes of more than 63 bits"),
        (tensor(0, (1,) * 65, (1,) * 65), "a tensor has 65 axes"),
        (tensor(0, (6,), (1,)).replace(b"X\7\0\0\0storage", b"N\x85"), "it has a tuple in a place of another type"),
        (tensor(0, (6,), (1,))[:-2] + b"}X\3\0\0\0neg\x88stR", "numbers are negated or conjugated"),
        (
            tensor(0, (6,), (1,)) + b"sX\1\0\0\0b" + tensor(0, (7,), (1,)).replace(b"K\6tQ", b"K\7tQ"),
            "the storage '0' has a size below 0, or two",
        ),
        (b"ctorch\nload\nX\1\0\0\0a\x85R", "it names 'torch.load', which is not run"),
        (b"ctorch\nFloatStorage\n)R", "it calls torch.FloatStorage"),
        (b"}b", "its instructions lack values|in a place of another type"),
        (b"0" * 2, "it has the instruction POP"),
        (b"N" * (2**20 + 1), "it has more than 1048576 instructions"),
        (DICTS, "it has more than 1048576 instructions, or values that they take"),
    ],
)
def test_what_is_no_tensor_is_refused(written, value, message):
    with pytest.raises(ValueError, match=message) as error:
        read_torch_file(written(value))
    assert "\n" not in str(error.value)


def test_a_storage_that_is_too_short(written):
    with pytest.raises(ValueError, match="not a readable file of PyTorch, .*the storage 0 is truncated"):
        read_torch_file(written(tensor(0, (6,), (1,)), content=b"0" * 20))


def test_a_name_of_two_lines(written):
    with pytest.raises(ValueError, match=r"a tensor's name must be printable. Received: 'b\\n'$"):
        read_file(written(tensor(0, (6,), (1,)) + b"sX\2\0\0\0b\n" + tensor(0, (6,), (1,))))


def test_many_tensors_of_one_storage(written):
    view = tensor(0, (255,), (1,)).replace(b"K\6tQ", b"K\xfftQ")
    views = b"s".join(b"X\1\0\0\0%c" % name + view for name in range(65, 90))
    with pytest.raises(ValueError, match=f"its tensors have {26 * 255:,} numbers, its files 4,... bytes"):
        read_file(written(view + b"s" + views, content=bytes(4 * 255)))


@pytest.mark.parametrize("case", ["bin_zip", "bin_legacy"])
def test_damaged_files(golden, tmp_path, case):
    """A file with changed bytes is read or refused."""
    content = (golden / "hf_world" / case / "pytorch_model.bin").read_bytes()
    path = tmp_path / "pytorch_model.bin"
    generator = random.Random(0)
    for _ in range(60):
        changed = bytearray(content)
        for _ in range(generator.choice([1, 3, 30])):
            changed[generator.randrange(min(len(content), 12000))] = generator.randrange(256)
        path.write_bytes(changed[: generator.choice([len(content), generator.randrange(len(content))])])
        with contextlib.suppress(ValueError):
            for _, read in read_torch_file(path).values():
                read()

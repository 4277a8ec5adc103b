"""Reads the tensors of PyTorch's files, `pytorch_model.bin`, without PyTorch, and without running what they contain.

See `torch.serialization`: the file is an archive with a pickle and a file for each storage, or, before PyTorch 1.6,
five pickles followed by the storages. A pickle is a program for a stack machine that may call any function. The machine
here knows only the instructions that tensors need, and builds nothing but tuples, lists, dicts and descriptions of
tensors. A name of Python in the file that is not in `_GLOBALS` is refused before anything is read.
"""

import contextlib
import dataclasses
import io
import math
import mmap
import os
import pickletools
import zipfile
from functools import partial
from typing import NamedTuple

import ml_dtypes
import numpy as np

_DTYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
_TENSORS = ("torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2")
_PARAMETER = "torch._utils _rebuild_parameter"
_DICT = "collections OrderedDict"
_STORAGES = {f"torch {name}" for name in _DTYPES}
_GLOBALS = {*_TENSORS, _PARAMETER, _DICT, *_STORAGES}
_MOST_AXES = 64  # NumPy's.
_MARK = object()
_SIZED = (tuple, list, dict)
_MAGIC = 0x1950A86A20F9469CFC6C  # The first pickle of the older form.
_DAMAGED = (ArithmeticError, LookupError, EOFError, OSError, RuntimeError, TypeError, ValueError, zipfile.BadZipFile)


def read_torch_file(path):
    """Returns functions that read the tensors of a file, which must have nothing else: `{name: (shape, read)}`."""
    with _explained(path):
        if zipfile.is_zipfile(path):
            tensors, read = _read_archive(path)
        else:
            tensors, read = _read_pickles(path)
        if not isinstance(tensors, dict) or not all(isinstance(name, str) for name in tensors):
            raise _ContentError(f"it holds a {type(tensors).__name__} and no dict of tensors by name")
        for name, value in tensors.items():
            if not isinstance(value, _StoredTensor):
                raise _ContentError(f"{name!r:.100} is a {type(value).__name__} and no tensor")
    return {name: (tensor.shape, partial(read, tensor)) for name, tensor in tensors.items()}


@contextlib.contextmanager
def _explained(path):
    """Turns all errors of a damaged file into one line that names it."""
    try:
        yield
    except _ContentError as error:
        raise ValueError(f"{path}: {error}. Expected tensors alone") from None
    except _DAMAGED as error:
        raise ValueError(f"{path}: not a readable file of PyTorch, it may be truncated: {str(error)!r:.200}") from None


def _read_archive(path):
    """Returns what an archive holds, and a function that reads the array of a tensor in it."""
    with zipfile.ZipFile(path) as archive:
        pickles = []
        for name in archive.namelist():
            if name.endswith("data.pkl") and name.count("/") < 2:
                pickles.append(name)
        if len(pickles) != 1:
            raise _ContentError("it is an archive without one data.pkl")
        folder = pickles[0].removesuffix("data.pkl")
        order = f"{folder}byteorder"
        if order in archive.namelist() and _content(archive, order) != b"little":
            raise _ContentError("its numbers are big-endian")
        machine = _Machine()
        values = machine.run(io.BytesIO(_content(archive, pickles[0])))
        for key, storage in machine.storages.items():
            if storage.size > archive.getinfo(f"{folder}data/{key}").file_size:
                raise EOFError(f"the storage {key} is truncated")

    def read(tensor):
        with _explained(path), zipfile.ZipFile(path) as archive:
            return tensor.of(_content(archive, f"{folder}data/{tensor.storage.key}"))

    return values, read


def _content(archive, name):
    """Returns the bytes of a file in an archive, which is neither compressed nor larger than the archive."""
    entry = archive.getinfo(name)
    if entry.compress_type != zipfile.ZIP_STORED:  # It could be larger than any memory.
        raise _ContentError(f"{name} is compressed")
    if max(entry.compress_size, entry.file_size) > os.path.getsize(archive.filename):
        raise EOFError(f"{name} is larger than the file")
    return archive.read(name)


def _read_pickles(path):
    """Returns what a file of the older form holds, and a function that reads the array of a tensor in it."""
    # Of a mapped file, a damaged length reads no more than there is.
    with open(path, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as file:
        if _Machine().run(file) != _MAGIC:
            raise _ContentError("it is no archive, and does not begin as a file of PyTorch")
        _Machine().run(file)  # The version of the form.
        system = _Machine().run(file)
        if not isinstance(system, dict) or system.get("little_endian") is not True:
            raise _ContentError("its numbers are big-endian")
        machine = _Machine()
        values = machine.run(file)
        keys = _Machine().run(file)
        places = {}
        place = file.tell()
        for key in keys:
            places[key] = place + 8  # After the number of elements.
            storage = machine.storages[key]
            place += 8 + storage.size
        if place > file.size():
            raise EOFError(f"{file.size():,} bytes, expected {place:,}")

    def read(tensor):
        storage = tensor.storage
        with _explained(path), open(path, "rb") as file:
            file.seek(places[storage.key] + storage.start * storage.dtype.itemsize)
            return tensor.of(file.read(storage.size))

    return values, read


class _ContentError(ValueError):
    """Raised for a file that holds anything but tensors, or is damaged."""


class _Global(NamedTuple):
    name: str


@dataclasses.dataclass(frozen=True)
class _Storage:
    """Numbers in the file: their key, dtype and count; `start` is where a view of another storage begins."""

    key: str
    dtype: np.dtype
    count: int
    start: int = 0

    @property
    def size(self):
        """The number of bytes."""
        return self.count * self.dtype.itemsize


@dataclasses.dataclass(frozen=True)
class _StoredTensor:
    """A tensor in a file: its place in a storage."""

    storage: _Storage
    offset: int
    shape: tuple
    strides: tuple

    def __post_init__(self):
        numbers = (self.offset, *self.shape, *self.strides)
        if len(self.shape) > _MOST_AXES or max(numbers) >= 2**63:  # Their product could take hours.
            raise _ContentError(f"a tensor has {len(self.shape)} axes, or sizes of more than 63 bits")
        last = self.offset
        for size, stride in zip(self.shape, self.strides, strict=True):
            last += (size - 1) * stride
        count = math.prod(self.shape)
        # A tensor that repeats its numbers could be larger than any memory.
        fits = min(numbers) >= 0 and max(last + 1, count) <= self.storage.count
        if not fits and count:
            raise _ContentError(f"a tensor of shape {self.shape} is outside of its storage of {self.storage.count}")

    def of(self, content):
        """Returns the array, of the bytes of the storage."""
        numbers = np.frombuffer(content, self.storage.dtype, self.storage.count)
        steps = [stride * numbers.itemsize for stride in self.strides]
        view = np.lib.stride_tricks.as_strided(numbers[self.offset :], self.shape, steps)
        return view.copy()


class _Machine:
    """Runs the instructions of a pickle that tensors need."""

    most = 2**20  # Instructions and values that calls take: BERT-large has 30,000.

    def __init__(self):
        self._stack = []
        self._memo = {}
        self._count = 0
        self.storages = {}

    def run(self, file):
        """Returns what the next pickle of a file describes."""
        for instruction, argument, _ in pickletools.genops(file):
            self._count_values(1)
            if instruction.name == "STOP":
                return self._stack.pop()
            self._run_instruction(instruction.name, argument)

    def _count_values(self, count):
        self._count += count
        if self._count > self.most:
            raise _ContentError(f"it has more than {self.most} instructions, or values that they take")

    def _run_instruction(self, name, argument):
        stack = self._stack
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name in _ARGUMENTS:
            stack.append(argument)
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            index = argument
            if index is None:
                index = len(self._memo)
            self._memo[index] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            stack.append(_global(argument or " ".join(self._last(2))))
        elif name == "TUPLE":
            stack.append(tuple(self._marked()))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            stack.append(tuple(self._last(int(name[-1]))))
        elif name == "APPEND":
            values = self._last(1)
            _of_type(stack[-1], list).extend(values)
        elif name == "APPENDS":
            values = self._marked()
            _of_type(stack[-1], list).extend(values)
        elif name == "SETITEM":
            self._set_items(self._last(2))
        elif name == "SETITEMS":
            self._set_items(self._marked())
        elif name == "BINPERSID":
            stack.append(self._storage(*stack.pop()))
        elif name == "REDUCE":
            self._reduce()
        elif name == "BUILD":  # The attributes of a dict of tensors: versions of their modules.
            stack.pop()
            _of_type(stack[-1], dict)
        elif name not in ("PROTO", "FRAME"):
            raise _ContentError(f"it has the instruction {name}")

    def _set_items(self, values):
        """Adds keys and values, which alternate, to the dict on the stack."""
        keys = [_of_type(key, str) for key in values[::2]]
        _of_type(self._stack[-1], dict).update(zip(keys, values[1::2], strict=True))

    def _reduce(self):
        """Calls a function with arguments, both on the stack."""
        function, arguments = self._last(2)
        # References to large ones are short: what is copied of them is counted.
        self._count_values(len(_of_type(arguments, tuple)))
        for argument in arguments:
            if isinstance(argument, _SIZED):
                self._count_values(len(argument))
        self._stack.append(_call(function, arguments))

    def _last(self, count):
        """Takes the last values from the stack."""
        values = self._stack[-count:]
        if len(values) < count or _MARK in values:
            raise _ContentError("its instructions lack values")
        del self._stack[-count:]
        return values

    def _marked(self):
        """Takes the last mark and the values after it from the stack; returns these."""
        for index in reversed(range(len(self._stack))):
            if self._stack[index] is _MARK:
                values = self._stack[index + 1 :]
                del self._stack[index:]
                return values
        raise _ContentError("its instructions lack a mark")

    def _storage(self, kind, dtype, key, location, count, view=None):  # The parts of a persistent id.
        """Returns the storage of a persistent id; a view of the older form is (key, start, count)."""
        name = _of_type(dtype, _Global).name.removeprefix("torch ")
        if _of_type(kind, str) != "storage" or name not in _DTYPES or not isinstance(location, str):
            raise _ContentError(f"it refers to a {kind!r:.50} of {name}")
        whole = _Storage(_of_type(key, str), np.dtype(_DTYPES[name]), _of_type(count, int))
        if count < 0 or self.storages.setdefault(key, whole) != whole:
            raise _ContentError(f"the storage {key!r:.50} has a size below 0, or two")
        if view is None:
            return whole
        _, start, size = _of_type(view, tuple)
        if not 0 <= start <= start + size <= count:
            raise _ContentError("a view is outside of its storage")
        return dataclasses.replace(whole, start=start, count=size)


_CONSTANTS = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "MARK": lambda: _MARK,
}
_ARGUMENTS = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE")


def _of_type(value, expected):
    """Returns a value; raises if it has another type."""
    if not isinstance(value, expected):
        raise _ContentError(f"it has a {type(value).__name__} in a place of another type")
    return value


def _global(name):
    if name not in _GLOBALS:
        raise _ContentError(f"it names {name.replace(' ', '.')!r:.100}, which is not run")
    return _Global(name)


def _call(function, arguments):
    """Returns what a function of a pickle would return."""
    name = _of_type(function, _Global).name
    if name == _DICT and len(arguments) < 2:
        pairs = []
        if arguments:
            pairs = _of_type(arguments[0], list)
        return {_of_type(key, str): value for key, value in pairs}
    if name == _PARAMETER:
        return _of_type(arguments[0], _StoredTensor)
    if name in _TENSORS:
        return _tensor(arguments)
    raise _ContentError(f"it calls {name.replace(' ', '.')}")


def _tensor(arguments):
    """Returns a tensor of the arguments of `torch._utils._rebuild_tensor_v2`."""
    storage, offset, shape, strides, *others = arguments
    if any(others[2:]):
        raise _ContentError("it has a tensor whose numbers are negated or conjugated when they are read")
    for number in (offset, *_of_type(shape, tuple), *_of_type(strides, tuple)):
        _of_type(number, int)
    return _StoredTensor(_of_type(storage, _Storage), offset, shape, strides)

"""A machine for the pickles of PyTorch's files, which runs nothing of what they contain.

A pickle is a program for a stack machine that may call any function. The machine here knows only the instructions that
tensors need, and builds nothing but tuples, lists, dicts and descriptions of tensors. A name of Python in the file that
is not in `_GLOBALS` is refused before anything is read.
"""

import dataclasses
import math
import pickletools
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
_TENSOR, _PARAMETER, _DICT = (
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    "collections OrderedDict",
)
_GLOBALS = {_TENSOR, "torch._utils _rebuild_tensor", _PARAMETER, _DICT, *(f"torch {name}" for name in _DTYPES)}
_MOST_AXES = 64  # NumPy's.
_MARK = object()
_SIZED = (tuple, list, dict)


class TorchFileError(ValueError):
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
class TorchTensor:
    """A tensor in a file: its place in a storage."""

    storage: _Storage
    offset: int
    shape: tuple
    strides: tuple

    def __post_init__(self):
        numbers = (self.offset, *self.shape, *self.strides)
        if len(self.shape) > _MOST_AXES or max(numbers) >= 2**63:  # Their product could take hours.
            raise TorchFileError(f"a tensor has {len(self.shape)} axes, or sizes of more than 63 bits")
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        # A tensor that repeats its numbers could be larger than any memory.
        fits = min(numbers) >= 0 and max(last + 1, math.prod(self.shape)) <= self.storage.count
        if not fits and math.prod(self.shape):
            raise TorchFileError(f"a tensor of shape {self.shape} is outside of its storage of {self.storage.count}")

    def of(self, content):
        """Returns the array, of the bytes of the storage."""
        numbers = np.frombuffer(content, self.storage.dtype, self.storage.count)[self.offset :]
        steps = [stride * numbers.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(numbers, self.shape, steps).copy()


class TensorMachine:
    """Runs the instructions of a pickle that tensors need."""

    most = 2**20  # Instructions and values that calls take: BERT-large has 30,000.

    def __init__(self):
        self._stack, self._memo, self._count, self.storages = [], {}, 0, {}

    def run(self, file):
        """Returns what the next pickle of a file describes."""
        for instruction, argument, _ in pickletools.genops(file):
            self._add(1)
            name = instruction.name
            if name == "STOP":
                return self._stack.pop()
            self._run(name, argument)

    def _add(self, count):
        self._count += count
        if self._count > self.most:
            raise TorchFileError(f"it has more than {self.most} instructions, or values that they take")

    def _run(self, name, argument):
        stack = self._stack
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name in _ARGUMENTS:
            stack.append(argument)
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._memo[len(self._memo) if argument is None else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            stack.append(_global(argument or " ".join(self._last(2))))
        elif name == "TUPLE":
            stack.append(tuple(self._marked()))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            stack.append(tuple(self._last(int(name[-1]))))
        elif name in ("APPEND", "APPENDS"):
            values = self._marked() if name == "APPENDS" else self._last(1)
            _of_type(stack[-1], list).extend(values)
        elif name in ("SETITEM", "SETITEMS"):
            values = self._marked() if name == "SETITEMS" else self._last(2)
            keys = [_of_type(key, str) for key in values[::2]]
            _of_type(stack[-1], dict).update(zip(keys, values[1::2], strict=True))
        elif name == "BINPERSID":
            stack.append(self._storage(*stack.pop()))
        elif name == "REDUCE":
            function, arguments = self._last(2)
            # References to large ones are short: what is copied of them is counted.
            self._add(sum(len(part) for part in (_of_type(arguments, tuple), *arguments) if isinstance(part, _SIZED)))
            stack.append(_call(function, arguments))
        elif name == "BUILD":  # The attributes of a dict of tensors: versions of their modules.
            stack.pop()
            _of_type(stack[-1], dict)
        elif name not in ("PROTO", "FRAME"):
            raise TorchFileError(f"it has the instruction {name}")

    def _last(self, count):
        values = self._stack[-count:]
        if len(values) < count or _MARK in values:
            raise TorchFileError("its instructions lack values")
        del self._stack[-count:]
        return values

    def _marked(self):
        for index in reversed(range(len(self._stack))):
            if self._stack[index] is _MARK:
                values = self._stack[index + 1 :]
                del self._stack[index:]
                return values
        raise TorchFileError("its instructions lack a mark")

    def _storage(self, kind, dtype, key, location, count, view=None):
        """Returns the storage of a persistent id; a view of the older form is (key, start, count)."""
        name = _of_type(dtype, _Global).name.removeprefix("torch ")
        if _of_type(kind, str) != "storage" or name not in _DTYPES or not isinstance(location, str):
            raise TorchFileError(f"it refers to a {kind!r:.50} of {name}")
        whole = _Storage(_of_type(key, str), np.dtype(_DTYPES[name]), _of_type(count, int))
        if count < 0 or self.storages.setdefault(key, whole) != whole:
            raise TorchFileError(f"the storage {key!r:.50} has a size below 0, or two")
        if view is None:
            return whole
        _, start, size = _of_type(view, tuple)
        if not 0 <= start <= start + size <= count:
            raise TorchFileError("a view is outside of its storage")
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


def _of_type(value, kind):
    if not isinstance(value, kind):
        raise TorchFileError(f"it has a {type(value).__name__} in a place of another type")
    return value


def _global(name):
    if name not in _GLOBALS:
        raise TorchFileError(f"it names {name.replace(' ', '.')!r:.100}, which is not run")
    return _Global(name)


def _call(function, arguments):
    """Returns what a function of a pickle would return."""
    name = _of_type(function, _Global).name
    if name == _DICT and len(arguments) < 2:
        pairs = _of_type(arguments[0], list) if arguments else []
        return {_of_type(key, str): value for key, value in pairs}
    if name == _PARAMETER:
        return _of_type(arguments[0], TorchTensor)
    if name.startswith("torch._utils"):
        storage, offset, shape, strides, *others = arguments
        if any(others[2:]):
            raise TorchFileError("it has a tensor whose numbers are negated or conjugated when they are read")
        numbers = [_of_type(number, int) for number in (offset, *_of_type(shape, tuple), *_of_type(strides, tuple))]
        return TorchTensor(_of_type(storage, _Storage), numbers[0], shape, strides)
    raise TorchFileError(f"it calls {name.replace(' ', '.')}")

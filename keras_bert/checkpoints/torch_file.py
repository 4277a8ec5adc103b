"""Reads the tensors of PyTorch's files, `pytorch_model.bin`, without PyTorch, and without running what they contain.

See `torch.serialization`: the file is an archive with a pickle and a file for each storage, or, before PyTorch 1.6,
five pickles followed by the storages.
"""

import contextlib
import io
import mmap
import os
import zipfile
from functools import partial

from keras_bert.checkpoints.tensor_pickle import TensorMachine, TorchFileError, TorchTensor

_MAGIC = 0x1950A86A20F9469CFC6C  # The first pickle of the older form.
_DAMAGED = (ArithmeticError, LookupError, EOFError, OSError, RuntimeError, TypeError, ValueError, zipfile.BadZipFile)


def read_torch_file(path):
    """Returns functions that read the tensors of a file, which must have nothing else: `{name: (shape, read)}`."""
    with _explained(path):
        values, read = _read_archive(path) if zipfile.is_zipfile(path) else _read_pickles(path)
        tensors = {name: _tensor(name, value) for name, value in _state(values).items()}
    return {name: (tensor.shape, partial(read, tensor)) for name, tensor in tensors.items()}


@contextlib.contextmanager
def _explained(path):
    """Turns all errors of a damaged file into one line that names it."""
    try:
        yield
    except TorchFileError as error:
        raise ValueError(f"{path}: {error}. Expected tensors alone") from None
    except _DAMAGED as error:
        raise ValueError(f"{path}: not a readable file of PyTorch, it may be truncated: {str(error)!r:.200}") from None


def _state(values):
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise TorchFileError(f"it holds a {type(values).__name__} and no dict of tensors by name")
    return values


def _tensor(name, value):
    if not isinstance(value, TorchTensor):
        raise TorchFileError(f"{name!r:.100} is a {type(value).__name__} and no tensor")
    return value


def _read_archive(path):
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith("data.pkl") and name.count("/") < 2]
        if len(names) != 1:
            raise TorchFileError("it is an archive without one data.pkl")
        folder = names[0].removesuffix("data.pkl")
        order = f"{folder}byteorder"
        if order in archive.namelist() and _content(archive, order) != b"little":
            raise TorchFileError("its numbers are big-endian")
        machine = TensorMachine()
        values = machine.run(io.BytesIO(_content(archive, names[0])))
        for key, storage in machine.storages.items():
            if storage.size > archive.getinfo(f"{folder}data/{key}").file_size:
                raise EOFError(f"the storage {key} is truncated")

    def read(tensor):
        with _explained(path), zipfile.ZipFile(path) as archive:
            return tensor.of(_content(archive, f"{folder}data/{tensor.storage.key}"))

    return values, read


def _content(archive, name):
    entry = archive.getinfo(name)
    if entry.compress_type != zipfile.ZIP_STORED:  # It could be larger than any memory.
        raise TorchFileError(f"{name} is compressed")
    if max(entry.compress_size, entry.file_size) > os.path.getsize(archive.filename):
        raise EOFError(f"{name} is larger than the file")
    return archive.read(name)


def _read_pickles(path):
    # Of a mapped file, a damaged length reads no more than there is.
    with open(path, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as file:
        if TensorMachine().run(file) != _MAGIC:
            raise TorchFileError("it is no archive, and does not begin as a file of PyTorch")
        TensorMachine().run(file)  # The version of the form.
        system = TensorMachine().run(file)
        if not isinstance(system, dict) or system.get("little_endian") is not True:
            raise TorchFileError("its numbers are big-endian")
        machine = TensorMachine()
        values, keys = machine.run(file), TensorMachine().run(file)
        places, place = {}, file.tell()
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

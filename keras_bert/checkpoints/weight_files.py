"""The files of weights in a folder of Hugging Face's layout: safetensors, PyTorch's and Keras 2's, also in shards."""

import contextlib
import math
import os
import shutil
from functools import partial

import h5py
import ml_dtypes
import numpy as np
import safetensors.numpy

from keras_bert.checkpoints.folder import CONFIG, inner_path
from keras_bert.checkpoints.tensors import Tensor
from keras_bert.checkpoints.torch_file import read_torch_file
from keras_bert.files import read_object

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TORCH = "pytorch_model.bin"
_POINTER = b"version https://git-lfs"  # What Git leaves in the place of a large file.
# The files of weights, the first that a folder has is read.
FILES = (WEIGHTS, INDEX, TORCH, f"{TORCH}.index.json", "tf_model.h5", "tf_model.h5.index.json")
_LAST = {"kernel": "weight", "embeddings": "weight", "gamma": "weight", "beta": "bias"}


def downloads(files):
    """Returns patterns of the files of weights to download, of a repository with these files.

    One container, and the dense layers of sentence-transformers in any.
    """
    dense = ["*/*.safetensors", f"*/{TORCH}"]
    own = [name for name in files if "/" not in name]
    if any(name.endswith((".safetensors", INDEX)) for name in own):
        return ["*.safetensors", INDEX, "adapter_model.safetensors", *dense]
    older = next((name for name in FILES if name in files), WEIGHTS)
    stem, _, ending = older.removesuffix(".index.json").rpartition(".")
    return [f"{stem}*.{ending}", f"{stem}.{ending}.index.json", "adapter_model.bin", *dense]


def has_weights(directory):
    """Returns whether a directory contains weights in Hugging Face's layout."""
    return any((directory / name).is_file() for name in FILES)


def read_tensors(directory, files=FILES):
    """Returns the `Tensor`s of the first of these files in a directory, by their names in transformers."""
    present = [name for name in files if (directory / name).is_file()]
    if not present:
        raise FileNotFoundError(f"{directory}: expected weights, {' or '.join(files)}; found no such file")
    path = directory / present[0]
    paths = [path]
    if path.suffix == ".json":
        paths = _shards(path)
    tensors = {}
    for shard in paths:
        tensors.update(read_file(shard))
    return tensors


def read_file(path):
    """Returns the `Tensor`s of a file by their names."""
    with path.open("rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            raise ValueError(f"{path}: Git's pointer to the file. Expected the file, which `git lfs pull` downloads")
    if path.suffix == ".safetensors":
        tensors = _read_safetensors(path)
    elif path.suffix == ".bin":
        tensors = _tensors(read_torch_file(path))
    else:
        tensors = _tensors(read_h5_file(path))
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    check_tensors(path, shapes, path.stat().st_size)
    return tensors


def _tensors(stored):
    """Returns `Tensor`s by name, of their shapes and the functions that read them."""
    return {name: Tensor(name, shape, read) for name, (shape, read) in stored.items()}


def check_tensors(path, shapes, size):
    """Raises if tensors have names that cannot be printed, or more numbers than their files bytes.

    A model with room for them is built before they are read. `shapes` is a dict by name, `size` the bytes of the files.
    """
    for name in shapes:
        if not name.isprintable():
            raise ValueError(f"{path}: a tensor's name must be printable. Received: {name!r:.200}")
    count = sum(map(math.prod, shapes.values()))
    if count > size:
        raise ValueError(
            f"{path}: not readable, it may be truncated: its tensors have {count:,} numbers, its files {size:,} bytes"
        )


def _shards(path):
    """Returns the paths of the shards that an index names."""
    places = read_object(path).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ValueError(
            f"{path}: `weight_map` must be an object with the file of each tensor. Received: {places!r:.200}"
        )
    shards = {name: inner_path(path, name) for name in places.values()}
    missing = sorted(name for name, shard in shards.items() if not shard.is_file())
    if missing:
        raise ValueError(f"{path}: missing shard(s): {', '.join(missing)}")
    return sorted(shards.values())


def _read_safetensors(path):
    """Returns the `Tensor`s of a safetensors file."""
    try:
        file = safetensors.safe_open(path, framework="numpy")
        names = list(file.keys())
    except (safetensors.SafetensorError, OSError) as error:
        raise ValueError(f"{path}: not a readable safetensors file, it may be truncated: {error}") from None
    tensors = {}
    for name in names:
        shape = tuple(file.get_slice(name).get_shape())
        tensors[name] = Tensor(name, shape, partial(_read_safetensor, path, file, name))
    return tensors


def _read_safetensor(path, file, name):
    try:
        return file.get_tensor(name)
    except (AttributeError, TypeError):  # NumPy lacks its dtype, such as that of 8-bit floats.
        raise ValueError(
            f"{path}: the dtype of {name} is not supported. Expected float32, float16 or bfloat16. "
            f"Received: dtype={file.get_slice(name).get_dtype()}"
        ) from None


def write_tensors(tensors, directory, dtype):
    """Writes `model.safetensors` in a dtype."""
    if dtype != "float32":
        largest = max(float(np.abs(array).max()) for array in tensors.values())
        if not largest <= float(ml_dtypes.finfo(dtype).max):
            raise ValueError(f"`weights_dtype`={dtype!r} cannot hold the largest weight, {largest}. Expected 'float32'")
        tensors = {name: array.astype(dtype) for name, array in tensors.items()}
    write_file(tensors, directory / WEIGHTS, directory / CONFIG)


def write_file(tensors, path, other):
    """Writes a safetensors file with the permissions of another one; safetensors gives them to its owner alone."""
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
    shutil.copymode(other, path)


def read_h5_file(path):
    """Returns functions that read the tensors of a file, and their shapes: `{name: (shape, read)}`."""
    tensors = {}
    with _opened(path) as file:
        if "layer_names" not in file.attrs:
            raise ValueError("it has no `layer_names`")
        for place in _places(file):
            shape = _dataset(file, place).shape
            is_kernel = place.endswith("/kernel:0")  # As (in, out).
            read = partial(_read_dataset, path, place, is_kernel)
            if is_kernel:
                shape = shape[::-1]
            tensors[_torch_name(place)] = (shape, read)
    return tensors


@contextlib.contextmanager
def _opened(path):
    """Opens a file; errors of a damaged one name it."""
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (AttributeError, KeyError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path}: not a readable file of Keras 2's weights, it may be truncated: {reason}") from None


def _places(file):
    """Returns the paths of all that is not a group.

    Lists of names in attributes are not read: short references to one long string would fill memory.
    """
    places = []
    left = os.path.getsize(file.filename)

    def visit(place, link):  # What it returns ends the visit; h5py passes no errors on.
        nonlocal left
        left -= len(place)  # Groups in groups could make long paths of short names.
        if left < 0:
            return "its names are longer than the file"
        places.append(place)
        if not isinstance(link, h5py.HardLink):  # It would be in any other file.
            return f"{place} is not in this file"
        return None

    problem = file.visititems_links(visit)
    if problem:
        raise ValueError(problem)
    return [place for place in places if not isinstance(file[place], h5py.Group)]


def _dataset(file, place):
    """Returns a dataset of a file; raises unless it is an array of numbers with all of its bytes in the file."""
    dataset = file[place]
    size = os.path.getsize(file.filename)
    is_inside = isinstance(dataset, h5py.Dataset) and not dataset.external and not dataset.is_virtual
    if not is_inside or dataset.dtype.kind not in "fiub":
        raise ValueError(f"{place} is not a plain array in this file")
    if not dataset.id.get_storage_size() == dataset.nbytes <= size:
        raise ValueError(f"{place} is not a plain array in this file")
    return dataset


def _read_dataset(path, place, transposed):
    with _opened(path) as file:
        array = np.asarray(_dataset(file, place))
    if transposed:
        array = array.T
    return array


def _torch_name(name):
    """Returns PyTorch's name, as transformers does: `bert/model/bert/layer_._0/kernel:0` is `bert.layer.0.weight`."""
    *layers, last = name.removesuffix(":0").split("/")
    layers = [layer.rpartition("___")[2] for layer in layers]
    path = "/".join([*layers, last]).replace("_._", "/")
    parts = [part for part in path.split("/") if part]
    *parts, last = parts[2:]  # The first two are names of the Keras model.
    return ".".join([*parts, _LAST.get(last, last)])

"""The files of weights in a folder of Hugging Face's layout: safetensors, PyTorch's and Keras 2's, also in shards."""

import math
from functools import partial

import safetensors

from keras_bert.checkpoints.h5_file import read_h5_file
from keras_bert.checkpoints.layout import Tensor
from keras_bert.checkpoints.locations import inner_path
from keras_bert.checkpoints.torch_file import read_torch_file
from keras_bert.files import read_object

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TORCH = "pytorch_model.bin"
_POINTER = b"version https://git-lfs"  # What Git leaves in the place of a large file.
# The files of weights, the first that a folder has is read.
FILES = (WEIGHTS, INDEX, TORCH, f"{TORCH}.index.json", "tf_model.h5", "tf_model.h5.index.json")


def downloads(files):
    """Returns patterns of the files of weights to download, of a repository with these files.

    One container, and the dense layers of sentence-transformers in any.
    """
    dense = ["*/*.safetensors", f"*/{TORCH}"]
    if any(name.endswith((".safetensors", INDEX)) and "/" not in name for name in files):
        return ["*.safetensors", INDEX, "adapter_model.safetensors", *dense]
    older = next((name for name in FILES if name in files), WEIGHTS)
    stem, _, ending = older.removesuffix(".index.json").rpartition(".")
    return [f"{stem}*.{ending}", f"{stem}.{ending}.index.json", "adapter_model.bin", *dense]


def has_weights(directory):
    """Returns whether a directory contains weights in Hugging Face's layout."""
    return any((directory / name).is_file() for name in FILES)


def read_tensors(directory, files=FILES):
    """Returns the `Tensor`s of the first of these files in a directory, by their names in transformers."""
    tensors = {}
    name = next((name for name in files if (directory / name).is_file()), None)
    if name is None:
        raise FileNotFoundError(f"{directory}: expected weights, {' or '.join(files)}; found no such file")
    for path in _shards(directory / name) if name.endswith(".json") else [directory / name]:
        tensors |= read_file(path)
    return tensors


def read_file(path):
    """Returns the `Tensor`s of a file by their names."""
    with path.open("rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            raise ValueError(f"{path}: Git's pointer to the file. Expected the file, which `git lfs pull` downloads")
    if path.suffix == ".safetensors":
        tensors = _read_safetensors(path)
    else:
        read = read_torch_file if path.suffix == ".bin" else read_h5_file
        tensors = {name: Tensor(name, *found) for name, found in read(path).items()}
    check_tensors(path, {name: tensor.shape for name, tensor in tensors.items()}, path.stat().st_size)
    return tensors


def check_tensors(path, shapes, size):
    """Raises if tensors have names that cannot be printed, or more numbers than their files bytes.

    A model with room for them is built before they are read. `shapes` is a dict by name, `size` the bytes of the files.
    """
    if name := next((name for name in shapes if not name.isprintable()), None):
        raise ValueError(f"{path}: a tensor's name must be printable. Received: {name!r:.200}")
    if (count := sum(map(math.prod, shapes.values()))) > size:
        raise ValueError(
            f"{path}: not readable, it may be truncated: its tensors have {count:,} numbers, its files {size:,} bytes"
        )


def _shards(path):
    places = read_object(path).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ValueError(
            f"{path}: `weight_map` must be an object with the file of each tensor. Received: {places!r:.200}"
        )
    shards = {name: inner_path(path, name) for name in places.values()}
    if missing := sorted(name for name, shard in shards.items() if not shard.is_file()):
        raise ValueError(f"{path}: missing shard(s): {', '.join(missing)}")
    return sorted(shards.values())


def _read_safetensors(path):
    try:
        file = safetensors.safe_open(path, framework="numpy")
        names = list(file.keys())
    except (safetensors.SafetensorError, OSError) as error:
        raise ValueError(f"{path}: not a readable safetensors file, it may be truncated: {error}") from None
    shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
    return {name: Tensor(name, shape, partial(_read_tensor, path, file, name)) for name, shape in shapes.items()}


def _read_tensor(path, file, name):
    try:
        return file.get_tensor(name)
    except (AttributeError, TypeError):  # NumPy lacks its dtype, such as that of 8-bit floats.
        raise ValueError(
            f"{path}: the dtype of {name} is not supported. Expected float32, float16 or bfloat16. "
            f"Received: dtype={file.get_slice(name).get_dtype()}"
        ) from None

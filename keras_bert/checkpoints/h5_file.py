"""Reads the tensors of `tf_model.h5`, which transformers 4 wrote with Keras 2, by PyTorch's names and axes."""

import contextlib
import os
from functools import partial

import h5py
import numpy as np

_LAST = {"kernel": "weight", "embeddings": "weight", "gamma": "weight", "beta": "bias"}


def read_h5_file(path):
    """Returns functions that read the tensors of a file, and their shapes: `{name: (shape, read)}`."""
    tensors = {}
    with _opened(path) as file:
        if "layer_names" not in file.attrs:
            raise ValueError("it has no `layer_names`")
        for place in _places(file):
            shape, transposed = _dataset(file, place).shape, place.endswith("/kernel:0")
            read = partial(_read, path, place, transposed)
            tensors[_torch_name(place)] = shape[::-1] if transposed else shape, read
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
    places, left = [], os.path.getsize(file.filename)

    def visit(place, link):  # What it returns ends the visit; h5py passes no errors on.
        nonlocal left
        left -= len(place)  # Groups in groups could make long paths of short names.
        if left < 0:
            return "its names are longer than the file"
        places.append(place)
        return None if isinstance(link, h5py.HardLink) else f"{place} is not in this file"  # But in any other.

    if problem := file.visititems_links(visit):
        raise ValueError(problem)
    return [place for place in places if not isinstance(file[place], h5py.Group)]


def _dataset(file, place):
    dataset, size = file[place], os.path.getsize(file.filename)
    is_inside = isinstance(dataset, h5py.Dataset) and not dataset.external and not dataset.is_virtual
    if not is_inside or dataset.dtype.kind not in "fiub" or not dataset.id.get_storage_size() == dataset.nbytes <= size:
        raise ValueError(f"{place} is not a plain array in this file")
    return dataset


def _read(path, place, transposed):
    with _opened(path) as file:
        array = np.asarray(_dataset(file, place))
    return array.T if transposed else array


def _torch_name(name):
    """Returns PyTorch's name, as transformers does: `bert/model/bert/layer_._0/kernel:0` is `bert.layer.0.weight`."""
    *layers, last = name.removesuffix(":0").split("/")
    name = "/".join([*(layer.rpartition("___")[2] for layer in layers), last]).replace("_._", "/")
    *parts, last = [part for part in name.split("/") if part][2:]
    return ".".join([*parts, _LAST.get(last, last)])

"""Reads the tensors of `tf_model.h5`, which transformers 4 wrote with Keras 2, by PyTorch's names and axes."""

import os
import re
from functools import partial

import h5py
import numpy as np

_LAST = {"kernel": "weight", "embeddings": "weight", "gamma": "weight", "beta": "bias"}


def read_h5_file(path):
    """Returns functions that read the tensors of a file, and their shapes: `{name: (shape, read)}`."""
    try:
        with h5py.File(path, "r") as file:
            names = [
                (layer, name)
                for layer in _names(file, "layer_names")
                for name in _names(_inner(file, layer), "weight_names")
            ]
            places = [f"{layer}/{name}" for layer, name in names]
            shapes = {place: _dataset(file, place).shape for place in places}
    except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not a readable file of Keras 2's weights, it may be truncated: {error}") from None
    tensors = {}
    for place, (_, name) in zip(places, names, strict=True):
        shape, transposed = shapes[place], place.endswith("/kernel:0")
        tensors[_torch_name(name)] = shape[::-1] if transposed else shape, partial(_read, path, place, transposed)
    return tensors


def _names(group, attribute):
    return [os.fsdecode(name) for name in group.attrs[attribute].tolist()]


def _inner(group, path):
    """Returns what is at a path in the file itself: a link may lead to any other file."""
    for part in path.split("/"):
        if not isinstance(group.get(part, getlink=True), h5py.HardLink):
            raise ValueError(f"{path} is not in this file")
        group = group[part]
    return group


def _dataset(file, place):
    dataset = _inner(file, place)
    is_inside = isinstance(dataset, h5py.Dataset) and not dataset.external and not dataset.is_virtual
    if not is_inside or dataset.id.get_storage_size() != dataset.nbytes:
        raise ValueError(f"{place} is not a plain array in this file")
    return dataset


def _read(path, place, transposed):
    with h5py.File(path, "r") as file:
        array = np.asarray(_dataset(file, place))
    return array.T if transposed else array


def _torch_name(name):
    """Returns PyTorch's name, as transformers does: `model/bert/layer_._0/kernel:0` is `bert.layer.0.weight`."""
    name = re.sub(r"[^/]*___([^/]*)/", r"\1/", name.removesuffix(":0")).replace("_._", "/")
    *parts, last = [part for part in name.split("/") if part][1:]
    return ".".join([*parts, _LAST.get(last, last)])

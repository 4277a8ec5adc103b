"""The JSON files of a checkpoint, and the files that they name."""

import pathlib

from keras_bert.files import read_object

CONFIG = "config.json"  # Hugging Face's name.


def read_object_if_exists(path):
    """Reads a JSON object; empty if the file is missing."""
    return read_object(path) if path.is_file() else {}


def inner_path(path, name):
    """Returns the path that a file names relative to its folder, where it must be.

    Links are followed: a folder in the cache of the Hugging Face hub consists of links to files outside of it.
    """
    inner = pathlib.PurePath(name if isinstance(name, str) else "..")
    if inner.anchor or ".." in inner.parts or not str(inner).isprintable():
        raise ValueError(f"{path}: what it names must be in its folder. Received: {name!r}")
    return path.parent / inner

"""The folder of a checkpoint, whose JSON files are parsed once, and what `load` was asked for.

Needs no Keras, so that commands find mistakes at once.
"""

import functools
import json
import os
import pathlib
from collections.abc import Callable
from typing import NamedTuple

from keras_bert.files import read_object

CONFIG = "config.json"  # Hugging Face's name.
MODULES = "modules.json"  # That of sentence-transformers.


class Options(NamedTuple):
    """Arguments of `load` about what is opened; `open` opens the model that an adapter was trained on."""

    head: str | None = None
    base: str | os.PathLike | None = None
    tokenizer: str | os.PathLike | None = "auto"
    open: Callable | None = None


class Folder:
    """The folder of a checkpoint: the files that it has, and the content of those in JSON; or a name without one."""

    def __init__(self, path_or_name):
        self._name, self.path, self._contents = str(path_or_name), pathlib.Path(path_or_name), {}

    def __str__(self):
        return self._name

    def __truediv__(self, name):
        return self.path / name

    def has(self, name):
        """Returns whether there is a file of this name."""
        return (self.path / name).is_file()

    def json(self, name, needed=False):
        """Returns the content of a file, a JSON object that must not be changed; empty if the file is missing."""
        if name not in self._contents:
            self._contents[name] = read_object(self / name) if needed or self.has(name) else {}
        return self._contents[name]

    @property
    def config(self):
        """The content of `config.json`."""
        return self.json(CONFIG)

    @property
    def is_ours(self):
        """Whether this package wrote the folder."""
        return "keras_bert" in self.config

    @functools.cached_property
    def modules(self):
        """The modules of sentence-transformers, a list of dicts."""
        if not self.has(MODULES):
            return []
        path = self / MODULES
        try:
            modules = sorted(json.loads(path.read_text(encoding="utf-8")), key=lambda module: module["idx"])
            for module in modules:
                module["type"].rpartition(".")
            return modules
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path}: not a list of modules: {error}") from None

    def of_module(self, module):
        """Returns the folder of a module."""
        path = inner_path(self / MODULES, module.get("path", ""))
        return self if path == self.path else Folder(path)

    @functools.cached_property
    def transformer(self):
        """The folder with `config.json`: old versions of sentence-transformers wrote it to a subfolder."""
        return self if self.has(CONFIG) or not self.modules else self.of_module(self.modules[0])


def inner_path(path, name):
    """Returns the path that a file names relative to its folder, where it must be.

    Links are followed: a folder in the cache of the Hugging Face hub consists of links to files outside of it.
    """
    inner = pathlib.PurePath(name if isinstance(name, str) else "..")
    if inner.anchor or ".." in inner.parts or not str(inner).isprintable():
        raise ValueError(f"{path}: what it names must be in its folder. Received: {name!r}")
    return path.parent / inner

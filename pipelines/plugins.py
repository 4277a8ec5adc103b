"""`--plugins`: modules that register models of their own, installed ones or files of the working directory."""

import contextlib
import importlib
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import sys
import traceback

from keras_bert.imports import EXTRA_OF, naming_extras, quiet_start

LOADED = []  # The names of the plugins.
_WORKERS = "_KERAS_BERT_PLUGINS"  # The environment variable that tells worker processes where plugins lie.


class _Finder:
    """Finds plugins in the folder of the user, and the files beside them that they import.

    Attributes:
        folders: dict of the folders by the names of the modules that lie in them.
    """

    # The working directory may hold a downloaded `tensorflow.py`, or a `queue.py` of the user. On `sys.path`, also at
    # its end, it would serve them to every package that imports an optional one. This finder comes after all others
    # and knows the plugins by name. What else of the folder may be imported is what a plugin imports, which the frame
    # of the statement tells: without that, a plugin would be a single file. It can go when Python imports a module
    # with a path of its own.

    def __init__(self):
        self.folders = {}

    def find_spec(self, name, path=None, target=None):
        """Returns the spec of a module of the working directory; `None` for any that is not a plugin's."""
        if path is not None:  # Of a module in a package, which Python finds.
            return None
        folder = self.folders.get(name) or self.folders.get(_importing_package())
        if folder is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, [folder])
        if spec is None:
            return None
        is_plugin = name in self.folders
        if spec.origin is None and not is_plugin:  # Any folder, such as the logs of a package that is not installed.
            return None
        self.folders[name] = folder
        return spec

    @staticmethod
    def invalidate_caches():
        """Nothing is cached here."""


_FINDER = _Finder()


def _importing_package():
    """Returns the first name of the module whose statement imports, below the frames of Python's own import."""
    frame = sys._getframe(2)
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("importlib", "_frozen_importlib"):
            return package
        frame = frame.f_back
    return None


def import_plugins(plugins, verbose=False):
    """Imports the modules of `--plugins`, a list of texts of one or more names that commas separate.

    A module of the working directory never takes the place of another one.
    """
    importlib.invalidate_caches()
    names = []
    for text in plugins:
        names += [name for name in text.split(",") if name]
    for name in names:
        _check_name(name)
        _import(name, verbose)
    LOADED[:] = dict.fromkeys(names)
    if _FINDER.folders:
        os.environ[_WORKERS] = json.dumps(_FINDER.folders, allow_nan=False)


def _add(folders):
    """Adds folders by the names of modules to those of the finder."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)
    _FINDER.folders.update(folders)


def _check_name(name):
    """Raises an error for what is not the name of a module, such as a path."""
    is_file = name.endswith(".py") and os.path.isfile(name)
    if not is_file and all(part.isidentifier() for part in name.split(".")):
        return
    path = pathlib.PurePath(name.removesuffix(".py"))
    module = ".".join(path.parts).strip(".")
    fix = f". Did you mean --plugins={module}?" if _local_specs(module) else ""
    raise ValueError(f"--plugins must be modules that Python finds, by name. Received: --plugins={name}{fix}")


def _local_specs(name):
    """Returns the first and the last spec of a dotted name in the working directory; `None` without such a file."""
    specs = []
    folders = [os.getcwd()]
    for part in name.split("."):
        if not part or not folders:
            return None
        spec = importlib.machinery.PathFinder.find_spec(part, folders)
        if spec is None:
            return None
        specs.append(spec)
        folders = list(spec.submodule_search_locations or ())
    if specs[-1].origin is None:  # A folder alone, which registers nothing.
        return None
    return specs[0], specs[-1]


def _import(name, verbose):
    """Imports a plugin; raises an error of one line that names the flag, and the line of the plugin that fails."""
    file = _find_plugin(name)
    quiet = contextlib.nullcontext() if verbose else quiet_start()
    try:
        with quiet, naming_extras(f"--plugins={name}"):
            importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = None
        if isinstance(error, ModuleNotFoundError):
            missing = error.name
        if missing and missing.partition(".")[0] in EXTRA_OF:
            raise
        if missing and f"{name}.".startswith(f"{missing}."):  # The plugin itself, or a package that it is in.
            raise ValueError(f"--plugins must be modules that Python finds. Received: --plugins={name}") from None
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise ValueError(f"--plugins={name}: {_place(error, file)}{text}") from error


def _find_plugin(name):
    """Returns the file of a plugin, `None` if it is not known.

    Tells the finder of one that lies in the working directory; raises an error if its name is that of another module.
    """
    top = name.partition(".")[0]
    other = _elsewhere(top)
    local = _local_specs(name)
    if local is None:
        return other
    first, last = local
    own = _location(first)
    if other is None:
        _add({top: os.getcwd()})
    elif os.path.realpath(other) != os.path.realpath(own):
        shown = os.path.relpath(own)
        raise ValueError(
            f"--plugins={name}: {shown} has the name of another module, {other}, which stays. Rename the file"
        )
    return last.origin


def _elsewhere(top):
    """Returns where Python finds a module without a plugin's folder, `None` if it does not."""
    if top in _FINDER.folders:
        return None
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # `__main__`, or a module that a program has made.
        return f"the module {top} of this program"
    return _location(spec) if spec else None


def _location(spec):
    """Returns the file of a module, or the folder of a package without one."""
    return spec.origin or next(iter(spec.submodule_search_locations or ()), None)


def _place(error, file):
    """Returns the last line of a plugin's folder before an error, for a message; empty if the error names it."""
    if file is None or isinstance(error, SyntaxError):
        return ""
    folder = os.path.dirname(os.path.realpath(file))
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if os.path.dirname(os.path.realpath(frame.filename)) == folder:
            place = f"{os.path.relpath(frame.filename)}:{frame.lineno}: "
    return place


if _WORKERS in os.environ:  # This process was started by a command.
    _add(json.loads(os.environ[_WORKERS]))

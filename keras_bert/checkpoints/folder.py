"""Where a checkpoint is: the folder that `keras_bert.load` finds for a name, also on the Hugging Face hub; its files.

Needs no Keras, so that commands find mistakes at once.
"""

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
import tempfile
from collections.abc import Callable
from typing import NamedTuple

from keras_bert import other_models
from keras_bert.checks import first_line, similar
from keras_bert.files import read_object

CONFIG = "config.json"  # Hugging Face's name.
MODULES = "modules.json"  # That of sentence-transformers.
# The bundled checkpoints are inside the package; a checkout without symbolic links has them only next to it.
_PACKAGE = pathlib.Path(__file__).parents[1]
_SHELF = _PACKAGE / "saved_models"
if not _SHELF.is_dir():
    _SHELF = _PACKAGE.parent / "saved_models"
OFFLINE = "models in the folder KERAS_BERT_MODELS load without one"
_ANSWER_S = 10  # Seconds in which the hub must answer.
_URL = re.compile(r"https?://(?:www\.)?(?:tfhub\.dev|kaggle\.com)/.+")
_PART = r"(\w[\w.-]*)"
_KAGGLE = re.compile(
    rf"(kaggle://|https?://(?:www\.)?kaggle\.com/models/)?{_PART}/{_PART}/(?:frameworks/)?{_PART}/(?:variations/)?{_PART}"
    r"(?:/(?:versions/)?(\d+))?/?"
)
_FRAMEWORKS = ("tensorflow1", "tensorflow2", "keras", "pytorch", "transformers")


class Options(NamedTuple):
    """Arguments of `load` about what is opened; `open` opens the model that an adapter was trained on."""

    head: str | None = None
    base: str | os.PathLike | None = None
    tokenizer: str | os.PathLike | None = "auto"
    open: Callable | None = None


class Folder:
    """The folder of a checkpoint: the files that it has, and the content of those in JSON; or a name without one."""

    def __init__(self, path_or_name):
        self._name = str(path_or_name)
        self.path = pathlib.Path(path_or_name)
        self._contents = {}

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
            content = {}
            if needed or self.has(name):
                content = read_object(self / name)
            self._contents[name] = content
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
            content = json.loads(path.read_text(encoding="utf-8"))
            modules = sorted(content, key=lambda module: module["idx"])
            for module in modules:
                module["type"].rpartition(".")  # Raises for a module that cannot be read.
            return modules
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path}: not a list of modules: {error}") from None

    def of_module(self, module):
        """Returns the folder of a module."""
        path = inner_path(self / MODULES, module.get("path", ""))
        if path == self.path:
            return self
        return Folder(path)

    @functools.cached_property
    def transformer(self):
        """The folder with `config.json`: old versions of sentence-transformers wrote it to a subfolder."""
        if self.has(CONFIG) or not self.modules:
            return self
        return self.of_module(self.modules[0])


def inner_path(path, name):
    """Returns the path that a file names relative to its folder, where it must be.

    Links are followed: a folder in the cache of the Hugging Face hub consists of links to files outside of it.
    """
    inner = pathlib.PurePath(name if isinstance(name, str) else "..")
    if inner.anchor or ".." in inner.parts or not str(inner).isprintable():
        raise ValueError(f"{path}: what it names must be in its folder. Received: {name!r}")
    return path.parent / inner


def places(name):
    """Returns the paths at which a name may be found."""
    paths = [pathlib.Path(name).expanduser()]
    for shelf in _shelves():
        path = shelf / name
        if path not in paths:
            paths.append(path)
    return paths


def find(path_or_name):
    """Returns where a checkpoint is on this machine, as `keras_bert.load` finds it. Nothing is downloaded.

    Args:
        path_or_name: a path, or the name of a folder in `$KERAS_BERT_MODELS`, of a bundled checkpoint, or a handle of
            TensorFlow Hub or Kaggle that is in the cache of its program.

    Returns:
        A `pathlib.Path`, or `None` for a name that has no folder here. A path that does not exist raises a
        `FileNotFoundError`, and so does any `pathlib.Path`.

    Example:
        find("bert_tiny_books")
    """
    name = str(path_or_name)
    for path in places(name):
        if path.exists():
            return path
    folder = _find_handle(name)
    if folder:
        return folder
    # Names on the hub have at most one slash.
    has_more_slashes = name.count("/") > 1 and "://" not in name
    looks_like_path = has_more_slashes or name.startswith(("/", ".", "~"))
    if isinstance(path_or_name, pathlib.Path) or looks_like_path:
        raise FileNotFoundError(f"{name}: no such checkpoint. Expected a directory or a .keras file{hint(name)}")
    return None


def hint(name):
    """Returns a question about the most similar name on the shelves and beside the path, or an empty string."""
    known = []
    for shelf in _shelves():
        if shelf.is_dir():
            known += [path.name for path in shelf.iterdir() if path.is_dir()]
    beside = pathlib.Path(name).parent
    if beside != pathlib.Path() and beside.is_dir():
        with contextlib.suppress(OSError):
            known += [str(path) for path in beside.iterdir() if path.is_dir()]
    found = similar(name, known)
    if not found:
        return ""
    return f". Did you mean {found}?"


def _shelves():
    """Returns the folders in which a checkpoint may be found by its name."""
    own = os.environ.get("KERAS_BERT_MODELS")
    if own:
        return [pathlib.Path(own), _SHELF]
    return [_SHELF]


def _find_handle(name):
    """Returns the folder of a handle of TensorFlow Hub or Kaggle in the cache of its own program.

    A handle is https://tfhub.dev/tensorflow/bert_en_uncased_L-12_H-768_A-12/4, or kagglehub's
    tensorflow/bert/tensorFlow2/bert-en-uncased-l-12-h-768-a-12/2, also after kaggle://, or its URL. For one that is in
    no cache, an error says how to download it. `None` for other names, and for presets, which KerasHub downloads.
    """
    is_url = _URL.fullmatch(name) is not None
    if is_url and _hub_folder(name).is_dir():
        return _hub_folder(name)
    match = _KAGGLE.fullmatch(name)
    if match:
        host, *parts = match.groups()
        handle = KaggleHandle(*parts)
        if host or handle.framework.lower() in _FRAMEWORKS:
            is_preset = host == "kaggle://" and handle.framework.lower() == "keras"
            return _find_kaggle_folder(name, handle, is_preset)
    if is_url:
        raise FileNotFoundError(
            f"{name}: not in the cache of tensorflow_hub, {_hub_folder(name)} (TFHUB_CACHE_DIR). Download it with "
            f"tensorflow_hub.resolve({name!r}), or extract its archive and pass the path of the folder"
        )
    return None


def _hub_folder(url):
    """Returns the folder of a URL in the cache of tensorflow_hub."""
    default = os.path.join(tempfile.gettempdir(), "tfhub_modules")
    cache = os.environ.get("TFHUB_CACHE_DIR") or default
    digest = hashlib.sha1(url.encode(), usedforsecurity=False)
    return pathlib.Path(cache) / digest.hexdigest()


class KaggleHandle(NamedTuple):
    """The parts of a handle of kagglehub."""

    owner: str
    model: str
    framework: str
    variation: str
    version: str | None


def _find_kaggle_folder(name, handle, is_preset):
    """Returns the folder of a handle, the newest one by default; if there is none, `None` for a preset, or raises."""
    folders = _kaggle_folders(handle)
    if folders:
        return max(folders, key=lambda path: int(path.name))
    if is_preset:
        return None
    text = "/".join(part for part in handle if part)
    raise FileNotFoundError(
        f"{name}: not in the cache of kagglehub, {_kaggle_cache() / text} (KAGGLEHUB_CACHE). Download it with "
        f"kagglehub.model_download({text!r}), or extract its archive and pass the path of the folder"
    )


def _kaggle_cache():
    cache = os.environ.get("KAGGLEHUB_CACHE") or "~/.cache/kagglehub"
    return pathlib.Path(cache).expanduser() / "models"


def _kaggle_folders(handle):
    """Returns the folders of a handle in the cache of kagglehub that are complete, all versions if it names none."""
    folders = []
    for framework in (_kaggle_cache() / handle.owner / handle.model).glob("*"):
        if framework.name.lower() != handle.framework.lower():
            continue
        for marker in (framework / handle.variation).glob(f"{handle.version or '*'}.complete"):
            folder = marker.with_suffix("")
            if marker.stem.isdigit() and folder.is_dir():
                folders.append(folder)
    return folders


def downloaded(name, revision, patterns, tried=(), check=None):
    """Returns the folder of a checkpoint; `patterns` is a function of its files that returns those to download, `tried`
    are other places of the name, `check` is called with a folder that has the config alone."""
    import huggingface_hub

    try:
        files = _files_on_hub(name, revision)
        fetch = functools.partial(
            huggingface_hub.snapshot_download,
            name,
            revision=revision,
            local_files_only=files is None,
        )
        if check is not None and CONFIG in (files or ()):
            check(pathlib.Path(fetch(allow_patterns=[CONFIG])))
        return pathlib.Path(fetch(allow_patterns=patterns(files or [])))
    except (other_models.OtherModelError, other_models.UnknownModelError):
        raise
    except Exception as error:  # The hub, the network and the name check raise different types.
        question = hint(name)
        reason = first_line(error)
        if isinstance(error, huggingface_hub.errors.LocalEntryNotFoundError):
            reason = f"no network, and not in its cache: {OFFLINE}"
            if name.startswith("bert-") and "/" not in name and not question:
                reason += f"; there its name is google-bert/{name}"
        looked_at = [f"the path {path}" for path in places(name)]
        raise ValueError(
            f"{name}: no such checkpoint{question}. "
            f"Tried: {', '.join([*looked_at, *tried])}, the Hugging Face hub ({reason})".replace("?.", "?")
        ) from None  # The hub's traceback is long, and says no more.


def _files_on_hub(name, revision):
    """Returns the files of a repository of the hub, `None` if it does not answer.

    A download would wait for minutes on a network that leads nowhere.
    """
    import huggingface_hub

    try:
        info = huggingface_hub.model_info(name, revision=revision, timeout=_ANSWER_S)
    except huggingface_hub.errors.HfHubHTTPError:
        return []
    except Exception:  # Those of the network and of names that no repository has.
        return None
    return [file.rfilename for file in info.siblings or ()]

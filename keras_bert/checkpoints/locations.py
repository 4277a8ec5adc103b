"""Where `keras_bert.load` looks for the folder of a name, and the JSON files there.

Needs no Keras, so that commands find mistakes at once.
"""

import hashlib
import os
import pathlib
import re
import tempfile

from keras_bert.checks import similar
from keras_bert.files import read_object

# A wheel contains the bundled checkpoints inside the package; a checkout has them next to it.
_PACKAGE = pathlib.Path(__file__).parents[1]
_SHELF = _PACKAGE / "saved_models"
if not _SHELF.is_dir():
    _SHELF = _PACKAGE.parent / "saved_models"
OFFLINE = "models in the folder KERAS_BERT_MODELS load without one"
CONFIG = "config.json"  # Hugging Face's name.
_URL = re.compile(r"https?://(?:www\.)?(?:tfhub\.dev|kaggle\.com)/.+")
_PART = r"(\w[\w.-]*)"
_KAGGLE = re.compile(
    rf"(kaggle://|https?://(?:www\.)?kaggle\.com/models/)?{_PART}/{_PART}/(?:frameworks/)?{_PART}/(?:variations/)?{_PART}"
    r"(?:/(?:versions/)?(\d+))?/?"
)
_FRAMEWORKS = ("tensorflow1", "tensorflow2", "keras", "pytorch", "transformers")


def places(name):
    """Returns the paths at which a name may be found."""
    return list(dict.fromkeys([pathlib.Path(name).expanduser(), *(folder / name for folder in _shelves())]))


def find(path_or_name):
    """Returns the path of a checkpoint, or `None` for a name without one; raises an error for a missing path."""
    name = str(path_or_name)
    for path in places(name):
        if path.exists():
            return path
    if folder := find_handle(name):
        return folder
    # Names on the hub have at most one slash.
    several = name.count("/") > 1 and "://" not in name
    if isinstance(path_or_name, pathlib.Path) or several or name.startswith(("/", ".", "~")):
        raise FileNotFoundError(f"{name}: no such checkpoint. Expected a directory or a .keras file{hint(name)}")
    return None


def hint(name):
    """Returns a question about the most similar name on the shelves, or an empty string."""
    known = [path.name for folder in _shelves() if folder.is_dir() for path in folder.iterdir() if path.is_dir()]
    return f". Did you mean {found}?" if (found := similar(name, known)) else ""


def _shelves():
    own = os.environ.get("KERAS_BERT_MODELS")
    return [*([pathlib.Path(own)] if own else []), _SHELF]


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


def find_handle(name):
    """Returns the folder of a handle of TensorFlow Hub or Kaggle in the cache of its own program.

    Returns `None` for another name, and for a preset of KerasHub, which KerasHub downloads.

    Raises `FileNotFoundError`, which says how to download it, for a handle that is in no cache.

    Args:
        name: str, such as https://tfhub.dev/tensorflow/bert_en_uncased_L-12_H-768_A-12/4,
            tensorflow/bert/tensorFlow2/bert-en-uncased-l-12-h-768-a-12/2 (kagglehub's), also after kaggle://, or its
            URL.
    """
    is_url, match = _URL.fullmatch(name), _KAGGLE.fullmatch(name)
    if is_url and (folder := _hub_folder(name)).is_dir():
        return folder
    if not match or not (match[1] or match[4].lower() in _FRAMEWORKS):
        if is_url:
            raise FileNotFoundError(
                f"{name}: not in the cache of tensorflow_hub, {folder} (TFHUB_CACHE_DIR). Download it with "
                f"tensorflow_hub.resolve({name!r}), or extract its archive and pass the path of the folder"
            )
        return None
    owner, model, framework, variation, version = match.groups()[1:]
    if place := _kaggle_folder(owner, model, framework, variation, version):
        return place
    if match[1] == "kaggle://" and framework.lower() == "keras":
        return None
    handle = "/".join(part for part in match.groups()[1:] if part)
    raise FileNotFoundError(
        f"{name}: not in the cache of kagglehub, {_kaggle_cache() / handle} (KAGGLEHUB_CACHE). Download it with "
        f"kagglehub.model_download({handle!r}), or extract its archive and pass the path of the folder"
    )


def _hub_folder(url):
    """Returns the folder of a URL in the cache of tensorflow_hub."""
    cache = os.environ.get("TFHUB_CACHE_DIR") or os.path.join(tempfile.gettempdir(), "tfhub_modules")
    return pathlib.Path(cache) / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()


def _kaggle_cache():
    return pathlib.Path(os.environ.get("KAGGLEHUB_CACHE") or "~/.cache/kagglehub").expanduser() / "models"


def _kaggle_folder(owner, model, framework, variation, version):
    """Returns the folder in the cache of kagglehub, `None` if it has none that is complete; by default the newest."""
    frameworks = [
        path for path in (_kaggle_cache() / owner / model).glob("*") if path.name.lower() == framework.lower()
    ]
    markers = [path for folder in frameworks for path in (folder / variation).glob(f"{version or '*'}.complete")]
    folders = [path.with_suffix("") for path in markers if path.stem.isdigit() and path.with_suffix("").is_dir()]
    return max(folders, key=lambda path: int(path.name), default=None)

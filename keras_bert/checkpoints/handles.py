"""Handles of models of TensorFlow Hub and Kaggle, found in the caches of their own programs. Needs no Keras."""

import hashlib
import os
import pathlib
import re
import tempfile

_URL = re.compile(r"https?://(?:www\.)?(?:tfhub\.dev|kaggle\.com)/.+")
_PART = r"(\w[\w.-]*)"
_KAGGLE = re.compile(
    rf"(kaggle://|https?://(?:www\.)?kaggle\.com/models/)?{_PART}/{_PART}/(?:frameworks/)?{_PART}/(?:variations/)?{_PART}"
    r"(?:/(?:versions/)?(\d+))?/?"
)
_FRAMEWORKS = ("tensorflow1", "tensorflow2", "keras", "pytorch", "transformers")


def find(name):
    """Returns the folder of a handle, or `None` for another name and for a preset of KerasHub, which it downloads.

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

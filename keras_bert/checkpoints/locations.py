"""Where `keras_bert.load` looks for the folder of a name. Needs no Keras, so that commands find mistakes at once."""

import os
import pathlib

from keras_bert.checkpoints import handles
from keras_bert.checks import similar

# A wheel contains the bundled checkpoints inside the package; a checkout has them next to it.
_PACKAGE = pathlib.Path(__file__).parents[1]
_SHELF = _PACKAGE / "saved_models"
if not _SHELF.is_dir():
    _SHELF = _PACKAGE.parent / "saved_models"
OFFLINE = "models in the folder KERAS_BERT_MODELS load without one"


def places(name):
    """Returns the paths at which a name may be found."""
    return list(dict.fromkeys([pathlib.Path(name).expanduser(), *(folder / name for folder in _shelves())]))


def find(path_or_name):
    """Returns the path of a checkpoint, or `None` for a name without one; raises an error for a missing path."""
    name = str(path_or_name)
    for path in places(name):
        if path.exists():
            return path
    if folder := handles.find(name):
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

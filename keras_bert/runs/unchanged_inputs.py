"""What the runs of a folder started from: models, data and settings, which must be the same when they resume.

Needs no Keras, so that commands find mistakes at once.
"""

import pathlib
import re

from keras_bert.files import difference, read_json, write_json

COMMON = "runs/common.json"  # The settings that all runs of a folder share.
_FILE = "origins.json"
_HASHES = {
    "weights": "the weights",
    "vocabulary": "the vocabulary",
    "source": "the passages",
    "content": "the content",
}


def check_unchanged(folder, origins, *, write=True):
    """Raises an error if models or data differ from those that the runs of a folder started from, stored there.

    Args:
        folder: path of the folder; the facts of the first call for a name are stored in it.
        origins: dict of facts by name, JSON values such as `LoadedBert.identity`, or `{"content": hash}` of a file.
        write: bool, whether this process writes files. Defaults to `True`.

    Example:
        check_unchanged("runs/study", {"train.csv": {"content": keras_bert.files.file_hash("train.csv")}})
    """
    path = pathlib.Path(folder, _FILE)
    before = read_json(path) if path.exists() else {}
    for name, facts in origins.items():
        changed = differences(facts, before.get(name, facts))
        if changed:
            raise ValueError(
                f"{folder} contains runs that started from another version of {name}. Different now: "
                f"{'; '.join(changed)}. Restore it to resume them, or choose another `output_dir` for new runs"
            )
    if write and origins.keys() - before.keys():
        write_json(path, before | origins)


def check_same_settings(folder, settings, names=None):
    """Raises an error if settings differ from those that the runs of a folder share; there may be no runs.

    `names` are what messages call settings, by their names.
    """
    path = pathlib.Path(folder, COMMON)
    if not path.exists():
        return
    differs = difference(read_json(path), settings)
    if differs:
        names = names or {}
        differs = re.sub("`([^`]*)`", lambda name: f"`{names.get(name[1], name[1])}`", differs)
        raise ValueError(
            f"{path.parent} contains runs with other settings: {differs}. Use the same ones or another directory"
        )


def check_known_settings(folder, known):
    """Same as `check_same_settings` for some of the settings, before all of them are known."""
    path = pathlib.Path(folder, COMMON)
    if path.exists():
        settings = read_json(path)
        for name in settings:
            if name in known:
                settings[name] = known[name]
        check_same_settings(folder, settings)


def differences(first, second):
    """Returns which values of two dicts differ, as texts; hashes are not shown."""
    differing = []
    for name in dict.fromkeys([*first, *second]):
        value = first.get(name)
        other = second.get(name)
        if value == other:
            continue
        if isinstance(value, dict) and isinstance(other, dict):
            differing.extend(differences(value, other))
        elif name in _HASHES:
            differing.append(_HASHES[name])
        else:
            differing.append(f"`{name}`, {_value_text(first, name)} instead of {_value_text(second, name)}")
    return differing


def _value_text(facts, name):
    """Returns a value as text; facts have no defaults."""
    return repr(facts[name]) if name in facts else "its default"

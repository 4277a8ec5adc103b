"""What the runs of a folder started from: models and data, which must be the same when they resume."""

import pathlib

from keras_bert.files import read_json, write_json

_FILE = "origins.json"
_HASHES = {"weights": "the weights", "vocabulary": "the vocabulary", "source": "the passages", "content": "the content"}


def check_unchanged(folder, origins, write=True):
    """Raises an error if models or data differ from those that the runs of a folder started from, stored there.

    `origins` has by name facts such as `LoadedBert.identity`; `write` tells whether this process writes files.
    """
    path = pathlib.Path(folder, _FILE)
    before = read_json(path) if path.exists() else {}
    for name, facts in origins.items():
        if found := differences(facts, before.get(name, facts)):
            raise ValueError(
                f"{folder} contains runs that started from another version of {name}. Different now: "
                f"{'; '.join(found)}. Restore it to resume them, or choose another `output_dir` for new runs"
            )
    if write and origins.keys() - before.keys():
        write_json(path, {**before, **origins})


def differences(first, second):
    """Returns which values of two dicts differ, as texts; hashes are not shown."""
    differing = []
    for name in dict.fromkeys([*first, *second]):
        value, other = first.get(name), second.get(name)
        if value == other:
            continue
        if isinstance(value, dict) and isinstance(other, dict):
            differing += differences(value, other)
        else:
            values = (repr(facts[name]) if name in facts else "its default" for facts in (first, second))
            differing.append(_HASHES.get(name) or f"`{name}`, {' instead of '.join(values)}")
    return differing

"""What lies in a folder of models: `<model>/<version number>/saved_model.pb`, beside checkpoints."""

import contextlib


def find_models(directory):
    """(paths by version number by model, names of checkpoints: folders with `config.json` and without a version)"""
    models, checkpoints = {}, set()
    for folder in sorted(directory.iterdir()):
        if folder.is_dir() and not folder.name.startswith("."):
            numbers = _versions(folder)
            if not numbers and (folder / "config.json").is_file():
                checkpoints.add(folder.name)
            else:
                models[folder.name] = numbers
    return models, checkpoints


def _versions(folder):
    """Paths by version number; none where the folder cannot be looked into, which must not trouble the others."""
    try:
        return {int(path.name): path for path in folder.iterdir() if _is_number(path.name) and path.is_dir()}
    except OSError:
        return {}


def fingerprint(path):
    """Names, sizes and times of all files of a folder."""
    found = []
    for file in sorted(path.rglob("*")):
        with contextlib.suppress(OSError):  # Removed while we look.
            stat = file.stat()
            found.append((str(file.relative_to(path)), stat.st_size, stat.st_mtime_ns))
    return tuple(found)


def parse_labels(texts):
    """Labels of versions.

    Args:
        texts: strings `MODEL:LABEL=VERSION`.

    Returns:
        `{model: {label: version}}`.
    """
    labels = {}
    for text in texts or ():
        model, _, rest = text.partition(":")
        label, _, number = rest.partition("=")
        if not (model and label and _is_number(number)):
            raise ValueError(f"a label must be MODEL:LABEL=VERSION, such as sst2:stable=3. Received: {text}")
        labels.setdefault(model, {})[label] = int(number)
    return labels


def _is_number(text):
    return text.isascii() and text.isdigit()

"""Finds mistakes in the flags that commands share, before TensorFlow starts."""

import contextlib
import json
import os
import pathlib
import re

from keras_bert import other_models
from keras_bert.checkpoints.folder import CONFIG, Folder, downloaded, find
from keras_bert.checks import check_report_to
from keras_bert.config import named_config
from keras_bert.data.text_files import no_such_file
from keras_bert.runs.unchanged_inputs import check_known_settings

from .arguments import flag_fields

_PLACES = ("output_dir", "output", "index")
_PRESET = re.compile(r"kaggle://.*|bert_\w+_(en|zh|multi)(_\w+)?")  # KerasHub's, which needs TensorFlow to list them.


def find_mistakes(arguments, check=None):
    """Raises an error for mistakes in the flags that commands share, and those that the `check` of a command finds."""
    arguments.check_conditions()
    _check_places(arguments)
    if check:
        check(arguments)
    _check_models(arguments)
    _check_earlier_runs(arguments)


def _check_places(arguments):
    """Raises an error for a file that is not there, a place that cannot be written, and a missing logger."""
    for name, field in flag_fields(type(arguments)).items():
        if field.metadata["is_file"]:
            check_files(name, getattr(arguments, name))
        if name in _PLACES:
            _check_place(name, getattr(arguments, name))
    check_report_to(getattr(arguments, "report_to", ()))
    config = getattr(arguments, "config", None)
    if config and not (os.path.exists(config) or other_models.creating(config) or hasattr(arguments, "train_source")):
        named_config(config)  # Raises an error.


def _check_earlier_runs(arguments):
    """Raises an error for an output of runs with other settings, as far as these are known without the model."""
    for folder, settings in getattr(arguments, "known_settings", dict)().items():
        check_known_settings(folder, settings)


def _check_models(arguments):
    """Raises an error for a model that is not there or is none of BERT's, and for sizes that exceed the model's."""
    if getattr(arguments, "server", None):  # Its models are not here.
        return
    revision = getattr(arguments, "revision", None)
    models = getattr(arguments, "models", None) or [getattr(arguments, "model", None)]
    for model in models:
        if model:
            _check_sizes(arguments, model, _config(model, revision))
    rerank = getattr(arguments, "rerank", None)
    if rerank:
        _config(rerank)  # Raises an error for a model that is not there.
    teacher = getattr(arguments, "teacher", None)
    if teacher:
        find(teacher)  # A model, or an output of several tasks.


def check_files(name, paths):
    """Raises an error if a file or pipe does not exist; of the flag of this name, one, a list, or `None`."""
    if isinstance(paths, str):
        paths = [paths]
    for path in paths or ():
        if path and os.path.isdir(path):
            raise ValueError(f"--{name}={path} is a folder. Expected a file")
        if path and not os.path.exists(path):
            raise ValueError(f"--{name}={no_such_file(path)}")


def is_first_worker():
    """Returns whether this process is the first one of those in `TF_CONFIG`, as `is_chief` of its strategy."""
    with contextlib.suppress(ValueError, KeyError, TypeError):  # `create_strategy` reports what is malformed.
        config = json.loads(os.environ.get("TF_CONFIG", ""))
        first = "chief" if "chief" in config["cluster"] else "worker"
        return (config["task"]["type"], config["task"]["index"]) == (first, 0)
    return True


def _check_place(name, path):
    """Raises an error if nothing can be written to a place; creates nothing."""
    if not path:
        return
    if name == "output" and os.path.isdir(path):
        raise ValueError(f"--output must be a file. Received: the folder {path}")
    path = pathlib.Path(path).expanduser().absolute()
    folder = path
    expected = "a folder"
    if name == "output":
        folder = path.parent
        expected = "in a folder"
    existing = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return
    problem = "not writable" if existing.is_dir() else "a file"
    raise ValueError(
        f"--{name} must be {expected} to which files can be written. Received: {path}; {existing} is {problem}"
    )


def _config(model, revision=None):
    """Returns the content of the config of a model of this package, empty if it has another layout."""
    path = find(model)
    if path is None and (other_models.creating(model) or _PRESET.fullmatch(model)):
        return {}
    folder = Folder(path or downloaded(model, revision, lambda files: [CONFIG]))
    config = folder.config or folder.json("bert_config.json")
    try:
        other_models.check_folder(folder)
    except other_models.OtherModelError:  # Of a wing, whose commands open it.
        return {}
    return config


def local_config(model):
    """Returns the content of the config of a model in a folder, empty for any other."""
    path = find(model)
    if path is None or not path.is_dir():
        return {}
    return Folder(path).config or {}


def _check_sizes(arguments, model, config):
    """Raises an error for more tokens or frozen blocks than a model has."""
    _check_lengths(arguments, model, config)
    frozen = getattr(arguments, "freeze_layers", None)
    blocks = getattr(arguments, "student_layers", None)
    if not blocks:
        blocks = config.get("num_hidden_layers", config.get("n_layers"))
    if frozen is not None and isinstance(blocks, int) and not 0 <= frozen <= blocks:
        raise ValueError(f"--freeze_layers: expected from 0 to {blocks}, the number of blocks. Received: {frozen}")


def _check_lengths(arguments, model, config):
    """Raises an error for more tokens than a model has positions, if it has learned them."""
    facts = config.get("keras_bert")
    limit = config.get("max_position_embeddings")
    if isinstance(facts, dict) and facts.get("positions", "learned") != "learned":
        return
    if not isinstance(limit, int):  # Not known.
        return
    length = getattr(arguments, "sequence_length", None) or 0
    longest_phase = max((phase["length"] for phase in getattr(arguments, "phase_settings", ())), default=0)
    if max(length, longest_phase) > limit:
        flag = "sequence_length" if length >= longest_phase else "phases"
        received = max(length, longest_phase)
        raise ValueError(
            f"--{flag}: expected at most {limit}, the number of positions of {model}. Received: {received}"
        )

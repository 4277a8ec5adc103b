"""Finds a checkpoint by path or name and opens it.

A new format is a file with the functions `fits` and `read`, and its line in `FORMATS`.
"""

import os
import re

from keras_bert import other_models
from keras_bert.checkpoints import (
    google,
    huggingface,
    keras_file,
    keras_hub,
    locations,
    model_garden,
    peft,
    sentence_transformers,
    tokenizer_files,
    weight_files,
)
from keras_bert.checkpoints.folder import CONFIG, Folder, Options
from keras_bert.checkpoints.loaded import LoadedModels
from keras_bert.checkpoints.tensors import Checkpoint, check_sizes, with_head
from keras_bert.checks import explaining
from keras_bert.heads.registry import head_named

# The first one that fits a folder reads it.
FORMATS = (peft, model_garden, google, keras_file, keras_hub, huggingface)


def open_checkpoint(path_or_name, revision=None, head=None, base=None, tokenizer="auto") -> Checkpoint:
    """Opens a checkpoint of any format: its config, tensors and metadata; for the arguments see `keras_bert.load`."""
    if head is not None:
        head_named(head)  # Raises an error.
    if keras_hub.is_model(path_or_name):
        _check_no_revision(path_or_name, revision)
        checkpoint = with_head(keras_hub.read_model(path_or_name), head)
    elif isinstance(path_or_name, str | os.PathLike) and str(path_or_name):
        path = locations.find(path_or_name)
        if path:
            _check_no_revision(path_or_name, revision)
        checkpoint = _open(str(path_or_name), path, revision, Options(head, base, tokenizer, _open))
    else:
        expected = "a path or a name such as 'google-bert/bert-base-uncased'"
        raise ValueError(f"`path_or_name` must be {expected}. Received: path_or_name={path_or_name!r}")
    checkpoint.metadata = tokenizer_files.replaced(tokenizer, checkpoint.metadata)
    config = checkpoint.config
    check_sizes(checkpoint.name, {**vars(config), "max_position_embeddings": config.position_rows}, checkpoint.tensors)
    _check_vocabulary(checkpoint)
    return checkpoint


def load_models(path_or_name, *, dtype=None, **encoder_options):
    """Returns the `LoadedModels` of a checkpoint."""
    return LoadedModels(open_checkpoint(path_or_name), dtype=dtype, **encoder_options)


def _check_no_revision(name, revision):
    if revision is not None:
        raise ValueError(f"`revision` is for names on the Hugging Face hub. Received: revision={revision!r} for {name}")


def _open(name, path, revision, options):
    """Returns the `Checkpoint` at a path, or that of a name if the path is `None`."""
    if path:
        return _open_path(path, options)
    tried = []
    other_models.check_name(name)
    is_kaggle = name.startswith("kaggle://")
    if is_kaggle or re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", name):  # Other names do not import keras-hub.
        if is_kaggle or name in keras_hub.preset_names():
            _check_no_revision(name, revision)
            return keras_hub.read_preset(name, options.head)
        tried.append("KerasHub's BERT presets")
    return _open_path(download(name, revision, tried, lambda path: other_models.check_folder(Folder(path))), options)


def download(name, revision=None, tried=(), check=None):
    """Returns the folder of a checkpoint on the Hugging Face hub, see `locations.download`."""

    def patterns(files):
        jsons = (CONFIG, peft.CONFIG, *tokenizer_files.FILES, *sentence_transformers.DOWNLOADS)
        return [*jsons, *weight_files.downloads(files)]

    return locations.download(name, revision, patterns, tried, check)


@explaining
def _open_path(path, options):
    folder = Folder(path)
    if not peft.fits(folder):
        if options.base is not None:
            raise ValueError(
                f"`base` is only for adapters, folders with {peft.CONFIG}. Received: base={options.base!r} for {path}"
            )
        other_models.check_folder(folder.transformer)
    found = next((each for each in FORMATS if each.fits(folder)), None)
    if found is None:
        _refuse(path)
    return found.read(folder, options)


def _refuse(path):
    """Raises an error for a path at which there is no checkpoint."""
    if not path.is_dir():
        raise ValueError(f"{path}: expected a directory or a .keras file. Received: another kind of file")
    raise FileNotFoundError(
        f"{path}: not a checkpoint. Expected {CONFIG} with {weight_files.WEIGHTS}, "
        f"{weight_files.TORCH} or tf_model.h5 (Hugging Face), {google.CONFIG} with bert_model.ckpt.* (Google), "
        f"{peft.CONFIG} with {peft.WEIGHTS} (a LoRA adapter), an encoder's SavedModel (TensorFlow Hub), or "
        f"{keras_file.KERAS_FILE}{_hint(path)}"
    )


def _hint(path):
    inner = path / "model"  # The commands write the model into a folder of their output.
    if (inner / CONFIG).is_file():
        return f". Did you mean {inner}?"
    is_exported = any(any(path.glob(f"{folder}saved_model.pb")) for folder in ("", "*/", "*/*/"))
    return ". A SavedModel is opened by `tf.saved_model.load`, or served" if is_exported else ""


def _check_vocabulary(checkpoint):
    vocabulary, rows = checkpoint.metadata.vocabulary, checkpoint.config.vocab_size
    if vocabulary is not None and len(vocabulary) > rows:
        raise ValueError(
            f"{checkpoint.name}: the vocabulary has {len(vocabulary)} pieces, more than the token table's "
            f"vocab_size={rows} rows. Expected the vocabulary that the model was trained with"
        )

"""Finds a checkpoint by path or name and opens it.

A new format is a file with the functions `fits` and `read`, and its line in `FORMATS`.
"""

import logging
import os

from keras_bert import other_models
from keras_bert.checkpoints import (
    google,
    huggingface,
    keras_file,
    keras_hub,
    model_garden,
    peft,
    sentence_transformers,
    tokenizer_files,
    weight_files,
)
from keras_bert.checkpoints.folder import CONFIG, Folder, Options, downloaded, find
from keras_bert.checkpoints.loaded import LoadedModels
from keras_bert.checkpoints.tensors import Checkpoint, is_of_head
from keras_bert.checks import explaining
from keras_bert.heads.registry import NO_HEAD, head_named

_LOG = logging.getLogger("keras_bert")
_ENCODER = ("embeddings.", "encoder.", "pooler.")  # Prefixes of the encoder's tensors.
# The first one that fits a folder, or a name without one, reads it.
FORMATS = (
    peft,
    other_models,
    model_garden,
    google,
    keras_file,
    keras_hub,
    sentence_transformers,
    huggingface,
)


def open_checkpoint(path_or_name, revision=None, head=None, base=None, tokenizer="auto") -> Checkpoint:
    """Opens a checkpoint of any format: its config, tensors and metadata; for the arguments see `keras_bert.load`."""
    if head is not None:
        head_named(head)  # Raises an error for an unknown one.
    if keras_hub.is_model(path_or_name):
        _check_no_revision(path_or_name, revision)
        checkpoint = _with_head(keras_hub.read_model(path_or_name), head)
    elif isinstance(path_or_name, str | os.PathLike) and str(path_or_name):
        checkpoint = _open(path_or_name, revision, Options(head, base, tokenizer, _open))
    else:
        expected = "a path or a name such as 'google-bert/bert-base-uncased'"
        raise ValueError(f"`path_or_name` must be {expected}. Received: path_or_name={path_or_name!r}")
    if tokenizer != "auto":
        metadata = tokenizer_files.with_chosen_tokenizer(checkpoint.metadata, tokenizer)
        checkpoint = checkpoint.replace(metadata=metadata)
    return checkpoint


def load_models(path_or_name, *, dtype=None, **encoder_options):
    """Returns the `LoadedModels` of a checkpoint."""
    return LoadedModels(open_checkpoint(path_or_name), dtype=dtype, **encoder_options)


def _open(path_or_name, revision, options):
    """Opens a path or a name; also the base of an adapter."""
    folder = Folder(find(path_or_name) or path_or_name)
    file_format = _format_of(folder)
    if file_format is None and not folder.path.exists():
        folder = _downloaded_folder(str(folder), revision)
        file_format = _format_of(folder)
    else:
        _check_no_revision(path_or_name, revision)
    if options.base is not None and file_format is not peft:
        raise ValueError(
            f"`base` is only for adapters, folders with {peft.CONFIG}. Received: base={options.base!r} for {folder}"
        )
    if file_format is None:
        _refuse(folder.path)
    checkpoint = explaining(file_format.read)(folder, options)
    return _with_head(checkpoint, options.head)


def _downloaded_folder(name, revision):
    """Returns the `Folder` of a checkpoint on the Hugging Face hub."""
    tried = []
    if keras_hub.may_be_preset(name):
        tried.append("KerasHub's BERT presets")
    return Folder(download(name, revision, tried, _check_no_other_model))


def _check_no_other_model(path):
    other_models.check_folder(Folder(path))


def _with_head(checkpoint, head):
    """Returns a checkpoint with the head that `load` was asked for, if any.

    `NO_HEAD` leaves out all tensors of heads, and names unknown ones.
    """
    if head is None:
        return checkpoint
    if head != checkpoint.metadata.head:
        metadata = checkpoint.metadata.replace(head=head, head_options=None)
        checkpoint = checkpoint.replace(metadata=metadata)
    if head != NO_HEAD:
        return checkpoint
    tensors = {}
    unknown = []
    for name, tensor in checkpoint.tensors.items():
        if name.startswith(_ENCODER):
            tensors[name] = tensor
        elif not is_of_head(name):
            unknown.append(name)
    if unknown:
        _LOG.warning(
            "%s: left out, as they are not of the encoder: %s",
            checkpoint.name,
            ", ".join(sorted(unknown)),
        )
    return checkpoint.replace(tensors=tensors)


@explaining
def _format_of(folder):
    """Returns the first format that fits a folder, or `None`."""
    for file_format in FORMATS:
        if file_format.fits(folder):
            return file_format
    return None


def _check_no_revision(name, revision):
    if revision is not None:
        raise ValueError(f"`revision` is for names on the Hugging Face hub. Received: revision={revision!r} for {name}")


def download(name, revision=None, tried=(), check=None):
    """Returns the folder of a checkpoint on the Hugging Face hub, see `folder.downloaded`."""

    def patterns(files):
        return [
            CONFIG,
            peft.CONFIG,
            *tokenizer_files.FILES,
            *sentence_transformers.DOWNLOADS,
            *weight_files.downloads(files),
        ]

    return downloaded(name, revision, patterns, tried, check)


def _refuse(path):
    """Raises an error for a path at which there is no checkpoint."""
    if not path.is_dir():
        raise ValueError(f"{path}: expected a directory or a .keras file. Received: another kind of file")
    inner = path / "model"  # The commands write the model into a folder of their output.
    hint = ""
    if (inner / CONFIG).is_file():
        hint = f". Did you mean {inner}?"
    elif _has_saved_model(path):
        hint = ". A SavedModel is opened by `tf.saved_model.load`, or served"
    raise FileNotFoundError(
        f"{path}: not a checkpoint. Expected {CONFIG} with {weight_files.WEIGHTS}, "
        f"{weight_files.TORCH} or tf_model.h5 (Hugging Face), {google.CONFIG} with bert_model.ckpt.* (Google), "
        f"{peft.CONFIG} with {peft.WEIGHTS} (a LoRA adapter), an encoder's SavedModel (TensorFlow Hub), or "
        f"{keras_file.KERAS_FILE}{hint}"
    )


def _has_saved_model(path):
    """Returns whether a directory has a SavedModel, also in folders of a server: a name and a version."""
    for pattern in ("saved_model.pb", "*/saved_model.pb", "*/*/saved_model.pb"):
        if any(path.glob(pattern)):
            return True
    return False

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
FORMATS = (peft, other_models, model_garden, google, keras_file, keras_hub, sentence_transformers, huggingface)


def open_checkpoint(path_or_name, revision=None, head=None, base=None, tokenizer="auto") -> Checkpoint:
    """Opens a checkpoint of any format: its config, tensors and metadata; for the arguments see `keras_bert.load`."""
    if head is not None:
        head_named(head)  # Raises an error.
    if keras_hub.is_model(path_or_name):
        _check_no_revision(path_or_name, revision)
        checkpoint = _with_head(keras_hub.read_model(path_or_name), head)
    elif isinstance(path_or_name, str | os.PathLike) and str(path_or_name):
        checkpoint = _open(path_or_name, revision, Options(head, base, tokenizer, _open))
    else:
        expected = "a path or a name such as 'google-bert/bert-base-uncased'"
        raise ValueError(f"`path_or_name` must be {expected}. Received: path_or_name={path_or_name!r}")
    if tokenizer != "auto":
        checkpoint = checkpoint.replace(metadata=tokenizer_files.with_chosen_tokenizer(checkpoint.metadata, tokenizer))
    return checkpoint


def load_models(path_or_name, *, dtype=None, **encoder_options):
    """Returns the `LoadedModels` of a checkpoint."""
    return LoadedModels(open_checkpoint(path_or_name), dtype=dtype, **encoder_options)


def _open(path_or_name, revision, options):
    """Opens a path or a name; also the base of an adapter."""
    folder = Folder(find(path_or_name) or path_or_name)
    found = _format_of(folder)
    if found is None and not folder.path.exists():
        tried = ["KerasHub's BERT presets"] if keras_hub.may_be_preset(str(folder)) else []
        folder = download(str(folder), revision, tried, lambda path: other_models.check_folder(Folder(path)))
        found = _format_of(folder := Folder(folder))
    else:
        _check_no_revision(path_or_name, revision)
    if options.base is not None and found is not peft:
        raise ValueError(
            f"`base` is only for adapters, folders with {peft.CONFIG}. Received: base={options.base!r} for {folder}"
        )
    if found is None:
        _refuse(folder.path)
    return _with_head(explaining(found.read)(folder, options), options.head)


def _with_head(checkpoint, head):
    """Returns a checkpoint with the head that `load` was asked for, if any.

    `NO_HEAD` leaves out all tensors of heads, and names unknown ones.
    """
    if head is None:
        return checkpoint
    if head != checkpoint.metadata.head:
        checkpoint = checkpoint.replace(metadata=checkpoint.metadata.replace(head=head, head_options=None))
    if head != NO_HEAD:
        return checkpoint
    tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if name.startswith(_ENCODER)}
    if unknown := sorted(name for name in checkpoint.tensors if name not in tensors and not is_of_head(name)):
        _LOG.warning("%s: left out, as they are not of the encoder: %s", checkpoint.name, ", ".join(unknown))
    return checkpoint.replace(tensors=tensors)


@explaining
def _format_of(folder):
    return next((each for each in FORMATS if each.fits(folder)), None)


def _check_no_revision(name, revision):
    if revision is not None:
        raise ValueError(f"`revision` is for names on the Hugging Face hub. Received: revision={revision!r} for {name}")


def download(name, revision=None, tried=(), check=None):
    """Returns the folder of a checkpoint on the Hugging Face hub, see `folder.downloaded`."""

    def patterns(files):
        jsons = (CONFIG, peft.CONFIG, *tokenizer_files.FILES, *sentence_transformers.DOWNLOADS)
        return [*jsons, *weight_files.downloads(files)]

    return downloaded(name, revision, patterns, tried, check)


def _refuse(path):
    """Raises an error for a path at which there is no checkpoint."""
    if not path.is_dir():
        raise ValueError(f"{path}: expected a directory or a .keras file. Received: another kind of file")
    inner, hint = path / "model", ""  # The commands write the model into a folder of their output.
    if (inner / CONFIG).is_file():
        hint = f". Did you mean {inner}?"
    elif any(any(path.glob(f"{folder}saved_model.pb")) for folder in ("", "*/", "*/*/")):
        hint = ". A SavedModel is opened by `tf.saved_model.load`, or served"
    raise FileNotFoundError(
        f"{path}: not a checkpoint. Expected {CONFIG} with {weight_files.WEIGHTS}, "
        f"{weight_files.TORCH} or tf_model.h5 (Hugging Face), {google.CONFIG} with bert_model.ckpt.* (Google), "
        f"{peft.CONFIG} with {peft.WEIGHTS} (a LoRA adapter), an encoder's SavedModel (TensorFlow Hub), or "
        f"{keras_file.KERAS_FILE}{hint}"
    )

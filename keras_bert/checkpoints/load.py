"""Finds a checkpoint by path or name and opens it."""

import os
import re
from typing import NamedTuple

import keras

from keras_bert import other_models
from keras_bert.checkpoints import (
    adapter_config,
    google,
    hub,
    huggingface,
    keras_hub,
    locations,
    peft,
    sentence_transformers,
    tokenizer_files,
    weight_files,
)
from keras_bert.checkpoints.layout import KERAS_FILE, Checkpoint, Tensor, check_sizes, encoder_of, tensors_of
from keras_bert.checkpoints.loaded import LoadedModels
from keras_bert.checks import explaining
from keras_bert.files import read_object
from keras_bert.heads.describe import describe
from keras_bert.heads.registry import NO_HEAD, head_named
from keras_bert.metadata import Metadata
from keras_bert.text.tokenizer_options import LONGEST_WORD

_HUB_FILES = [
    "config.json",
    peft.CONFIG,
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "added_tokens.json",
    "special_tokens_map.json",
    *tokenizer_files.MODELS,
    "modules.json",
    "*/config.json",
    "*sentence_bert_config.json",
    "config_sentence_transformers.json",
]


class _Options(NamedTuple):
    """Arguments of `open_checkpoint` that readers of formats take."""

    head: str | None
    base: str | os.PathLike | None
    tokenizer: str | os.PathLike | None


def open_checkpoint(path_or_name, revision=None, head=None, base=None, tokenizer="auto") -> Checkpoint:
    """Opens a checkpoint of any format: its config, tensors and metadata; for the arguments see `keras_bert.load`."""
    if head is not None:
        head_named(head)  # Raises an error.
    is_model = keras_hub.is_model(path_or_name)
    if not is_model and not (isinstance(path_or_name, str | os.PathLike) and str(path_or_name)):
        expected = "a path or a name such as 'google-bert/bert-base-uncased'"
        raise ValueError(f"`path_or_name` must be {expected}. Received: path_or_name={path_or_name!r}")
    path = None if is_model else locations.find(path_or_name)
    options = _Options(head, base, tokenizer)
    if is_model or path:
        _check_no_revision(path_or_name, revision)
    checkpoint = keras_hub.read_model(path_or_name) if is_model else _open(str(path_or_name), path, revision, options)
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
    return _open_path(download(name, revision, tried, other_models.check_folder), options)


def download(name, revision=None, tried=(), check=None):
    """Returns the folder of a checkpoint on the Hugging Face hub, see `hub.download`."""
    return hub.download(name, revision, lambda files: [*_HUB_FILES, *weight_files.downloads(files)], tried, check)


@explaining
def _open_path(path, options):
    head, base, tokenizer = options
    if path.is_dir() and peft.is_adapter(path):
        return _open_adapter(path, options)
    if base is not None:
        raise ValueError(f"`base` is only for adapters, folders with {peft.CONFIG}. Received: base={base!r} for {path}")
    if path.suffix == ".keras" and path.is_file():
        return _open_keras(path, path.parent, tokenizer)
    if not path.is_dir():
        raise ValueError(f"{path}: expected a directory or a .keras file. Received: another kind of file")
    folder = path if (path / huggingface.CONFIG).is_file() else sentence_transformers.transformer_folder(path)
    other_models.check_folder(folder)
    if google.is_hub(path):
        checkpoint = google.read_hub(path)
    elif google.is_google(folder) and not weight_files.has_weights(folder):
        checkpoint = google.read(folder)
        checkpoint.metadata = tokenizer_files.read_chosen(tokenizer, folder, checkpoint.metadata, LONGEST_WORD)
    elif (path / KERAS_FILE).is_file() and not (path / weight_files.WEIGHTS).is_file():
        return _open_keras(path / KERAS_FILE, path, tokenizer)
    elif not (folder / huggingface.CONFIG).is_file():
        raise FileNotFoundError(
            f"{path}: not a checkpoint. Expected {huggingface.CONFIG} with {weight_files.WEIGHTS}, "
            f"{weight_files.TORCH} or tf_model.h5 (Hugging Face), {google.CONFIG} with bert_model.ckpt.* (Google), "
            f"{peft.CONFIG} with {peft.WEIGHTS} (a LoRA adapter), an encoder's SavedModel (TensorFlow Hub), or "
            f"{KERAS_FILE}{_hint(path)}"
        )
    elif "registered_name" in read_object(folder / huggingface.CONFIG):
        return keras_hub.read_preset(path.resolve(), head)
    else:
        checkpoint = huggingface.read(folder, head)
        longest_word = [LONGEST_WORD] if huggingface.is_ours(folder) else []
        checkpoint.metadata = tokenizer_files.read_chosen(tokenizer, folder, checkpoint.metadata, *longest_word)
        if head is None or head_named(head).sentence_transformers:
            checkpoint = sentence_transformers.read(path, checkpoint, head)
    if head is not None:
        checkpoint.metadata = checkpoint.metadata.replace(head=head)
    return encoder_of(checkpoint) if head == NO_HEAD else checkpoint


def _open_adapter(path, options):
    """Opens an adapter, merged into the model that it was trained on."""
    head, base, tokenizer = options
    settings = adapter_config.read(path)
    name = base or settings.get("base_model_name_or_path")
    if not name:
        raise ValueError(f"{path / peft.CONFIG} does not name a base model. Pass it: load(..., base=path_or_name)")
    inner = path / name
    place = inner if base is None and inner.is_dir() else name
    try:
        folder = locations.find(place)
        if folder is not None and folder.resolve() == path.resolve():
            raise ValueError(f"{name} is the adapter itself")
        opened = _open(str(place), folder, settings.get("revision"), options._replace(base=None))
    except (ValueError, OSError) as error:
        raise ValueError(f"{path}: its base model cannot be opened; load(..., base=) takes another: {error}") from error
    checkpoint = peft.read(path, settings, opened, head)
    ours = (path / huggingface.CONFIG).is_file() and huggingface.is_ours(path)
    longest_word = [LONGEST_WORD] if ours else []
    checkpoint.metadata = tokenizer_files.read_chosen(tokenizer, path, checkpoint.metadata, *longest_word)
    if head is not None:
        checkpoint.metadata = checkpoint.metadata.replace(head=head)
    return checkpoint


def _hint(path):
    inner = path / "model"  # The commands write the model into a folder of their output.
    if (inner / huggingface.CONFIG).is_file():
        return f". Did you mean {inner}?"
    is_exported = any(any(path.glob(f"{folder}saved_model.pb")) for folder in ("", "*/", "*/*/"))
    return ". A SavedModel is opened by `tf.saved_model.load`, or served" if is_exported else ""


def open_keras(file):
    """Returns the model of a `.keras` file."""
    try:
        return keras.saving.load_model(file, compile=False)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"{file}: Keras cannot load this file: {str(error).strip().splitlines()[0]}") from error


def _open_keras(file, directory, tokenizer):
    """Opens a `.keras` file; casing, labels and task come from JSON files in its directory, if there are any."""
    model = open_keras(file)
    try:
        description = describe(model)
    except ValueError:
        if models := other_models.named(model.name):
            raise other_models.OtherModelError(file, models) from None
        raise
    has_config = (directory / huggingface.CONFIG).is_file()
    metadata = huggingface.read_config(directory)[1] if has_config else Metadata()
    names = ("head", "causal", "positions", "tied", "multi_label", "score_activation")
    options = {name: description.options[name] for name in head_named(description.head).saved}
    settings = {name: getattr(description, name) for name in names}
    metadata = metadata.replace(**settings, head_options=options or None)
    if description.embedding:
        embedding = description.embedding
        length = metadata.sequence_length or embedding["sequence_length"]
        metadata = sentence_transformers.read_settings(directory, metadata)
        metadata = metadata.replace(**{**embedding, "sequence_length": length})
    tensors = {
        name: Tensor(name, array.shape, lambda array=array: array) for name, array in tensors_of(description).items()
    }
    metadata = tokenizer_files.read_chosen(tokenizer, directory, metadata, LONGEST_WORD)
    return Checkpoint(str(file), description.config, tensors, metadata)


def _check_vocabulary(checkpoint):
    vocabulary, rows = checkpoint.metadata.vocabulary, checkpoint.config.vocab_size
    if vocabulary is not None and len(vocabulary) > rows:
        raise ValueError(
            f"{checkpoint.name}: the vocabulary has {len(vocabulary)} pieces, more than the token table's "
            f"vocab_size={rows} rows. Expected the vocabulary that the model was trained with"
        )

"""`keras_bert.load`: finds a checkpoint by path or name and reads it."""

import math
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from keras_bert import other_models
from keras_bert.checkpoints import (
    adapter_config,
    google,
    hub,
    huggingface,
    keras_hub,
    locations,
    other_names,
    peft,
    sentence_transformers,
    tokenizer_files,
    weight_files,
)
from keras_bert.checkpoints.layout import KERAS_FILE, Checkpoint, Tensor, check_sizes, encoder_of, tensors_of
from keras_bert.checkpoints.loaded import LoadedBert
from keras_bert.checks import explaining
from keras_bert.files import read_object
from keras_bert.heads.describe import describe
from keras_bert.heads.registry import NO_HEAD, head_named, register_head
from keras_bert.memory import explain_out_of_memory
from keras_bert.metadata import Metadata
from keras_bert.models.encoder import build_encoder
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
    """Arguments of `load` about what is opened."""

    head: str | None
    base: str | os.PathLike | None
    tokenizer: str | os.PathLike | None


def load(
    path_or_name: str | os.PathLike,
    *,
    revision: str | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    head: str | None = None,
    heads: Sequence[Any] = (),
    base: str | os.PathLike | None = None,
    tokenizer: str | os.PathLike | None = "auto",
    **encoder_options,
) -> LoadedBert:
    """Loads a checkpoint from Google, Hugging Face, KerasHub or this package.

    The folder of a LoRA adapter, of peft or of this package, is merged into the model that it was trained on.

    Args:
        path_or_name: a directory, a `.keras` file, a KerasHub `BertBackbone` or `BertTextClassifier`, or a name. A name
            is looked up in `$KERAS_BERT_MODELS`, in `saved_models/` (of the checkout or of the installed package),
            among KerasHub's presets and on the Hugging Face hub, in this order.
        revision: str, branch, tag or commit on the Hugging Face hub. Defaults to `None`.
        dtype: dtype policy of the models, such as "mixed_bfloat16". Defaults to Keras' global one.
        head: str, the kind of head, see `describe`. "encoder" omits the head. Defaults to the head specified by the
            checkpoint.
        heads: list of heads of your own that the checkpoint may have, see `register_head`, which registers them for all
            functions. No code is read from a checkpoint. Defaults to none.
        base: path or name of the model that an adapter was trained on. Defaults to the one in its config, where a
            relative path may start at the adapter's folder.
        tokenizer: `None` loads the weights alone. "words" takes the vocabulary of a `BertJapaneseTokenizer`, for texts
            whose words are separated by spaces. A path or handle is that of another folder with a tokenizer, such as
            the preprocessing of TensorFlow Hub. Defaults to "auto": the checkpoint's own.
        **encoder_options: more arguments of `build_encoder`, such as `remat` or `hidden_states`; `num_layers` takes
            only this number of evenly spaced layers, see `take_layers`.

    Returns:
        A `LoadedBert`. Other models are refused with the name of the function that opens them, such as
        `keras_bert.translation.load` for encoder-decoders.

    Example:
        bert = keras_bert.load("google-bert/bert-base-uncased")
        model = keras_bert.build_classifier(bert.encoder, num_classes=2)
    """
    for own in heads:
        register_head(own)
    if head is not None:
        head_named(head)  # Raises an error.
    _check_dtype(dtype)
    checkpoint = open_checkpoint(path_or_name, revision, head, base, tokenizer)
    _check_options(encoder_options)  # After other models were refused, which have options of their own.
    with explain_out_of_memory(parameters=sum(math.prod(tensor.shape) for tensor in checkpoint.tensors.values())):
        return LoadedBert(checkpoint, dtype=dtype, **encoder_options)


def _check_options(options):
    known = [*load.__kwdefaults__, *build_encoder.__kwdefaults__, "num_layers"]
    if unknown := [name for name in options if name not in known]:
        hint = other_names.hint(unknown[0], known, other_names.LOAD)
        raise ValueError(f"`load` has no argument {unknown[0]!r}. {hint}")


def _check_dtype(dtype):
    """Raises an error for a name that Keras has no dtype policy for."""
    try:
        keras.dtype_policies.get(dtype)
    except ValueError:
        name = other_names.DTYPES.get(dtype, "bfloat16")
        mixed = "" if name == "float32" else f", or 'mixed_{name}', which keeps the weights in float32"
        raise ValueError(f"`dtype` must be a dtype such as {name!r}{mixed}. Received: dtype={dtype!r}") from None


def open_checkpoint(path_or_name, revision=None, head=None, base=None, tokenizer="auto") -> Checkpoint:
    """Opens a checkpoint of any format: its config, tensors and metadata; for the arguments see `load`."""
    is_model = keras_hub.is_model(path_or_name)
    if not is_model and not (isinstance(path_or_name, str | os.PathLike) and str(path_or_name)):
        expected = "a path or a name such as 'google-bert/bert-base-uncased'"
        raise ValueError(f"`path_or_name` must be {expected}. Received: path_or_name={path_or_name!r}")
    path = None if is_model else locations.find(path_or_name)
    if is_model or path:
        _check_no_revision(path_or_name, revision)
    options = _Options(head, base, tokenizer)
    checkpoint = keras_hub.read_model(path_or_name) if is_model else _open(str(path_or_name), path, revision, options)
    checkpoint.metadata = tokenizer_files.replaced(tokenizer, checkpoint.metadata)
    config = checkpoint.config
    check_sizes(checkpoint.name, {**vars(config), "max_position_embeddings": config.position_rows}, checkpoint.tensors)
    _check_vocabulary(checkpoint)
    return checkpoint


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

"""`keras_bert.save`: writes a model as a directory that other programs can open."""

import contextlib
import dataclasses
import logging
import os
import pathlib
from collections.abc import Sequence
from typing import Any, Unpack

import keras

from keras_bert.annotations import Format, ModelSettings, WeightsDtype
from keras_bert.checkpoints import google, huggingface, peft, sentence_transformers, tokenizer_files, weight_files
from keras_bert.checkpoints.keras_file import KERAS_FILE
from keras_bert.checkpoints.model_types import checked_model_type
from keras_bert.checks import check_choice
from keras_bert.files import adding_to, check_replaceable, difference, read_object, replacing, write_json
from keras_bert.heads.class_settings import checked_labels, checked_null_threshold, checked_thresholds
from keras_bert.heads.confidence import checked_confidence
from keras_bert.heads.long_texts import check_stored_reading
from keras_bert.heads.prompts import check_prompts
from keras_bert.heads.registry import HEADS, describe
from keras_bert.metadata import Metadata
from keras_bert.models.description import Description
from keras_bert.similarity import check_function
from keras_bert.text.long_texts import READING
from keras_bert.text.vocabulary import Vocabulary

_LOG = logging.getLogger("keras_bert")
# The files of other formats that `load` would read instead of each format.
_FORMATS = {
    "huggingface": [peft.CONFIG],
    "google": [huggingface.CONFIG, peft.CONFIG],
    "keras": [*weight_files.FILES, google.CONFIG, peft.CONFIG],
    "peft": [*weight_files.FILES, google.CONFIG, KERAS_FILE],
}
# The files that tell that a directory has a model, and those that may be there before it.
_CONFIGS = (huggingface.CONFIG, google.CONFIG, peft.CONFIG, KERAS_FILE)
_OWN_FILES = (*weight_files.FILES, *tokenizer_files.FILES, "README.md")
# What makes another model of a config; the names of DistilBERT and Marian are others.
_FACTS_OF_MODELS = (
    "model_type",
    "architectures",
    "id2label",
    "vocab_size",
    "max_position_embeddings",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "embedding_size",
    "dim",
    "n_layers",
    "n_heads",
    "hidden_dim",
    "d_model",
    "encoder_layers",
    "decoder_layers",
)
# The files of `runtime_folder` besides the model.
_RUNTIME_FILES = (
    huggingface.CONFIG,
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "README.md",
    *sentence_transformers.FILES,
)


def save(
    model: keras.Model,
    directory: str | os.PathLike,
    vocabulary: Any,
    *,
    lowercase: bool | None = None,
    labels: Sequence | None = None,
    task: str | None = None,
    format: Format | None = None,
    strip_accents: bool | None = None,
    weights_dtype: WeightsDtype = "float32",
    base: str | os.PathLike | None = None,
    overwrite: bool = False,
    **settings: Unpack[ModelSettings],
) -> None:
    """Writes a model, its vocabulary and casing to a directory.

    Files are moved into place once all of them are complete; an interrupted call changes nothing. A README.md in the
    directory, such as the model card of the fine-tuning commands, is kept. A model from `build_embedder` also opens in
    sentence-transformers. An older model of the same kind in the directory is replaced, also of other weights.

    Args:
        model: a model from one of the builders.
        directory: output directory; created if it does not exist.
        vocabulary: a path, a list of tokens, a `Vocabulary`, or `None` to write none; or a `TextPreprocessor`, whose
            settings are saved with its vocabulary: casing, accents, kept tokens, `sequence_length` and
            how long texts are read.
        lowercase: bool, whether the vocabulary is uncased. Defaults to that of a `TextPreprocessor`, or else to `True`.
        labels: list of the class names, in the order of the logits. Defaults to `None`.
        task: str, name of the task that the head was trained on. Defaults to `None`.
        format: str, "huggingface" (`model.safetensors`, opens in transformers), "google" (`bert_model.ckpt`, opens in
            Google's TF 1 code, which always uses a maximum word length of 200 characters), "keras" (`model.keras`) or
            "peft" (only the adapters of `enable_lora`, pooler and head, opens in peft). Defaults to "huggingface"; for
            models of other builders, see `Family`, to the first one that they have.
        strip_accents: bool, whether to remove accents. Defaults to the vocabulary's setting, or else to `lowercase`.
        weights_dtype: str, "float32", or "float16" or "bfloat16" for half the size: `load` and transformers compute in
            float32 either way. Only for the Hugging Face format. Defaults to "float32".
        base: path or name of the model that was adapted, which `load` and peft open with an adapter. Required by the
            format "peft".
        overwrite: bool, whether another model, with another head, size, vocabulary or labels, is replaced, too, and
            whether the files are added to a directory of other things. Defaults to `False`.
        **settings: more fields of `Metadata`, such as `pair`, `sequence_length`, `long_texts`, `null_threshold`,
            `thresholds`, `confidence`, `task_settings`, `prompts`, `default_prompt_name` and `similarity_function`;
            `**bert.metadata.settings` are those of a loaded model.

    Example:
        keras_bert.save(model, "my_model", preprocessor, labels=["no", "yes"])
    """
    directory = pathlib.Path(directory).expanduser()
    description = describe(model)
    chosen = format or description.formats[0]
    _check_format(description, chosen, directory)
    _check_weights_dtype(weights_dtype, chosen)
    _check_no_other_format(directory, chosen)
    if not overwrite:
        _check_no_other_things(directory)
    form = SavedForm(chosen, weights_dtype, peft.check_base(base, chosen))
    if lowercase is None:
        lowercase = getattr(vocabulary, "lowercase", True)
    all_settings = _preprocessor_settings(vocabulary, settings) | settings
    metadata = Metadata.of_settings(lowercase=lowercase, labels=labels, task=task, **all_settings)
    if description.write is not None:
        _check_no_settings(description, metadata.replace(lowercase=True), strip_accents)
        with adding_to(directory, last=_CONFIGS) as temporary:
            description.write(temporary, vocabulary, weights_dtype)
            if not overwrite:
                _check_same_model(directory, temporary)
        return

    if vocabulary is not None:
        vocabulary = Vocabulary(vocabulary, strip_accents=strip_accents)
    elif strip_accents is not None:
        raise ValueError(f"`strip_accents` needs a `vocabulary`. Received: strip_accents={strip_accents}")
    metadata = _checked_metadata(description, metadata.replace(vocabulary=vocabulary))
    if any(layer.quantization_mode for layer in model._flatten_layers()):
        _LOG.warning("quantized tables are written dequantized, as float32; a .keras file keeps them quantized")
    stale = _stale_files(description, chosen, vocabulary)
    with adding_to(directory, last=_CONFIGS, stale=stale) as temporary:
        _write_files(model, description, metadata, temporary, form)
        if not overwrite:
            _check_same_model(directory, temporary)


@dataclasses.dataclass(frozen=True)
class SavedForm:
    """The form in which a model is written, by the arguments of `save`."""

    format: str
    weights_dtype: str
    base: str | None  # As an adapter stores it.


def _preprocessor_settings(preprocessor, settings) -> dict[str, Any]:
    """Returns the settings that a `TextPreprocessor` has; a vocabulary has none of them."""
    own = {"sequence_length": getattr(preprocessor, "sequence_length", None)}
    if "long_texts" not in settings:  # Otherwise the options of a preprocessor belong to another one.
        for name in READING:
            own[name] = getattr(preprocessor, name, None)
    return own


def _stale_files(description, format, vocabulary):
    """Returns the names of files of an older model that would be read together with the new ones."""
    names = []
    if format != "google" and vocabulary is not None:
        names += tokenizer_files.STALE
    if format != "google" and not description.embedding:
        names.append(sentence_transformers.MODULES)
    return names


def _write_files(model, description, metadata, directory, form):
    """Writes all files of a model to a new directory."""
    if form.format == "google":
        google.write(description, metadata, directory)
        return
    _write_settings(description, metadata, directory)
    if form.format == "keras":
        model.save(directory / KERAS_FILE)
    elif form.format == "peft":
        peft.write(model, description, directory, form.base, metadata.model_type)
    else:
        huggingface.write_weights(description, metadata.model_type, directory, form.weights_dtype)
        sentence_transformers.write_weights(description, directory, form.weights_dtype)


def _check_no_other_things(directory):
    """Raises an error for a directory with anything but a model, or what belongs to one, such as its vocabulary."""
    if not directory.is_dir():
        return
    names = sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))
    for name in _CONFIGS:
        if name in names and _is_config(directory / name):
            return
    others = [name for name in names if name not in _OWN_FILES]
    if others:
        raise ValueError(
            f"the directory has other things than a model: {', '.join(others[:3])}. Expected a new directory, that of "
            f"a model, or `overwrite=True`, which adds its files. Received: directory={str(directory)!r}"
        )


def _is_config(path):
    """Whether a file is that of a model; other programs have a `config.json`, too."""
    return path.name != huggingface.CONFIG or bool(_facts_of_model(path))


def _check_same_model(directory, new):
    """Raises an error if a directory has another model than a new one, whatever its weights."""
    found = _difference_of_models(directory, new)
    if found:
        raise ValueError(
            f"the directory has another model: {found:.200}. Expected another directory, or `overwrite=True`. "
            f"Received: directory={str(directory)!r}"
        )


def _difference_of_models(directory, new):
    """Returns what makes a model in a directory another one than a new one, or `None`; settings need both."""
    for name in (huggingface.CONFIG, google.CONFIG):
        if not (directory / name).is_file() or not (new / name).is_file():
            continue
        facts_before = _facts_of_model(directory / name)
        facts_now = _facts_of_model(new / name)
        shared = sorted(facts_before.keys() & facts_now.keys())
        before = {key: facts_before[key] for key in shared}
        now = {key: facts_now[key] for key in shared}
        found = difference(before, now)
        if found:
            return found

    vocabulary_before = directory / "vocab.txt"
    vocabulary_now = new / "vocab.txt"
    if vocabulary_before.is_file() and vocabulary_now.is_file():
        if vocabulary_before.read_bytes() != vocabulary_now.read_bytes():
            return "its vocab.txt has other pieces"
    return None


def _facts_of_model(path):
    """Returns the settings in a config that make another model, those of its head, its size and its classes."""
    config = read_object(path)
    facts = {}
    for name in _FACTS_OF_MODELS:
        if config.get(name) is not None:
            facts[name] = config[name]
    own = config.get("keras_bert")
    if isinstance(own, dict) and own.get("head"):
        facts["head"] = own["head"]
    return facts


def described(model, precision, precisions):
    """Returns the `Description` of a model that other runtimes can compute; raises for any other model."""
    if precision not in precisions:
        names = ", ".join(precisions)
        raise ValueError(f"`precision` must be one of {names}. Received: precision={precision!r}")
    description = describe(model)
    known = [head.name for head in HEADS if head.run is not None]
    if not isinstance(description, Description) or description.head not in known:
        raise ValueError(
            f"`model` must be a BERT with one of the heads {', '.join(known)}; SavedModels, of "
            f"`keras_bert.export` or `format=saved_model`, have no such limits. Received: model={model.name!r}"
        )
    if description.dtype != "float32":
        raise ValueError(
            "`model` must be in float32, `precision` is that of the file: load it with dtype='float32'. "
            f"Received: a model in {description.dtype}"
        )
    return description


def is_quantized(description):
    """Returns whether the Keras model rounds activations itself, which its file does not do."""
    for layer in description.layers.values():
        if any(part.quantization_mode for part in layer._flatten_layers()):
            return True
    return False


@contextlib.contextmanager
def runtime_folder(description, preprocessor, directory, file, labels, settings):
    """Yields a temporary folder with the tokenizer and the settings, which replaces `directory` at the end.

    The directory is a new one, or has an older model, `file`; `settings` are more of those of `save`.
    """
    directory = pathlib.Path(directory).expanduser()
    check_replaceable(directory, [file, *_RUNTIME_FILES])
    own = dict(settings)
    reading = {name: getattr(preprocessor, name, None) for name in READING}
    if reading["long_texts"] is not None:  # The settings may be those of the model, which others can read.
        own.update(reading)
    metadata = Metadata.of_settings(
        lowercase=preprocessor.lowercase,
        sequence_length=preprocessor.sequence_length,
        labels=labels,
        **own,
    )
    metadata = metadata.replace(vocabulary=Vocabulary(preprocessor))
    metadata = _checked_metadata(description, metadata)
    with replacing(directory) as temporary:
        temporary.mkdir()
        _write_settings(description, metadata, temporary)
        yield temporary


def _head_of(description):
    """Returns the head of a model, `None` for other models, which have their own."""
    for head in HEADS:
        if head.name == description.head:
            return head
    return None


def _check_no_settings(description, metadata, strip_accents):
    """Raises if a model whose description writes it is given settings, which it has no place for."""
    settings = metadata.settings | {"strip_accents": strip_accents}
    for name, value in settings.items():
        if value is not None and value != getattr(Metadata, name, None):
            raise ValueError(
                f"`{name}` has no meaning for a model with head={description.head!r}. Received: {name}={value!r}"
            )


def _checked_metadata(description, metadata):
    """Returns the `Metadata` of a described model, after checks: the given settings, and what the model tells."""
    vocabulary = metadata.vocabulary
    if metadata.labels is not None and description.num_classes is None:
        raise ValueError(f"`labels` require a classification head. Received: a model with head={description.head!r}")
    classes = None
    if description.multi_label:
        classes = description.num_classes
    metadata = metadata.replace(
        head=description.head,
        labels=checked_labels(metadata.labels, description.num_classes),
        sequence_length=metadata.sequence_length or description.embedding.get("sequence_length"),
        null_threshold=checked_null_threshold(metadata.null_threshold),
        thresholds=checked_thresholds(metadata.thresholds, classes),
        prompts=metadata.prompts or None,
        positions=description.positions,
    )

    head = _head_of(description)
    confidence_fields = ()
    head_options = None
    if head is not None:
        confidence_fields = head.confidence_fields(description)
        head_options = head.options_to_store(description)
    keep_special_tokens = None
    if vocabulary is not None:
        keep_special_tokens = tokenizer_files.kept_special_tokens(vocabulary)
    metadata = metadata.replace(
        confidence=checked_confidence(metadata.confidence, confidence_fields),
        head_options=head_options,
        keep_special_tokens=keep_special_tokens,
    )

    if "huggingface" in description.formats:
        model_type = checked_model_type(
            description.config, description.head, metadata.model_type, description.positions
        )
        metadata = metadata.replace(model_type=model_type)
    if head is not None:
        check_stored_reading(metadata, head)
    _check_vocabulary_size(vocabulary, description.config)
    check_prompts(metadata.prompts, metadata.default_prompt_name)
    check_function(metadata.similarity_function)
    _check_settings_of_heads(description, metadata)
    return metadata


def _write_settings(description, metadata, directory):
    """Writes all JSON files, and the vocabulary."""
    if "huggingface" in description.formats:
        huggingface.write_config(description, metadata, directory)
    else:
        write_json(directory / huggingface.CONFIG, description.to_json(metadata))
    longest = description.config.max_position_embeddings
    head = _head_of(description)
    if head and head.sentence_transformers:
        longest = metadata.sequence_length or longest  # sentence-transformers reads it with the tokenizer.
    if description.embedding:
        sentence_transformers.write(description, metadata, directory)
    if metadata.vocabulary is not None:
        tokenizer_files.write(metadata.vocabulary, metadata.lowercase, longest, directory)


def _check_format(description, format, directory):
    """Raises for a format that is unknown, that a model does not have, or whose place is no directory."""
    check_choice("format", format, _FORMATS)
    if directory.suffix == ".keras":
        raise ValueError(
            f'expected a directory, into which format="keras" writes {KERAS_FILE}. '
            f"Received: directory={str(directory)!r}"
        )
    if format not in description.formats:
        raise ValueError(
            f"a model with head={description.head!r} is saved with format={description.formats[0]!r}. "
            f"Received: format={format!r}"
        )


def _check_weights_dtype(weights_dtype, format):
    """Raises for a dtype that a format does not have."""
    if weights_dtype == "float32":
        return
    if weights_dtype not in ("float16", "bfloat16") or format != "huggingface":
        raise ValueError(
            "`weights_dtype` must be 'float32', or 'float16' or 'bfloat16' with format 'huggingface'. "
            f"Received: weights_dtype={weights_dtype!r}, format={format!r}"
        )


def _check_no_other_format(directory, format):
    """Raises for a directory with files that `load` would read instead of those to be written."""
    for name in _FORMATS[format]:
        if (directory / name).exists():
            raise ValueError(
                f"{directory} has {name} of another format, which would be loaded instead. Expected a new directory "
                f"for format={format!r}"
            )


def _check_vocabulary_size(vocabulary, config):
    """Raises if there are more pieces than rows in the token table."""
    if vocabulary is not None and len(vocabulary) > config.vocab_size:
        raise ValueError(
            f"`vocabulary` has {len(vocabulary)} pieces, more than the token table's "
            f"vocab_size={config.vocab_size} rows"
        )


def _check_settings_of_heads(description, metadata):
    """Raises for settings that belong to another head than that of the model."""
    for head in HEADS:
        if head.name == description.head:
            continue
        for name in head.settings:
            value = getattr(metadata, name)
            if value != getattr(Metadata, name):
                raise ValueError(
                    f"`{name}` is for models with head={head.name!r}. Received: {name}={value!r:.200} for a model with "
                    f"head={description.head!r}"
                )

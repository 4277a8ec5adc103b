"""`keras_bert.save`: writes a model as a directory that other programs open."""

import logging
import pathlib

from keras_bert.checkpoints import google, huggingface, sentence_transformers, tokenizer_files
from keras_bert.checkpoints.load import KERAS_FILE
from keras_bert.files import adding_to
from keras_bert.models.description import describe
from keras_bert.text.vocabulary import Vocabulary

_LOG = logging.getLogger("keras_bert")
FORMATS = ("huggingface", "google", "keras")


def save(
    model,
    directory,
    vocabulary,
    lowercase=True,
    labels=None,
    task=None,
    format="huggingface",
    strip_accents=None,
    pair=None,
    sequence_length=None,
    null_threshold=None,
    weights_dtype="float32",
):
    """Writes a model, its vocabulary and casing to a directory.

    Files are written beside and renamed when all are complete, so a run that is cut leaves nothing half-written. A
    model of `build_embedder` opens in sentence-transformers too.

    Args:
        model: a model of one of the builders.
        directory: where to write; made if it does not exist.
        vocabulary: a path, a list of pieces, a `Vocabulary`, or None to write none.
        lowercase: whether the vocabulary is uncased.
        labels: names of the classes, in the order of the logits.
        task: name of the task that the head was trained on.
        format: "huggingface" (`model.safetensors`, opens in transformers), "google" (`bert_model.ckpt`, opens in
            TF 1, whose programs know words of 200 characters whatever the vocabulary says) or "keras" (`model.keras`).
        strip_accents: whether accents are removed. None takes what the vocabulary says, or else `lowercase`.
        pair: whether the model was trained on pairs of texts.
        sequence_length: the most pieces of a sequence that it was trained on.
        null_threshold: of question answering, how much the score of no answer may be above that of the best one.
        weights_dtype: "float32", or "float16" or "bfloat16" for half the size: `load` and transformers compute in
            float32 either way. Of the Hugging Face format alone.

    Example:
        keras_bert.save(model, "my_model", bert.vocabulary, bert.lowercase, labels=["no", "yes"])
    """
    if format not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}. Received: format={format!r}")
    narrow = weights_dtype in ("float16", "bfloat16") and format == "huggingface"
    if weights_dtype != "float32" and not narrow:
        raise ValueError(
            "`weights_dtype` must be 'float32', or 'float16' or 'bfloat16' with format 'huggingface'. "
            f"Received: weights_dtype={weights_dtype!r}, format={format!r}"
        )
    directory = pathlib.Path(directory).expanduser()
    description = describe(model)
    vocabulary = None if vocabulary is None else Vocabulary(vocabulary, strip_accents=strip_accents)
    labels = _names(labels)
    if description.head == "embedding":
        sequence_length = sequence_length or description.layers["sentence_pooling"].sequence_length
    if any(layer.quantization_mode for layer in model._flatten_layers()):
        _LOG.warning(
            "quantized tables are written as the float32 numbers that they stand for; a .keras file keeps them"
        )
    _check(description, vocabulary, labels)
    _check_rivals(directory, format)
    with adding_to(directory) as temporary:
        if format == "google":
            _write_google(description, vocabulary, temporary)
            return
        known = {"task": task, "pair": pair, "sequence_length": sequence_length, "null_threshold": null_threshold}
        pad_id = 0
        if vocabulary is not None:
            pad_id = vocabulary.id("[PAD]")
            known["keep_special_tokens"] = tokenizer_files.kept_special_tokens(vocabulary)
        huggingface.write_config(description, temporary, labels, pad_id, **known)
        if vocabulary is not None:
            longest = description.config.max_position_embeddings
            if description.head == "embedding":  # Where sentence-transformers looks for it.
                longest = sequence_length or longest
            tokenizer_files.write(vocabulary, lowercase, longest, temporary)
        if description.head == "embedding":
            sentence_transformers.write(description, sequence_length, temporary)
        if format == "keras":
            model.save(temporary / KERAS_FILE)
        else:
            huggingface.write_weights(description, temporary, weights_dtype)
    # Of an older model in the same place; they would be read with this one.
    for name in tokenizer_files.STALE if vocabulary is not None else ():
        (directory / name).unlink(missing_ok=True)
    if description.head != "embedding":
        (directory / sentence_transformers.MODULES).unlink(missing_ok=True)


def _names(labels):
    """The labels as a list of strings; they may be numbers, and an array."""
    if labels is None:
        return None
    if isinstance(labels, str | bytes | dict):
        raise ValueError(f"`labels` must be a list of names, in the order of the logits. Received: labels={labels!r}")
    return [label.decode() if isinstance(label, bytes) else str(label) for label in labels]


def _write_google(description, vocabulary, directory):
    google.write(description, directory)
    if vocabulary is None:
        return
    said = {"added_tokens": (), "strip_accents": None, "tokenize_chinese_chars": True}
    for name, expected in said.items():
        if getattr(vocabulary, name) != expected:
            raise ValueError(
                f"Google's format has no place for the vocabulary's `{name}`. Received: {name}="
                f"{getattr(vocabulary, name)!r}; use format='huggingface'"
            )
    vocabulary.save(directory / "vocab.txt")


def _check(description, vocabulary, labels):
    if vocabulary is not None and len(vocabulary) > description.config.vocab_size:
        raise ValueError(
            f"`vocabulary` has {len(vocabulary)} pieces, more than the token table's "
            f"vocab_size={description.config.vocab_size} rows"
        )
    if labels is None:
        return
    if description.num_classes is None:
        raise ValueError(f"`labels` belong to a classification head. Received: a model with head={description.head!r}")
    if len(labels) != description.num_classes or len(set(labels)) != len(labels):
        raise ValueError(
            f"`labels` must be {description.num_classes} different names, one for each logit. Received: labels={labels}"
        )


def _check_rivals(directory, format):
    """Refuses a directory where an older file would be loaded in the place of what is about to be written."""
    rivals = {
        "huggingface": [],
        "google": [huggingface.CONFIG],
        "keras": [huggingface.WEIGHTS, huggingface.INDEX, google.CONFIG],
    }
    for name in rivals[format]:
        if (directory / name).exists():
            raise ValueError(
                f"{directory} holds {name} of another format, which would be loaded instead. Expected a new directory "
                f"for format={format!r}"
            )

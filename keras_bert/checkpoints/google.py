"""Google's TensorFlow 1 checkpoints: `bert_config.json`, `vocab.txt`, `bert_model.ckpt.*`."""

import logging
import re

import numpy as np

from keras_bert.checkpoints import model_garden, tokenizer_files
from keras_bert.checkpoints.tensor_bundle import open_bundle
from keras_bert.checkpoints.tensors import Checkpoint, Tensor, head_of_tensors, tensors_of
from keras_bert.checkpoints.weight_files import has_weights
from keras_bert.config import BertConfig
from keras_bert.files import write_json
from keras_bert.heads.registry import head_named
from keras_bert.layers.registry import positions_named
from keras_bert.metadata import Metadata
from keras_bert.text.long_texts import READING
from keras_bert.text.tokenizer_options import VOCABULARY_OPTIONS

CONFIG = "bert_config.json"
_LOG = logging.getLogger("keras_bert")
_WITHOUT_PLACE = (
    "labels",
    "task",
    "pair",
    "sequence_length",
    *READING,
    "null_threshold",
    "task_settings",
    "columns",
)
# Our names of tensors, Google's: those of run_classifier.py, run_squad.py and of pre-training; endings of the others.
_NAMES = {
    "cls.predictions.bias": "cls/predictions/output_bias",
    "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
    "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
    "classifier.weight": "output_weights",
    "classifier.bias": "output_bias",
    "qa_outputs.weight": "cls/squad/output_weights",
    "qa_outputs.bias": "cls/squad/output_bias",
}
_ENDINGS = {
    "_embeddings.weight": "_embeddings",
    "LayerNorm.weight": "LayerNorm/gamma",
    "LayerNorm.bias": "LayerNorm/beta",
    ".weight": "/kernel",
}
_OPTIMIZER = re.compile(r".*/(adam_m|adam_v|Adam|Adam_1)|global_step|beta[12]_power|good_steps|loss_scale")


def fits(folder):
    """Returns whether a folder has Google's config, and no weights in Hugging Face's layout."""
    return folder.transformer.has(CONFIG) and not has_weights(folder.transformer.path)


def read(folder, options):
    """Opens a folder of Google's program or of the Model Garden."""
    checkpoint = read_weights(folder.transformer.path)
    return tokenizer_files.with_tokenizer(checkpoint, folder.transformer, options.tokenizer)


def read_weights(directory):
    """Opens a directory without its vocabulary."""
    config = BertConfig.from_json(directory / CONFIG)
    prefix = _find_prefix(directory)
    shapes, fetch = open_bundle(prefix)
    names = model_garden.stored_names(shapes)
    if names:
        _check_number_of_heads(prefix, config, names, shapes)
        tensors = model_garden.read_tensors(names, shapes, fetch)
    else:
        tensors = {}
        for name, shape in shapes.items():
            if not _OPTIMIZER.fullmatch(name):
                tensors[_our_name(name)] = _tensor(name, shape, fetch)
    return Checkpoint(str(prefix), config, tensors, Metadata(head=head_of_tensors(tensors)))


def _check_number_of_heads(prefix, config, names, shapes):
    """Raises if the config has another number of heads than the tensors of the Model Garden."""
    heads = model_garden.number_of_heads({ours: shapes[name] for ours, name in names.items()})
    if heads != config.num_attention_heads:
        raise ValueError(
            f"{prefix}: `num_attention_heads` must be {heads}, as in its tensors. "
            f"Received: num_attention_heads={config.num_attention_heads}"
        )


def _tensor(name, shape, fetch):
    """Returns a `Tensor`, with kernels as (out, in); `fetch` reads the stored array."""
    if name.endswith("/kernel"):
        return Tensor(name, tuple(shape[::-1]), lambda: fetch(name).T)
    return Tensor(name, tuple(shape), lambda: fetch(name))


def write(description, metadata, directory):
    """Writes `bert_config.json`, `bert_model.ckpt.*` and, if there is a vocabulary, `vocab.txt`."""
    vocabulary = metadata.vocabulary
    _check_model(description)
    if vocabulary is not None:
        _check_vocabulary(vocabulary)
    try:
        import tensorflow as tf
    except ModuleNotFoundError:
        raise ValueError(
            "writing Google's checkpoints needs TensorFlow, which is not installed: pip install tensorflow"
        ) from None

    names = []
    tensors = []
    for name, array in tensors_of(description).items():
        google_name = _google_name(name)
        if google_name.endswith("/kernel"):
            array = array.T
        names.append(google_name)
        tensors.append(tf.constant(np.ascontiguousarray(array)))
    write_json(directory / CONFIG, description.config.to_google())
    tf.raw_ops.SaveV2(
        prefix=str(directory / "bert_model.ckpt"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=tensors,
    )
    if vocabulary is not None:
        vocabulary.save(directory / "vocab.txt")

    lost = [name for name in _WITHOUT_PLACE if getattr(metadata, name) is not None]
    # `load` infers it from the vocabulary.
    if vocabulary is not None and bool(metadata.lowercase) == vocabulary.cased:
        lost.append("lowercase")
    if lost:
        _LOG.warning("Google's format has no place for %s: not saved", ", ".join(lost))


def _check_model(description):
    """Raises where Google's format cannot represent the model."""
    if description.causal or not positions_named(description.positions).is_plain:
        raise ValueError(
            "Google's format can only represent a bidirectional encoder with learned positions. "
            f"Received: causal={description.causal}, positions={description.positions!r}; "
            "use format='huggingface'"
        )
    if head_named(description.head).google is None:
        raise ValueError(f"Google's format has no names for a {description.head} head; use format='huggingface'")
    if description.multi_label or description.score_activation != "linear":
        raise ValueError("Google's format has no place for sigmoids of the logits; use format='huggingface'")
    if not description.tied:
        raise ValueError("Google's format has only a tied masked-LM head; use format='huggingface'")


def _check_vocabulary(vocabulary):
    """Raises where Google's format cannot represent the vocabulary."""
    if not vocabulary.algorithm.bert_steps:
        raise ValueError(
            f"Google's format has only vocabularies of WordPiece. Received: {vocabulary.algorithm.described}; use "
            "format='huggingface'"
        )
    for option in VOCABULARY_OPTIONS:
        value = getattr(vocabulary, option.name)
        if value != option.default and option.google == "refused":
            raise ValueError(
                f"Google's format cannot store the vocabulary's `{option.name}`. Received: "
                f"{option.name}={value!r:.80}; use format='huggingface'"
            )


def _find_prefix(directory):
    """Returns the path of the checkpoint in a directory, without `.index`."""
    found = sorted(path.with_suffix("") for path in directory.glob("*.index"))
    preferred = directory / "bert_model.ckpt"
    if preferred in found:
        return preferred
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise ValueError(
            f"{directory}: expected one TensorFlow checkpoint, such as bert_model.ckpt.index. Received: {names}"
        )
    return found[0]


def _our_name(name):
    """Returns our name for Google's, such as bert/encoder/layer_0/output/LayerNorm/gamma."""
    for ours, google in _NAMES.items():
        if google == name:
            return ours
    name = name.removeprefix("bert/")
    for ending, google in _ENDINGS.items():
        if name.endswith(google):
            name = name.removesuffix(google) + ending
            break
    name = re.sub(r"^encoder/layer_(\d+)/", r"encoder.layer.\1.", name)
    return name.replace("/", ".")


def _google_name(name):
    """Returns Google's name for ours."""
    if name in _NAMES:
        return _NAMES[name]
    for ending, google in _ENDINGS.items():
        if name.endswith(ending):
            name = name.removesuffix(ending) + google
            break
    name = re.sub(r"layer\.(\d+)\.", r"layer_\1.", name)
    name = name.replace(".", "/")
    if name.startswith("cls/"):
        return name
    return f"bert/{name}"

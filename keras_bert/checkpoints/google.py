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
    if names := model_garden.stored_names(shapes):
        heads = model_garden.number_of_heads({ours: shapes[name] for ours, name in names.items()})
        if heads != config.num_attention_heads:
            received = f"Received: num_attention_heads={config.num_attention_heads}"
            raise ValueError(f"{prefix}: `num_attention_heads` must be {heads}, as in its tensors. {received}")
        tensors = model_garden.read_tensors(names, shapes, fetch)
    else:
        tensors = {_our_name(name): _tensor(name, shapes, fetch) for name in shapes if not _OPTIMIZER.fullmatch(name)}
    return Checkpoint(str(prefix), config, tensors, Metadata(head=head_of_tensors(tensors)))


def _tensor(name, shapes, fetch):
    transposed = name.endswith("/kernel")
    shape = tuple(shapes[name][::-1] if transposed else shapes[name])
    return Tensor(name, shape, lambda: fetch(name).T if transposed else fetch(name))


def write(description, metadata, directory):
    """Writes `bert_config.json`, `bert_model.ckpt.*` and, if there is a vocabulary, `vocab.txt`."""
    vocabulary = metadata.vocabulary
    _check(description, vocabulary)
    try:
        import tensorflow as tf
    except ModuleNotFoundError:
        raise ValueError(
            "writing Google's checkpoints needs TensorFlow, which is not installed: pip install tensorflow"
        ) from None
    tensors = {_google_name(name): array for name, array in tensors_of(description).items()}
    arrays = [array.T if name.endswith("/kernel") else array for name, array in tensors.items()]
    write_json(directory / CONFIG, description.config.to_google())
    tf.raw_ops.SaveV2(
        prefix=str(directory / "bert_model.ckpt"),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(np.ascontiguousarray(array)) for array in arrays],
    )
    if vocabulary is not None:
        vocabulary.save(directory / "vocab.txt")
    lost = [name for name in _WITHOUT_PLACE if getattr(metadata, name) is not None]
    # `load` infers it from the vocabulary.
    lost += ["lowercase"] if vocabulary is not None and bool(metadata.lowercase) == vocabulary.cased else []
    if lost:
        _LOG.warning("Google's format has no place for %s: not saved", ", ".join(lost))


def _check(description, vocabulary):
    """Raises where Google's format cannot represent the model or the vocabulary."""
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
    if vocabulary is not None and not vocabulary.algorithm.bert_steps:
        raise ValueError(
            f"Google's format has only vocabularies of WordPiece. Received: {vocabulary.algorithm.described}; use "
            "format='huggingface'"
        )
    for option in VOCABULARY_OPTIONS if vocabulary is not None else ():
        value = getattr(vocabulary, option.name)
        if value != option.default and option.google == "refused":
            raise ValueError(
                f"Google's format cannot store the vocabulary's `{option.name}`. Received: "
                f"{option.name}={value!r:.80}; use format='huggingface'"
            )


def _find_prefix(directory):
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
    if ours := next((ours for ours, theirs in _NAMES.items() if theirs == name), None):
        return ours
    name = _with_ending(name.removeprefix("bert/"), {theirs: ours for ours, theirs in _ENDINGS.items()})
    return re.sub(r"^encoder/layer_(\d+)/", r"encoder.layer.\1.", name).replace("/", ".")


def _google_name(name):
    """Returns Google's name for ours."""
    if name in _NAMES:
        return _NAMES[name]
    name = re.sub(r"layer\.(\d+)\.", r"layer_\1.", _with_ending(name, _ENDINGS)).replace(".", "/")
    return name if name.startswith("cls/") else f"bert/{name}"


def _with_ending(name, endings):
    """Returns a name with the first of these endings replaced."""
    ending = next(filter(name.endswith, endings), "")
    return name.removesuffix(ending) + endings.get(ending, "")

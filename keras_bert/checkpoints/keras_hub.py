"""KerasHub: reads presets, `BertBackbone`, `BertTextClassifier`; creates `BertBackbone`. keras-hub is optional."""

import dataclasses
import math
import re
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_bert.checkpoints.folder import OFFLINE
from keras_bert.checkpoints.tensors import Checkpoint, Tensor, tensors_of
from keras_bert.checks import first_line
from keras_bert.config import BertConfig
from keras_bert.heads.classification import Classification
from keras_bert.heads.registry import NO_HEAD, describe
from keras_bert.metadata import Metadata
from keras_bert.text.tokenizer_json import AddedToken
from keras_bert.text.tokenizer_options import LOWERCASE, VOCABULARY_OPTIONS
from keras_bert.text.vocabulary import Vocabulary

# Maps our keys to KerasHub's.
_SIZES = {
    "vocab_size": "vocabulary_size",
    "hidden_size": "hidden_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_dim",
    "hidden_dropout_prob": "dropout",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
}
_CLASSIFIER = "BertTextClassifier"
_KAGGLE = "kaggle://"


def is_model(value):
    """Returns whether a value is a `BertBackbone` or a `BertTextClassifier`, without importing keras-hub."""
    names = {base.__name__ for base in type(value).__mro__}
    return not names.isdisjoint(("BertBackbone", _CLASSIFIER))


def read_model(model):
    """Opens a `BertBackbone` or a `BertTextClassifier` object."""
    if hasattr(model, "backbone"):
        return _read_classifier(model)
    return _read_backbone(model)


def _read_backbone(backbone):
    """Opens a `BertBackbone`."""
    values = backbone.get_config()
    sizes = {ours: values[theirs] for ours, theirs in _SIZES.items()}
    config = BertConfig(
        **sizes,
        hidden_act="gelu_new",  # KerasHub only has the tanh form.
        attention_probs_dropout_prob=values["dropout"],
    )
    tensors = {name: _tensor(name, weight) for name, weight in _weights(backbone).items()}
    return Checkpoint(f"the KerasHub backbone {backbone.name!r}", config, tensors, Metadata(head=NO_HEAD))


def _read_classifier(task):
    """Opens a `BertTextClassifier`, whose dense layer takes the pooled vector, like ours."""
    activation = getattr(task.activation, "__name__", str(task.activation))
    if activation not in ("linear", "softmax", "sigmoid"):
        raise ValueError(f"the activation of {task.name!r} must be linear, softmax or sigmoid. Received: {activation}")
    checkpoint = _read_backbone(task.backbone)
    dense = task.output_dense
    tensors = dict(checkpoint.tensors)
    tensors["classifier.weight"] = _tensor("classifier.weight", _as_stored(dense.kernel))
    tensors["classifier.bias"] = _tensor("classifier.bias", _as_stored(dense.bias))
    checkpoint = checkpoint.replace(
        name=f"the KerasHub classifier {task.name!r}",
        config=dataclasses.replace(checkpoint.config, classifier_dropout=task.dropout),
        tensors=tensors,
        metadata=Metadata(head=Classification.name, multi_label=activation == "sigmoid"),
    )
    tokenizer = getattr(task.preprocessor, "tokenizer", None)
    if tokenizer is None:
        return checkpoint
    return _with_tokenizer(checkpoint, tokenizer)


def fits(folder):
    """Returns whether a folder is a preset, or a name is that of one."""
    if folder.path.exists():
        return "registered_name" in folder.transformer.config
    name = str(folder)
    if name.startswith(_KAGGLE):
        return True
    return may_be_preset(name) and name in _preset_names()


def may_be_preset(name):
    """Returns whether a name looks like one of a preset; for other names, keras-hub is not imported."""
    return re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", name) is not None


def _preset_names():
    """Returns the names of KerasHub's BERT presets."""
    import keras_hub

    return set(keras_hub.models.BertBackbone.presets)


def read(folder, options):
    """Opens a preset, a folder or a name; `head="encoder"` omits the head of a task."""
    import keras_hub

    name = str(folder)
    if folder.path.exists():
        name = str(folder.path.resolve())
    task = None
    try:
        if options.head != NO_HEAD:
            task = _task_of_preset(name)
        if task == _CLASSIFIER:
            model = keras_hub.models.BertTextClassifier.from_preset(name)
        else:
            model = keras_hub.models.Backbone.from_preset(name)
        tokenizer = keras_hub.tokenizers.Tokenizer.from_preset(name)
    except Exception as error:  # KerasHub, Kaggle and the network raise different types.
        reason = first_line(error)
        if type(error).__module__.startswith("requests."):
            reason = f"no network: {OFFLINE}"
        raise ValueError(f"{name}: KerasHub cannot load this preset: {reason}") from error
    if not is_model(model):
        raise ValueError(f"{name}: expected a preset of BertBackbone. Received: {type(model).__name__}")
    if task not in (None, _CLASSIFIER):
        raise ValueError(
            f"{name}: the head of the task {task} cannot be read. Expected {_CLASSIFIER}, or only a backbone; "
            "load(..., head='encoder') omits the head"
        )
    return _with_tokenizer(read_model(model).replace(name=name), tokenizer)


def _task_of_preset(name):
    """Returns the class of the task of a preset, or `None`."""
    from keras_hub.src.utils import preset_utils

    if not preset_utils.check_file_exists(name, preset_utils.TASK_CONFIG_FILE):
        return None
    return preset_utils.load_json(name, preset_utils.TASK_CONFIG_FILE)["class_name"]


def _with_tokenizer(checkpoint, tokenizer):
    """Returns a checkpoint with the vocabulary and the casing of a KerasHub tokenizer."""
    vocabulary = _vocabulary(checkpoint.name, tokenizer)
    lowercase = getattr(tokenizer, LOWERCASE.keras_hub)
    metadata = checkpoint.metadata.replace(vocabulary=vocabulary, lowercase=lowercase)
    return checkpoint.replace(metadata=metadata)


def _vocabulary(name, tokenizer):
    """Returns the vocabulary of a KerasHub tokenizer with its settings."""
    for key, expected in (("split", True), ("suffix_indicator", "##"), ("oov_token", "[UNK]")):
        if getattr(tokenizer, key) != expected:
            raise ValueError(
                f"{name}: `{key}` of the tokenizer must be {expected!r}, as in BERT. "
                f"Received: {key}={getattr(tokenizer, key)!r}"
            )
    added_tokens = []
    if tokenizer.special_tokens_in_strings:
        for content in dict.fromkeys(tokenizer.special_tokens):
            added_tokens.append(AddedToken(content, normalized=False, special=True, wordpiece=True))
    settings = {}
    for option in VOCABULARY_OPTIONS:
        if option.keras_hub:
            settings[option.name] = getattr(tokenizer, option.keras_hub)
    return Vocabulary(tokenizer.get_vocabulary(), added_tokens=added_tokens, **settings)


def to_keras_hub(model: keras.Model) -> Any:
    """Creates a KerasHub `BertBackbone` with the weights of a model's encoder.

    Example:
        backbone = keras_bert.to_keras_hub(keras_bert.load("bert_dir").encoder)
    """
    import keras_hub

    description = describe(model)
    _check_representable(description)
    sizes = {theirs: getattr(description.config, ours) for ours, theirs in _SIZES.items()}
    backbone = keras_hub.models.BertBackbone(**sizes)
    tensors = tensors_of(description)
    for name, weight in _weights(backbone).items():
        array = tensors[name]
        if _is_kernel(name, weight.shape):
            array = array.T
        weight.variable.assign(array.reshape(weight.variable.shape))
    return backbone


def _check_representable(description):
    """Raises where a `BertBackbone` cannot represent a model."""
    config = description.config
    config.check_plain("KerasHub's BertBackbone")
    fixed = {
        "hidden_act": (config.hidden_act, "gelu_new"),
        "attention_probs_dropout_prob": (config.attention_probs_dropout_prob, config.hidden_dropout_prob),
        "layer_norm_eps": (config.layer_norm_eps, 1e-12),
        "causal": (description.causal, False),
        "positions": (description.positions, "learned"),
    }
    for key, (value, expected) in fixed.items():
        if value != expected:
            raise ValueError(f"KerasHub's BertBackbone only supports `{key}`={expected!r}. Received: {key}={value!r}")
    if "pooler" not in description.layers:
        raise ValueError(f"KerasHub's BertBackbone has a pooler; a {description.head} model has none")


class HubWeight(NamedTuple):
    """A variable of KerasHub, and its shape after merging the axes of heads."""

    variable: Any
    shape: tuple


def _as_stored(variable):
    return HubWeight(variable, tuple(variable.shape))


def _is_kernel(name, shape):
    """Returns whether a weight is stored as (in, out) in KerasHub and as (out, in) under our names."""
    return len(shape) == 2 and not name.startswith("embeddings.")


def _tensor(name, weight):
    """Returns the `Tensor` of our name that reads a weight."""

    def read_stored():
        return np.asarray(weight.variable.numpy(), "float32").reshape(weight.shape)

    if _is_kernel(name, weight.shape):
        return Tensor(weight.variable.path, weight.shape[::-1], lambda: read_stored().T)
    return Tensor(weight.variable.path, weight.shape, read_stored)


def _weights(backbone):
    """Returns the weights of a backbone by our names."""
    layer = backbone.get_layer
    weights = {
        "embeddings.word_embeddings.weight": _as_stored(layer("token_embedding").embeddings),
        "embeddings.position_embeddings.weight": _as_stored(layer("position_embedding").position_embeddings),
        "embeddings.token_type_embeddings.weight": _as_stored(layer("segment_embedding").embeddings),
    }
    for name, dense in _dense_layers(backbone).items():
        columns = math.prod(dense.bias.shape)
        rows = math.prod(dense.kernel.shape) // columns
        weights[f"{name}.weight"] = HubWeight(dense.kernel, (rows, columns))
        weights[f"{name}.bias"] = HubWeight(dense.bias, (columns,))
    for name, norm in _norm_layers(backbone).items():
        weights[f"{name}.weight"] = _as_stored(norm.gamma)
        weights[f"{name}.bias"] = _as_stored(norm.beta)
    return weights


def _dense_layers(backbone):
    """Returns the dense layers of a backbone by our names."""
    layers = {"pooler.dense": backbone.get_layer("pooled_dense")}
    for index in range(backbone.num_layers):
        block = backbone.get_layer(f"transformer_layer_{index}")
        attention = block._self_attention_layer
        name = f"encoder.layer.{index}"
        layers[f"{name}.attention.self.query"] = attention._query_dense
        layers[f"{name}.attention.self.key"] = attention._key_dense
        layers[f"{name}.attention.self.value"] = attention._value_dense
        layers[f"{name}.attention.output.dense"] = attention._output_dense
        layers[f"{name}.intermediate.dense"] = block._feedforward_intermediate_dense
        layers[f"{name}.output.dense"] = block._feedforward_output_dense
    return layers


def _norm_layers(backbone):
    """Returns the LayerNorms of a backbone by our names."""
    layers = {"embeddings.LayerNorm": backbone.get_layer("embeddings_layer_norm")}
    for index in range(backbone.num_layers):
        block = backbone.get_layer(f"transformer_layer_{index}")
        name = f"encoder.layer.{index}"
        layers[f"{name}.attention.output.LayerNorm"] = block._self_attention_layer_norm
        layers[f"{name}.output.LayerNorm"] = block._feedforward_layer_norm
    return layers

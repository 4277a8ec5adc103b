"""KerasHub: reads presets, `BertBackbone`, `BertTextClassifier`; creates `BertBackbone`. keras-hub is optional."""

import dataclasses
import math
import re
from typing import Any

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
_CLASSIFIER, _KAGGLE = "BertTextClassifier", "kaggle://"


def is_model(value):
    """Returns whether a value is a `BertBackbone` or a `BertTextClassifier`, without importing keras-hub."""
    return any(kind.__name__ in ("BertBackbone", _CLASSIFIER) for kind in type(value).__mro__)


def read_model(model):
    """Opens a `BertBackbone` or a `BertTextClassifier` object."""
    return _read_classifier(model) if hasattr(model, "backbone") else _read_backbone(model)


def _read_backbone(backbone):
    values = backbone.get_config()
    config = BertConfig(
        **{ours: values[theirs] for ours, theirs in _SIZES.items()},
        hidden_act="gelu_new",  # KerasHub only has the tanh form.
        attention_probs_dropout_prob=values["dropout"],
    )
    tensors = {name: _tensor(name, *found) for name, found in _variables(backbone).items()}
    return Checkpoint(f"the KerasHub backbone {backbone.name!r}", config, tensors, Metadata(head=NO_HEAD))


def _read_classifier(task):
    """Opens a `BertTextClassifier`, whose dense layer takes the pooled vector, like ours."""
    activation = getattr(task.activation, "__name__", str(task.activation))
    if activation not in ("linear", "softmax", "sigmoid"):
        raise ValueError(f"the activation of {task.name!r} must be linear, softmax or sigmoid. Received: {activation}")
    checkpoint = _read_backbone(task.backbone)
    own = {"classifier.weight": task.output_dense.kernel, "classifier.bias": task.output_dense.bias}
    own = {name: _tensor(name, variable, tuple(variable.shape)) for name, variable in own.items()}
    checkpoint = checkpoint.replace(
        name=f"the KerasHub classifier {task.name!r}",
        config=dataclasses.replace(checkpoint.config, classifier_dropout=task.dropout),
        tensors={**checkpoint.tensors, **own},
        metadata=Metadata(head=Classification.name, multi_label=activation == "sigmoid"),
    )
    tokenizer = getattr(task.preprocessor, "tokenizer", None)
    return checkpoint if tokenizer is None else _with_tokenizer(checkpoint, tokenizer)


def fits(folder):
    """Returns whether a folder is a preset, or a name is that of one."""
    if folder.path.exists():
        return "registered_name" in folder.transformer.config
    return str(folder).startswith(_KAGGLE) or (may_be_preset(str(folder)) and str(folder) in _preset_names())


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
    from keras_hub.src.utils import preset_utils

    name = str(folder.path.resolve() if folder.path.exists() else folder)
    try:
        task = options.head != NO_HEAD and preset_utils.check_file_exists(name, preset_utils.TASK_CONFIG_FILE)
        kind = preset_utils.load_json(name, preset_utils.TASK_CONFIG_FILE)["class_name"] if task else None
        models = keras_hub.models.BertTextClassifier if kind == _CLASSIFIER else keras_hub.models.Backbone
        model, tokenizer = models.from_preset(name), keras_hub.tokenizers.Tokenizer.from_preset(name)
    except Exception as error:  # KerasHub, Kaggle and the network raise different types.
        is_offline = type(error).__module__.startswith("requests.")
        reason = f"no network: {OFFLINE}" if is_offline else first_line(error)
        raise ValueError(f"{name}: KerasHub cannot load this preset: {reason}") from error
    if not is_model(model):
        raise ValueError(f"{name}: expected a preset of BertBackbone. Received: {type(model).__name__}")
    if kind not in (None, _CLASSIFIER):
        raise ValueError(
            f"{name}: the head of the task {kind} cannot be read. Expected {_CLASSIFIER}, or only a backbone; "
            "load(..., head='encoder') omits the head"
        )
    return _with_tokenizer(read_model(model).replace(name=name), tokenizer)


def _with_tokenizer(checkpoint, tokenizer):
    """Returns a checkpoint with the vocabulary and the casing of a KerasHub tokenizer."""
    vocabulary = _vocabulary(checkpoint.name, tokenizer)
    lowercase = getattr(tokenizer, LOWERCASE.keras_hub)
    return checkpoint.replace(metadata=checkpoint.metadata.replace(vocabulary=vocabulary, lowercase=lowercase))


def _vocabulary(name, tokenizer):
    """Returns the vocabulary of a KerasHub tokenizer with its settings."""
    for key, expected in (("split", True), ("suffix_indicator", "##"), ("oov_token", "[UNK]")):
        if getattr(tokenizer, key) != expected:
            raise ValueError(
                f"{name}: `{key}` of the tokenizer must be {expected!r}, as in BERT. "
                f"Received: {key}={getattr(tokenizer, key)!r}"
            )
    kept = dict.fromkeys(tokenizer.special_tokens) if tokenizer.special_tokens_in_strings else ()
    return Vocabulary(
        tokenizer.get_vocabulary(),
        added_tokens=[AddedToken(token, normalized=False, special=True, wordpiece=True) for token in kept],
        **{option.name: getattr(tokenizer, option.keras_hub) for option in VOCABULARY_OPTIONS if option.keras_hub},
    )


def to_keras_hub(model: keras.Model) -> Any:
    """Creates a KerasHub `BertBackbone` with the weights of a model's encoder.

    Example:
        backbone = keras_bert.to_keras_hub(keras_bert.load("bert_dir").encoder)
    """
    import keras_hub

    description = describe(model)
    config = description.config
    config.check_plain("KerasHub's BertBackbone")
    wrong = {
        "hidden_act": (config.hidden_act, "gelu_new"),
        "attention_probs_dropout_prob": (config.attention_probs_dropout_prob, config.hidden_dropout_prob),
        "layer_norm_eps": (config.layer_norm_eps, 1e-12),
        "causal": (description.causal, False),
        "positions": (description.positions, "learned"),
    }
    for key, (value, expected) in wrong.items():
        if value != expected:
            raise ValueError(f"KerasHub's BertBackbone only supports `{key}`={expected!r}. Received: {key}={value!r}")
    if "pooler" not in description.layers:
        raise ValueError(f"KerasHub's BertBackbone has a pooler; a {description.head} model has none")
    sizes = {theirs: getattr(config, ours) for ours, theirs in _SIZES.items()}
    backbone = keras_hub.models.BertBackbone(**sizes)
    tensors = tensors_of(description)
    for name, (variable, shape) in _variables(backbone).items():
        array = tensors[name]
        transposed = _is_kernel(name, shape)
        variable.assign((array.T if transposed else array).reshape(variable.shape))
    return backbone


def _is_kernel(name, shape):
    """Returns whether a weight is stored as (in, out) in KerasHub and as (out, in) under our names."""
    return len(shape) == 2 and not name.startswith("embeddings.")


def _tensor(name, variable, shape):
    transposed = _is_kernel(name, shape)

    def read():
        array = np.asarray(variable.numpy(), "float32").reshape(shape)
        return array.T if transposed else array

    return Tensor(variable.path, shape[::-1] if transposed else shape, read)


def _variables(backbone):
    """Returns a backbone's variables by our names, each with its shape after merging the head axes."""
    layer = backbone.get_layer
    tables = {
        "word": layer("token_embedding").embeddings,
        "position": layer("position_embedding").position_embeddings,
        "token_type": layer("segment_embedding").embeddings,
    }
    found = {f"embeddings.{name}_embeddings.weight": (table, tuple(table.shape)) for name, table in tables.items()}
    dense, norms = {"pooler.dense": layer("pooled_dense")}, {"embeddings.LayerNorm": layer("embeddings_layer_norm")}
    for index in range(backbone.num_layers):
        block, name = layer(f"transformer_layer_{index}"), f"encoder.layer.{index}"
        attention = block._self_attention_layer
        dense[f"{name}.attention.self.query"] = attention._query_dense
        dense[f"{name}.attention.self.key"] = attention._key_dense
        dense[f"{name}.attention.self.value"] = attention._value_dense
        dense[f"{name}.attention.output.dense"] = attention._output_dense
        dense[f"{name}.intermediate.dense"] = block._feedforward_intermediate_dense
        dense[f"{name}.output.dense"] = block._feedforward_output_dense
        norms[f"{name}.attention.output.LayerNorm"] = block._self_attention_layer_norm
        norms[f"{name}.output.LayerNorm"] = block._feedforward_layer_norm
    for name, part in dense.items():
        columns = math.prod(part.bias.shape)
        found[f"{name}.weight"] = (part.kernel, (math.prod(part.kernel.shape) // columns, columns))
        found[f"{name}.bias"] = (part.bias, (columns,))
    for name, part in norms.items():
        found[f"{name}.weight"] = (part.gamma, tuple(part.gamma.shape))
        found[f"{name}.bias"] = (part.beta, tuple(part.beta.shape))
    return found

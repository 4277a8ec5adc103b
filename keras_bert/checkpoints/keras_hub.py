"""KerasHub's `BertBackbone` both ways, presets and `BertTextClassifier` in. keras-hub is imported only where used."""

import dataclasses

import numpy as np

from keras_bert.checkpoints.layout import Source, Tensor, tensors_of
from keras_bert.config import BertConfig
from keras_bert.models.description import describe
from keras_bert.text.tokenizer_json import AddedToken
from keras_bert.text.vocabulary import Vocabulary

# Our keys to KerasHub's.
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


def is_model(value):
    """Whether a value is a `BertBackbone` or a `BertTextClassifier`, without an import of keras-hub."""
    return any(kind.__name__ in ("BertBackbone", _CLASSIFIER) for kind in type(value).__mro__)


def read_model(model):
    """The source of a `BertBackbone` or `BertTextClassifier` object."""
    return _read_classifier(model) if hasattr(model, "backbone") else read_backbone(model)


def read_backbone(backbone):
    """The source of a `BertBackbone` object."""
    values = backbone.get_config()
    config = BertConfig(
        **{ours: values[theirs] for ours, theirs in _SIZES.items()},
        hidden_act="gelu_new",  # KerasHub has the tanh form alone.
        attention_probs_dropout_prob=values["dropout"],
    )
    tensors = {}
    for name, (variable, shape) in _variables(backbone, config).items():
        transposed = _is_kernel(name, shape)
        tensors[name] = Tensor(
            variable.path,
            shape[::-1] if transposed else shape,
            lambda variable=variable, shape=shape, transposed=transposed: _oriented(variable, shape, transposed),
        )
    return Source(name=f"the KerasHub backbone {backbone.name!r}", config=config, tensors=tensors, head="encoder")


def _read_classifier(task):
    """The source of a `BertTextClassifier`: its dense layer stands on the pooled vector, as ours does."""
    activation = getattr(task.activation, "__name__", str(task.activation))
    if activation not in ("linear", "softmax", "sigmoid"):
        raise ValueError(f"the activation of {task.name!r} must be linear, softmax or sigmoid. Received: {activation}")
    source = read_backbone(task.backbone)
    source.name = f"the KerasHub classifier {task.name!r}"
    source.head, source.multi_label = "classification", activation == "sigmoid"
    source.config = dataclasses.replace(source.config, classifier_dropout=task.dropout)
    kernel, bias = task.output_dense.kernel, task.output_dense.bias
    shape = tuple(kernel.shape)
    source.tensors["classifier.weight"] = Tensor(kernel.path, shape[::-1], lambda: _oriented(kernel, shape, True))
    source.tensors["classifier.bias"] = Tensor(bias.path, shape[1:], lambda: _oriented(bias, shape[1:], False))
    return source


def read_preset(name, head=None):
    """The source of a KerasHub preset: a name such as bert_base_en_uncased, or a preset's directory.

    Args:
        name: the preset.
        head: "encoder" leaves the head of a task out.
    """
    import keras_hub
    from keras_hub.src.utils import preset_utils

    try:
        task = head != "encoder" and preset_utils.check_file_exists(str(name), preset_utils.TASK_CONFIG_FILE)
        kind = preset_utils.load_json(str(name), preset_utils.TASK_CONFIG_FILE)["class_name"] if task else None
        if kind == _CLASSIFIER:
            model = keras_hub.models.BertTextClassifier.from_preset(str(name))
        else:
            model = keras_hub.models.Backbone.from_preset(str(name))
        tokenizer = keras_hub.tokenizers.Tokenizer.from_preset(str(name))
    except Exception as error:  # KerasHub, Kaggle and the network each raise their own.
        raise ValueError(f"{name}: KerasHub cannot load this preset: {str(error).strip().splitlines()[0]}") from error
    if not is_model(model):
        raise ValueError(f"{name}: expected a preset of BertBackbone. Received: {type(model).__name__}")
    if kind not in (None, _CLASSIFIER):
        raise ValueError(
            f"{name}: the head of the task {kind} cannot be read. Expected {_CLASSIFIER}, or a backbone alone; "
            "load(..., head='encoder') leaves the head out"
        )
    source = read_model(model)
    source.name = str(name)
    source.vocabulary = _vocabulary(name, tokenizer)
    source.lowercase = tokenizer.lowercase
    return source


def _vocabulary(name, tokenizer):
    """The vocabulary of a tokenizer of KerasHub, with how it splits texts."""
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
        strip_accents=tokenizer.strip_accents,
        tokenize_chinese_chars=tokenizer.split_on_cjk,
    )


def preset_names():
    """The names of KerasHub's BERT presets."""
    import keras_hub

    return set(keras_hub.models.BertBackbone.presets)


def to_keras_hub(model):
    """Makes a KerasHub `BertBackbone` with the encoder weights of a model.

    Example:
        backbone = keras_bert.to_keras_hub(keras_bert.load("bert_dir").encoder)
    """
    import keras_hub

    description = describe(model)
    config = description.config
    wrong = {
        "hidden_act": (config.hidden_act, "gelu_new"),
        "attention_probs_dropout_prob": (config.attention_probs_dropout_prob, config.hidden_dropout_prob),
        "layer_norm_eps": (config.layer_norm_eps, 1e-12),
        "causal": (description.causal, False),
        "positions": (description.positions, "learned"),
    }
    for key, (value, expected) in wrong.items():
        if value != expected:
            raise ValueError(f"KerasHub's BertBackbone has only `{key}`={expected!r}. Received: {key}={value!r}")
    if "pooler" not in description.layers:
        raise ValueError(f"KerasHub's BertBackbone has a pooler; a {description.head} model has none")
    sizes = {theirs: getattr(config, ours) for ours, theirs in _SIZES.items()}
    backbone = keras_hub.models.BertBackbone(**sizes)
    tensors = tensors_of(description)
    for name, (variable, shape) in _variables(backbone, config).items():
        array = tensors[name]
        transposed = _is_kernel(name, shape)
        variable.assign((array.T if transposed else array).reshape(variable.shape))
    return backbone


def _is_kernel(name, shape):
    """Whether a weight stands as (in, out) in KerasHub and as (out, in) under our names."""
    return len(shape) == 2 and not name.startswith("embeddings.")


def _oriented(variable, shape, transposed):
    array = np.asarray(variable.numpy(), "float32").reshape(shape)
    return array.T if transposed else array


def _variables(backbone, config):
    """Our names to a backbone's variables and their shapes once heads and sizes are folded together."""
    hidden, inner = config.hidden_size, config.intermediate_size
    layer = backbone.get_layer
    found = {
        "embeddings.word_embeddings.weight": (layer("token_embedding").embeddings, (config.vocab_size, hidden)),
        "embeddings.position_embeddings.weight": (
            layer("position_embedding").position_embeddings,
            (config.max_position_embeddings, hidden),
        ),
        "embeddings.token_type_embeddings.weight": (
            layer("segment_embedding").embeddings,
            (config.type_vocab_size, hidden),
        ),
    }

    def add(name, part, *shape):
        if shape:
            found[f"{name}.weight"] = (part.kernel, shape)
            found[f"{name}.bias"] = (part.bias, shape[-1:])
        else:
            found[f"{name}.weight"] = (part.gamma, (hidden,))
            found[f"{name}.bias"] = (part.beta, (hidden,))

    add("embeddings.LayerNorm", layer("embeddings_layer_norm"))
    for index in range(config.num_hidden_layers):
        block, name = layer(f"transformer_layer_{index}"), f"encoder.layer.{index}"
        attention = block._self_attention_layer
        add(f"{name}.attention.self.query", attention._query_dense, hidden, hidden)
        add(f"{name}.attention.self.key", attention._key_dense, hidden, hidden)
        add(f"{name}.attention.self.value", attention._value_dense, hidden, hidden)
        add(f"{name}.attention.output.dense", attention._output_dense, hidden, hidden)
        add(f"{name}.attention.output.LayerNorm", block._self_attention_layer_norm)
        add(f"{name}.intermediate.dense", block._feedforward_intermediate_dense, hidden, inner)
        add(f"{name}.output.dense", block._feedforward_output_dense, inner, hidden)
        add(f"{name}.output.LayerNorm", block._feedforward_layer_norm)
    add("pooler.dense", layer("pooled_dense"), hidden, hidden)
    return found

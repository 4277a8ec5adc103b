"""Recovers the config of a Transformer from its graph, so that a model can be saved without further information."""

import dataclasses

import keras

from keras_bert.translation.config import TransformerConfig
from keras_bert.translation.model import build_transformer

_BLOCK_SETTINGS = {
    "hidden_size": "hidden_size",
    "num_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "initializer_range": "initializer_range",
    "layer_norm_eps": "layer_norm_eps",
}
_EMBEDDING_SETTINGS = {
    "hidden_size": "hidden_size",
    "max_length": "max_position_embeddings",
    "positions": "positions",
    "dropout": "dropout",
}
_SCORES = {"logits", "encoder_attention", "decoder_attention", "cross_attention"}


@dataclasses.dataclass(frozen=True)
class TransformerDescription:
    """Config and layers of a Transformer.

    Attributes:
        config: the `TransformerConfig`.
        layers: dict of layers by name.
        dtype: str, name of the dtype policy.
        head: "translation".
    """

    head = "translation"
    num_classes, multi_label = None, False

    config: TransformerConfig
    layers: dict
    dtype: str

    def blocks(self, side):
        """Returns the blocks of a side, "source" or "target", in order."""
        return _blocks(self.layers, side)


def is_transformer(model):
    """Returns whether a model has the inputs of an encoder-decoder."""
    inputs = getattr(model, "input", None)
    return isinstance(inputs, dict) and {"source_ids", "target_ids"} <= inputs.keys()


def describe_transformer(model):
    """Describes a model from `build_transformer`, also after it was saved and loaded by Keras.

    Raises:
        ValueError: if the graph is another one.
    """
    problem = None
    if not isinstance(model, keras.Model) or type(model).call.__qualname__ != "Functional.call":
        problem = "it is no functional Keras model"
    else:
        layers = {layer.name: layer for layer in model.layers}
        needed = {"token_embedding", "source_embeddings", "target_embeddings", "source_block_0", "target_block_0"}
        if not needed <= layers.keys() or not isinstance(model.output, dict) or set(model.output) - _SCORES:
            problem = "its layers or outputs are others"
        else:
            config = _config(layers)
            problem = _difference(model, layers, config)
    if problem:
        raise ValueError(f"`model` must come from build_transformer. Received: {model!r:.100}: {problem}")
    return TransformerDescription(config, layers, layers["token_embedding"].dtype_policy.name)


def _blocks(layers, side):
    count = sum(name.startswith(f"{side}_block_") for name in layers)
    return [layers[f"{side}_block_{index}"] for index in range(count)]


def _config(layers):
    block, embeddings = layers["source_block_0"], layers["source_embeddings"]
    settings = {key: getattr(block, name) for name, key in _BLOCK_SETTINGS.items()}
    settings |= {key: getattr(embeddings, name) for name, key in _EMBEDDING_SETTINGS.items()}
    return TransformerConfig(
        vocab_size=layers["token_embedding"].input_dim,
        num_encoder_layers=len(_blocks(layers, "source")),
        num_decoder_layers=len(_blocks(layers, "target")),
        output_bias="output_bias" in layers,
        **settings,
    )


def _difference(model, layers, config):
    """Returns what differs from the model that the builder makes for the config, or `None`."""
    small = {"vocab_size": 2, "hidden_size": config.num_attention_heads, "intermediate_size": 1}
    small["max_position_embeddings"] = 1
    dtype = layers["token_embedding"].dtype_policy
    scores = set(model.output) != {"logits"}
    same = build_transformer(dataclasses.replace(config, **small), attention_scores=scores, dtype=dtype)
    if _wiring(model) != _wiring(same):
        return "its wiring is another one"
    checked = [(layers[f"{side}_embeddings"], _EMBEDDING_SETTINGS) for side in ("source", "target")]
    checked += [(block, _BLOCK_SETTINGS) for side in ("source", "target") for block in _blocks(layers, side)]
    for layer, names in checked:
        for name, key in names.items():
            if getattr(layer, name) != getattr(config, key):
                return f"the layer {layer.name!r} has {name}={getattr(layer, name)}, others {getattr(config, key)}"
    return None


def _wiring(model):
    """Returns the graph of a functional model without shapes."""
    config = model.get_config()
    names = [(layer["class_name"], layer["config"].get("name"), layer["inbound_nodes"]) for layer in config["layers"]]
    return _plain([names, config["input_layers"], config["output_layers"]])


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items() if key not in ("shape", "dtype", "batch_shape")}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value

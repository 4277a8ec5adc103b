"""Recovers the config of a Transformer from its graph, so that a model can be saved without further information."""

import dataclasses

import keras

from keras_bert.models.wiring import OtherWiringError, check_built, check_functional, expect
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
    try:
        check_functional(model)
        layers = {layer.name: layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer)}
        config = _config(layers)
        check_built(model, layers, lambda: _smallest(model, config))
        _check_sides(layers)
    except (OtherWiringError, KeyError, AttributeError) as error:
        raise ValueError(f"`model` must come from build_transformer. Received: {model!r:.100}: {error}") from None
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


def _smallest(model, config):
    """Builds a model with the same graph and the smallest sizes."""
    small = {"vocab_size": 2, "hidden_size": config.num_attention_heads, "intermediate_size": 1}
    small["max_position_embeddings"] = 1
    return build_transformer(dataclasses.replace(config, **small), attention_scores=set(model.output) != {"logits"})


def _check_sides(layers):
    """Raises if source and target have different sizes, which the config stores once."""
    for name, size in (("embeddings", "max_length"), ("block_0", "intermediate_size")):
        sizes = [getattr(layers[f"{side}_{name}"], size) for side in ("source", "target")]
        expect(sizes[0] == sizes[1], f"the sides have different {size}: {sizes[0]} and {sizes[1]}")

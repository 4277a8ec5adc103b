"""Recovers the config of a Transformer from its graph, so that a model can be saved without further information."""

import dataclasses

from keras_bert.models.graph_comparison import expect
from keras_bert.translation import marian_layout
from keras_bert.translation.config import TransformerConfig

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
    """Config and layers, by name, of a Transformer; `dtype` is the name of a dtype policy."""

    head, embedding, formats = "translation", {}, ("huggingface",)
    num_classes, multi_label = None, False

    config: TransformerConfig
    layers: dict
    dtype: str

    def blocks(self, side):
        """Returns the blocks of a side, "source" or "target", in order."""
        return _blocks(self.layers, side)

    def write(self, directory, vocabulary=None, dtype="float32"):
        """Writes the model in Marian's layout, without `vocab.txt` if there is no reversible vocabulary."""
        marian_layout.write(self, directory, vocabulary, dtype)

    def signatures(self, model, tokenizer, beam=None, n_best=1):
        """Returns the signatures on raw text, see `translator_signatures`."""
        from keras_bert.translation.signature import translator_signatures  # Needs TensorFlow, unlike the model.

        return translator_signatures(self, tokenizer, beam, n_best)


def read(layers):
    """Returns the description of a model with these layers."""
    config = _config(layers)
    _check_sides(layers)
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


def _check_sides(layers):
    """Raises if source and target have different sizes, which the config stores once."""
    for name, size in (("embeddings", "max_length"), ("block_0", "intermediate_size")):
        sizes = [getattr(layers[f"{side}_{name}"], size) for side in ("source", "target")]
        expect(sizes[0] == sizes[1], f"the sides have different {size}: {sizes[0]} and {sizes[1]}")

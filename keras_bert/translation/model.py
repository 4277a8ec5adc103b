"""The Transformer (Vaswani et al., 2017): an encoder-decoder that maps a source sequence to a target sequence.

Its config can be recovered from the graph, so that a model can be saved without further information.
"""

import dataclasses
import types
from typing import NamedTuple

import keras
from keras import ops

from keras_bert.layers import (
    AttentionMask,
    DecoderBlock,
    OutputBias,
    ScaledEmbeddings,
    TokenEmbedding,
    TransformerBlock,
)
from keras_bert.models.description import check_model
from keras_bert.models.graph_comparison import Family, expect, own_layers
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


def build_transformer(
    config: TransformerConfig, *, attention_scores: bool = False, dtype: str | keras.DTypePolicy | None = None
) -> keras.Model:
    """Builds the encoder-decoder as a functional model.

    Args:
        config: a `TransformerConfig`.
        attention_scores: bool, whether to return the attention probabilities of all blocks. Defaults to `False`.
        dtype: dtype policy, such as "mixed_bfloat16". Defaults to Keras' global dtype policy.

    Returns:
        A `keras.Model`. Inputs, int32: `source_ids` and `source_mask` `(batch, source length)`, `target_ids` and
        `target_mask` `(batch, target length)`, where masks are 1 for real tokens and the target is shifted right by a
        start token. Outputs: `logits` `(batch, target length, vocab_size)` of the next token; on request, the lists
        `encoder_attention`, `decoder_attention` and `cross_attention` of tensors `(batch, heads, query length, key
        length)`, one for each block.

    Example:
        model = build_transformer(TransformerConfig(vocab_size=8000))
        logits = model(dict(source_ids=source, source_mask=ones, target_ids=target, target_mask=ones))["logits"]
    """
    # Layers
    dtype = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
    token_embedding, embeddings, masks, blocks = _layers(config, dtype)

    # Wiring
    names = ("source_ids", "source_mask", "target_ids", "target_mask")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    source_mask = masks["source"](inputs["source_mask"])
    target_mask = masks["target"](inputs["target_mask"])
    scores = {"encoder_attention": [], "decoder_attention": [], "cross_attention": []}
    memory = embeddings["source"](token_embedding(inputs["source_ids"]))
    for block in blocks["source"]:
        memory = block(memory, attention_mask=source_mask, return_attention_scores=attention_scores)
        if attention_scores:
            memory, own = memory
            scores["encoder_attention"].append(own)
    hidden = embeddings["target"](token_embedding(inputs["target_ids"]))
    for block in blocks["target"]:
        hidden = block(hidden, memory, target_mask, source_mask, return_attention_scores=attention_scores)
        if attention_scores:
            hidden, own, cross = hidden
            scores["decoder_attention"].append(own)
            scores["cross_attention"].append(cross)
    logits = token_embedding(hidden, reverse=True)
    if config.output_bias:
        logits = OutputBias(dtype=dtype, name="output_bias")(logits)

    # Model
    outputs = {"logits": logits}
    if attention_scores:
        outputs.update(scores)
    return _FAMILY.built(keras.Model(inputs, outputs, name="transformer"))


@dataclasses.dataclass(frozen=True)
class TransformerDescription:
    """Config and layers, by name, of a Transformer; `dtype` is the name of a dtype policy."""

    head = "translation"
    embedding = types.MappingProxyType({})
    formats = ("huggingface",)
    num_classes = None
    multi_label = False

    config: TransformerConfig
    layers: dict
    dtype: str

    def blocks(self, side):
        """Returns the blocks of a side, "source" or "target", in order."""
        if side == "source":
            count = self.config.num_encoder_layers
        else:
            count = self.config.num_decoder_layers
        return [self.layers[f"{side}_block_{index}"] for index in range(count)]

    def write(self, directory, vocabulary=None, dtype="float32"):
        """Writes the model in Marian's layout, without `vocab.txt` if there is no reversible vocabulary."""
        marian_layout.write(self, directory, vocabulary, dtype)

    def signatures(self, model, tokenizer, beam=None, n_best=1):
        """Returns the signatures on raw text, see `translator_signatures`."""
        from keras_bert.translation.signature import translator_signatures  # Needs TensorFlow, unlike the model.

        return translator_signatures(Decoder(model), tokenizer, beam, n_best)


def _describe_layers(layers):
    """Returns the description of a model with these layers."""
    block = layers["source_block_0"]
    embeddings = layers["source_embeddings"]
    table = layers["token_embedding"]
    settings = {}
    for name, key in _BLOCK_SETTINGS.items():
        settings[key] = getattr(block, name)
    for name, key in _EMBEDDING_SETTINGS.items():
        settings[key] = getattr(embeddings, name)
    encoder_layers = sum(name.startswith("source_block_") for name in layers)
    decoder_layers = sum(name.startswith("target_block_") for name in layers)
    config = TransformerConfig(
        vocab_size=table.input_dim,
        num_encoder_layers=encoder_layers,
        num_decoder_layers=decoder_layers,
        output_bias="output_bias" in layers,
        **settings,
    )
    # The config stores the sizes of both sides once.
    for name, size in (("embeddings", "max_length"), ("block_0", "intermediate_size")):
        source = getattr(layers[f"source_{name}"], size)
        target = getattr(layers[f"target_{name}"], size)
        expect(source == target, f"the sides have different {size}: {source} and {target}")
    return TransformerDescription(config, layers, table.dtype_policy.name)


def describe(model):
    """Returns the `TransformerDescription` of a model, also after it was saved and loaded by Keras.

    Raises:
        ValueError: if the graph is another one.
    """
    check_model(model)
    return _FAMILY.describe(model)


class Decoder:
    """The decoder of a Transformer, one token at a time.

    The new tokens of all targets of a source are the rows of one `(batch, rows, width)` tensor, so that they read the
    encoder's keys and values without copies. The cache has the keys and values of each row.

    Args:
        model: a model from `build_transformer`.
    """

    def __init__(self, model: keras.Model):
        description = describe(model)
        self.config = description.config
        self._layers = description.layers
        self._encoder = description.blocks("source")
        self._blocks = description.blocks("target")

    def encode(self, ids, mask):
        """Returns what the steps read: keys and values of the encoder's output for all blocks, its mask, the table."""
        mask = self._layers["source_attention_mask"](mask)
        hidden = self._encode(ids, mask)
        read = [block.cross_attention.project_memory(hidden) for block in self._blocks]
        # Transposed once, since a product with the transposed table copies it.
        table = ops.transpose(self._layers["token_embedding"].embeddings)
        return EncodedSource(read, mask, table)

    def _encode(self, ids, mask):
        hidden = self._layers["source_embeddings"](self._layers["token_embedding"](ids))
        for block in self._encoder:
            hidden = block(hidden, attention_mask=mask)
        return hidden

    def cross_attention(self, source_ids, source_mask, target_ids, target_mask):
        """Returns what targets, shifted right, attend to: probabilities `(batch, target length, source length)`.

        They are the mean of the heads of the last block.
        """
        memory_mask = self._layers["source_attention_mask"](source_mask)
        memory = self._encode(source_ids, memory_mask)
        mask = self._layers["target_attention_mask"](target_mask)
        hidden = self._layers["target_embeddings"](self._layers["token_embedding"](target_ids))
        for block in self._blocks:
            hidden, _, scores = block(hidden, memory, mask, memory_mask, return_attention_scores=True)
        return ops.mean(scores, axis=1)

    def caches(self, rows, length):
        """Returns empty keys and values of all blocks, each `(rows, heads, length, size)`."""

        def empty(block):
            attention = block.attention
            shape = (rows, attention.num_heads, length, attention.hidden_size // attention.num_heads)
            return ops.zeros(shape, attention.compute_dtype)

        return [(empty(block), empty(block)) for block in self._blocks]

    def logits(self, ids, position, caches, memory):
        """Returns the logits of the next token in float32, `(batch, rows, vocabulary)`, and the caches with `ids`.

        `ids` `(batch, rows)` are the last tokens, at `position`; `caches` those for `batch * rows` rows.
        """
        hidden = self._layers["target_embeddings"].step(self._layers["token_embedding"](ids), position)
        is_written = ops.arange(ops.shape(caches[0][0])[2], dtype="int32") <= position
        after = []
        for block, cache, read in zip(self._blocks, caches, memory.keys_and_values, strict=True):
            write = _Writer(cache, position)
            hidden = block.step(hidden, write, read, is_written[None, None, None], memory.mask)
            after.append(write.cache)
        logits = ops.matmul(hidden, ops.cast(memory.table, hidden.dtype))
        if "output_bias" in self._layers:
            logits = self._layers["output_bias"](logits)
        return ops.cast(logits, "float32"), after


class EncodedSource(NamedTuple):
    """What the decoder reads at each step."""

    keys_and_values: list  # Pairs, one for each block, from `project_memory`.
    mask: object  # The encoder's attention mask.
    table: object  # `(width, vocabulary)`, the transposed token table.


class _Writer:
    """Writes the keys and values of new tokens at a position of a cache."""

    def __init__(self, cache, position):
        self.cache = cache
        self._position = position

    def __call__(self, keys, values):
        rows, heads, length, size = ops.shape(self.cache[0])
        is_new = (ops.arange(length, dtype="int32") == self._position)[:, None]
        old_keys, old_values = self.cache
        keys = ops.where(is_new, ops.reshape(keys, (rows, heads, 1, size)), old_keys)
        values = ops.where(is_new, ops.reshape(values, (rows, heads, 1, size)), old_values)
        self.cache = (keys, values)
        return self.cache


def _rebuild(description, model):
    """Builds a model with the same graph and the smallest sizes."""
    config = dataclasses.replace(
        description.config,
        vocab_size=2,
        hidden_size=description.config.num_attention_heads,
        intermediate_size=1,
        max_position_embeddings=1,
    )
    return build_transformer(config, attention_scores=set(model.output) != {"logits"})


_FAMILY = Family("build_transformer", own_layers, _describe_layers, _rebuild)


def _layers(config, dtype):
    """Returns the token table, and by side the embeddings, the masks and the blocks."""
    token_embedding = TokenEmbedding(
        config.vocab_size,
        config.hidden_size,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=config.deviation),
        reverse_dtype=dtype.compute_dtype,
        dtype=dtype,
        name="token_embedding",
    )
    embedding_settings = {name: getattr(config, key) for name, key in _EMBEDDING_SETTINGS.items()}
    block_settings = {name: getattr(config, key) for name, key in _BLOCK_SETTINGS.items()}
    block_settings["initializer_range"] = config.deviation
    embeddings = {}
    masks = {}
    for side in ("source", "target"):
        embeddings[side] = ScaledEmbeddings(**embedding_settings, dtype=dtype, name=f"{side}_embeddings")
        masks[side] = AttentionMask(causal=side == "target", name=f"{side}_attention_mask")
    blocks = {"source": [], "target": []}
    for index in range(config.num_encoder_layers):
        block = TransformerBlock(**block_settings, dtype=dtype, name=f"source_block_{index}")
        blocks["source"].append(block)
    for index in range(config.num_decoder_layers):
        block = DecoderBlock(**block_settings, dtype=dtype, name=f"target_block_{index}")
        blocks["target"].append(block)
    return token_embedding, embeddings, masks, blocks

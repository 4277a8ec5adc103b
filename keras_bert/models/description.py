"""Reads config and settings of a model from its layers, which the builders give their names."""

import dataclasses
import functools
import re

import keras
import numpy as np

from keras_bert import other_models
from keras_bert.config import BertConfig
from keras_bert.layers import Windows
from keras_bert.models import graph_comparison

# What a prefix, the name of an encoder, precedes.
_LAYER = r"(token_embedding|positions|embeddings|attention_mask|position_bias|block_\d+|pooler)"
_ENCODER_LAYER = f"(?={_LAYER}$)"

BUILDERS = "a builder of keras_bert, such as build_encoder or build_classifier"
# Keras' own message prints all texts and names no way out. A subclass of `keras.Model` would say it better, but the
# models of this package are plain functional ones, which load anywhere; so these methods of the object are wrapped. A
# model that Keras loads or clones does without. It can go when Keras calls something of the model before it reads data.
_METHODS = ("fit", "evaluate", "predict")


@dataclasses.dataclass(frozen=True)
class Description:
    """Config, head and layers of a model.

    Attributes:
        config: the `BertConfig` of the encoder.
        head: str, the name of one of `HEADS`.
        options: dict of the options of the head, as passed to its builder.
        causal, positions: as passed to `build_encoder`.
        dtype: str, name of the encoder's dtype policy.
        layers: dict of layers, keyed by the builders' names, including those of a nested encoder.
        num_classes: int, width of a classification head, 1 for regression. `None` for other heads.
        multi_label: bool, whether several classes may apply to one text.
        score_activation: str, as passed to `build_classifier`.
        tied: bool, whether the masked-LM head shares the token table.

    The description of another model than a BERT has the same attributes where they apply, and three more.

    Attributes:
        formats: tuple of the formats of `save` that the model has, first the default.
        write: function that writes the model instead of `save`, with its arguments; `None` for none.
        signatures: function that returns the signatures instead of those of its head; `None` for these.
    """

    formats = ("huggingface", "google", "keras", "peft")
    write = None
    signatures = None

    config: BertConfig
    head: str
    options: dict
    causal: bool
    positions: str
    dtype: str
    layers: dict
    # Of the options, those that other programs' files have a place for.
    num_classes: int | None = None
    multi_label: bool = False
    score_activation: str = "linear"
    tied: bool = True

    @property
    def embedding(self):
        """The arguments of `build_embedder`, a dict; for other heads an empty one."""
        if "sentence_pooling" in self.layers:
            return self.options
        return {}


def check_model(model):
    """Raises for anything but a Keras model."""
    if not isinstance(model, keras.Model):
        raise ValueError(
            "expected a Keras model: of what `keras_bert.load` returns, pass `bert.encoder` to builders and "
            f"`bert.model()` to other functions. Received: {model!r:.200}"
        )


def hint(model):
    """Returns a sentence for the message that a model does not fit, or an empty string."""
    if model.name.startswith(("trimmed_", "packed_")):
        return " A model from build_trimmed or build_packed is for training only: use the one that it was made from."
    models = other_models.named(model.name)
    if models:
        return f" A {model.name} that Keras loaded: pass it to {models.module}.describe first."
    return ""


def is_encoder_layer(name):
    """Returns whether a layer of an encoder has this name."""
    return re.fullmatch(_LAYER, name) is not None


def layers_of(model):
    """Returns the layers of a functional model and of a nested encoder by the builders' names, without inputs."""
    all_layers = {}
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            all_layers.update({inner.name: inner for inner in layer.layers})
        all_layers[layer.name] = layer

    by_own_name = {}
    for name, layer in all_layers.items():
        if not isinstance(layer, keras.layers.InputLayer | keras.Model):
            by_own_name[name] = layer
    prefix = re.escape(_encoder_prefix(by_own_name))
    return {re.sub(f"^{prefix}{_ENCODER_LAYER}", "", name): layer for name, layer in by_own_name.items()}


def _encoder_prefix(names):
    """Returns what the names of the layers of an encoder begin with, its own name or nothing."""
    for name in names:
        if name.endswith("token_embedding"):
            return name.removesuffix("token_embedding")
    return ""


def blocks_of(layers):
    """Returns the blocks among layers by name, in order."""
    blocks = []
    while f"block_{len(blocks)}" in layers:
        blocks.append(layers[f"block_{len(blocks)}"])
    return blocks


def built(model):
    """Notes that a builder made a model, so that `describe` need not compare its graph; the model refuses texts."""
    refuse_texts(model)
    return graph_comparison.built(model, layers_of(model))


def nested_encoder(model):
    """Returns the model that a model calls as a layer, such as the encoder of choices, or else the model itself."""
    for layer in model.layers:
        if isinstance(layer, Windows):
            return layer.model
        if isinstance(layer, keras.Model):
            return layer
    return model


def read(layers, head, options):
    """Returns the `Description` of a model with these layers, before they are compared with those of a builder.

    `head` is the name of a head, `options` are what it reads from its layers.
    """
    embeddings = layers["embeddings"]
    block = layers["block_0"]
    max_length = embeddings.max_length
    padding_id = None
    if "positions" in layers:  # They are counted from the id of padding.
        max_length = layers["positions"].max_length
        padding_id = layers["positions"].padding_id
    pooler_activation = "tanh"
    if "pooler" in layers:
        pooler_activation = layers["pooler"].activation
    config = BertConfig(
        vocab_size=layers["token_embedding"].input_dim,
        hidden_size=block.hidden_size,
        num_hidden_layers=len(blocks_of(layers)),
        num_attention_heads=block.num_heads,
        intermediate_size=block.intermediate_size,
        hidden_act=block.activation,
        hidden_dropout_prob=embeddings.dropout,
        attention_probs_dropout_prob=block.attention_dropout,
        max_position_embeddings=max_length,
        type_vocab_size=embeddings.num_segments,
        initializer_range=embeddings.initializer_range,
        layer_norm_eps=embeddings.layer_norm_eps,
        embedding_size=embeddings.output_size and embeddings.hidden_size,
        pooler_activation=pooler_activation,
        position_padding_id=padding_id,
    )
    dropout = layers.get("head_dropout")
    if dropout is not None and dropout.rate != config.hidden_dropout_prob:
        config = dataclasses.replace(config, classifier_dropout=dropout.rate)
    facts = {name: value for name, value in options.items() if name in _FACTS}
    return Description(
        config=config,
        head=head,
        options=options,
        causal=layers["attention_mask"].causal,
        positions=embeddings.positions,
        dtype=block.dtype_policy.name,
        layers=layers,
        **facts,
    )


_FIELDS = dataclasses.fields(Description)
_FACTS = [field.name for field in _FIELDS if field.default is not dataclasses.MISSING]


def refuse_texts(model):
    """Makes the methods of a model that take data refuse texts with one line."""
    for name in _METHODS:
        setattr(model, name, _refusing_texts(getattr(model, name), name))


def _refusing_texts(method, name):
    """Returns a method that takes data and raises if these are texts."""

    @functools.wraps(method)
    def checked(x=None, *args, **kwargs):
        text = _first_text(x)
        if text is not None:
            raise ValueError(
                f"`{name}` of a model on token ids takes no texts. Expected what "
                "`bert.preprocessor(sequence_length)` returns for them, best in `tf.data.Dataset.map`; or "
                "`bert.fit` and `bert.predict` of "
                f"`keras_bert.load`, which take texts. Received: {str(text)!r:.50}"
            )
        return method(x, *args, **kwargs)

    return checked


def _first_text(x):
    """Returns the first text of inputs of any form, `None` if their first values are no texts."""
    columns = (x,)
    if isinstance(x, dict):
        columns = x.values()
    elif isinstance(x, tuple):
        columns = x
    for column in columns:
        value = _first_value(column)
        if isinstance(value, str | bytes):
            return value
    return None


def _first_value(column):
    """Returns the first value of a list, an array or a Series; of pairs, rows by column and words the first of them."""
    value = column
    if isinstance(column, list | np.ndarray) or hasattr(column, "to_numpy"):  # A Series.
        value = next(iter(column[:1]), None)
    while isinstance(value, dict | list | tuple) and value:
        if isinstance(value, dict):
            value = next(iter(value.values()))
        else:
            value = value[0]
    return value

"""Recovers config and head from a model's graph, so that a model can be saved without further information."""

import dataclasses
import functools
import json
import random

import keras

from keras_bert.baselines.description import describe_baseline, is_baseline
from keras_bert.config import BertConfig
from keras_bert.layers import MultiLabelDense, SigmoidDense
from keras_bert.models.wiring import OtherWiringError, expect, read
from keras_bert.translation.description import describe_transformer, is_transformer

HEADS = (
    "encoder",
    "embedding",
    "pretraining",
    "next_sentence",
    "classification",
    "token_classification",
    "bilstm_tagging",
    "question_answering",
    "multiple_choice",
)
# Arguments of `TransformerBlock` and the keys of `BertConfig` that they come from.
_BLOCK_SETTINGS = {
    "num_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "layer_norm_eps": "layer_norm_eps",
}
_PART_SETTINGS = ("activation", "epsilon", "rate")


@dataclasses.dataclass(frozen=True)
class Description:
    """Config, head and layers of a model.

    Attributes:
        config: the `BertConfig` of the encoder.
        head: str, one of `HEADS`.
        num_classes: int, width of a classification head, 1 for regression. `None` for other heads.
        multi_label: bool, whether several classes may apply to one text.
        score_activation: str, as passed to `build_classifier`.
        next_sentence: bool, whether there is an NSP head.
        tied: bool, whether the masked-LM head shares the token table.
        causal, positions: as passed to `build_encoder`.
        bilstm: bool, whether a BiLSTM is on top of the encoder, see `build_bilstm_encoder`.
        features: str, the features of a BiLSTM tagger, see `build_bilstm_tagger`. `None` for other heads.
        dtype: str, name of the encoder's dtype policy.
        layers: dict of layers, keyed by the builders' names, including those of a nested encoder.
    """

    config: BertConfig
    head: str
    num_classes: int | None
    multi_label: bool
    score_activation: str
    next_sentence: bool
    tied: bool
    causal: bool
    positions: str
    bilstm: bool
    features: str | None
    dtype: str
    layers: dict

    @property
    def embedding(self):
        """The arguments of `build_embedder`, a dict; for other heads an empty one."""
        if self.head != "embedding":
            return {}
        pool, dense = self.layers["sentence_pooling"], self.layers.get("sentence_projection")
        return {
            "pooling": pool.pooling,
            "normalize": pool.normalize or "unit_length" in self.layers,
            "sequence_length": pool.sequence_length,
            "projection": None if dense is None else dense.units,
            "projection_activation": "linear" if dense is None else keras.activations.serialize(dense.activation),
        }


def describe(model):
    """Describes a model made by a builder of this package, also after it was saved and loaded by Keras.

    Follows the graph from the outputs to the inputs, so that a custom head is never mistaken for one of ours.

    Returns:
        A `Description`; for a model from `build_transformer`, a `TransformerDescription`; for one from `build_bilm`,
        `build_bilstm_classifier` or `build_bidaf`, a `BaselineDescription`.

    Raises:
        ValueError: if no builder makes this graph.
    """
    if not isinstance(model, keras.Model):
        raise ValueError(
            "expected a Keras model: of what `keras_bert.load` returns, pass `bert.encoder` to builders and "
            f"`bert.model()` to other functions. Received: {model!r:.200}"
        )
    if is_transformer(model):
        return describe_transformer(model)
    if is_baseline(model):
        return describe_baseline(model)
    try:
        return _description(*read(model))
    except OtherWiringError as error:
        hint = ""
        if model.name.startswith(("trimmed_", "packed_")):
            hint = (
                " A model from build_trimmed or build_packed is for training only: use the one that it was made from."
            )
        raise ValueError(
            "`model` must come from a builder of keras_bert, such as build_encoder or build_classifier, with nothing "
            f"added, removed or changed. {error}.{hint} Received: model={model.name!r}. keras_bert only saves and "
            "exports models from its builders; Keras saves any model: model.save('model.keras')"
        ) from None


def describe_encoder(encoder):
    """Describes a model from `build_encoder`; raises for any other model."""
    description = describe(encoder)
    if description.head != "encoder":
        raise ValueError(
            f"`encoder` must be a model from build_encoder. Received: a model with a {description.head} head"
        )
    return description


def _description(head, layers):
    embeddings, blocks = layers["embeddings"], [layer for name, layer in layers.items() if name.startswith("block_")]
    block = blocks[0]
    config = BertConfig(
        vocab_size=layers["token_embedding"].input_dim,
        hidden_size=embeddings.hidden_size,
        num_hidden_layers=len(blocks),
        num_attention_heads=block.num_heads,
        intermediate_size=block.intermediate_size,
        hidden_act=block.activation,
        hidden_dropout_prob=embeddings.dropout,
        attention_probs_dropout_prob=block.attention_dropout,
        max_position_embeddings=embeddings.max_length,
        type_vocab_size=embeddings.num_segments,
        initializer_range=embeddings.initializer_range,
        layer_norm_eps=embeddings.layer_norm_eps,
    )
    _check_settings(config, layers, blocks)
    dropout = layers.get("head_dropout")
    if dropout is not None and dropout.rate != config.hidden_dropout_prob:
        config = dataclasses.replace(config, classifier_dropout=dropout.rate)
    classifier = layers.get("classifier", layers.get("token_classifier"))
    return Description(
        config=config,
        head=head,
        num_classes=None if classifier is None else classifier.units,
        multi_label=isinstance(classifier, MultiLabelDense),
        score_activation="sigmoid" if isinstance(classifier, SigmoidDense) else "linear",
        next_sentence="next_sentence" in layers,
        tied="mlm_decoder" not in layers,
        causal=layers["attention_mask"].causal,
        positions=embeddings.positions,
        bilstm="encoder_bilstm" in layers,
        features=layers["features"].features if head == "bilstm_tagging" else None,
        dtype=block.dtype_policy.name,
        layers=layers,
    )


def _check_settings(config, layers, blocks):
    """Raises if layers differ in a setting that the config stores once, or from their own sublayers."""
    for layer in layers.values():
        _check_parts(layer)
    for block in blocks:
        for name, key in _BLOCK_SETTINGS.items():
            value, expected = getattr(block, name), getattr(config, key)
            expect(value == expected, f"the layer {block.name!r} has {name}={value}, where others have {expected}")
    for name, setting in (("bilstm", "units"), ("bilstm_dropout", "rate")):
        values = {getattr(layers[key], setting) for key in layers if key.rstrip("0123456789") == f"{name}_"}
        values |= {layers["head_dropout"].rate} if name == "bilstm_dropout" and values else set()
        expect(len(values) <= 1, f"the BiLSTM layers differ in {setting}")
    if "pooler" in layers:
        causal = layers["attention_mask"].causal
        expect(layers["pooler"].last == causal, f"its pooler must pool {'the last token' if causal else '[CLS]'}")
    transform = layers.get("mlm_transform")
    if transform is not None:
        same = (transform.activation, transform.layer_norm_eps) == (config.hidden_act, config.layer_norm_eps)
        expect(same, f"the layer {transform.name!r} has a different activation or epsilon than the blocks")


def _check_parts(layer):
    """Raises if a sublayer was changed after its layer was created."""
    parts = layer._flatten_layers(include_self=False)
    if not parts:
        return
    config = {name: value for name, value in layer.get_config().items() if name != "name"}
    for part, original in zip(parts, _new_part_settings(type(layer), json.dumps(config)), strict=True):
        for name, expected in original.items():
            value = getattr(part, name, None)
            expect(value == expected, f"the sublayer {part.path!r} has {name}={value}, but its layer has {expected}")


@functools.lru_cache
def _new_part_settings(kind, config):
    """Returns the settings of each sublayer of a new layer with this config in JSON."""
    state = random.getstate()
    parts = kind.from_config(json.loads(config))._flatten_layers(include_self=False)
    random.setstate(state)  # New layers draw seeds; weights of later models must not depend on the cache.
    return [{name: getattr(part, name, None) for name in _PART_SETTINGS} for part in parts]

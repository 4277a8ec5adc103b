"""The models that BERT is compared with: built from a config, and described."""

import dataclasses
import re

import keras

from keras_bert.baselines.bidaf import build_bidaf
from keras_bert.baselines.bilm import build_bilm
from keras_bert.baselines.bilstm_classifier import build_bilstm_classifier
from keras_bert.baselines.config import DROPOUT, BaselineConfig
from keras_bert.layers import BiLSTM
from keras_bert.models.wiring import OtherWiringError, check_built, check_functional

_MODEL_NAMES = {"bilm": "bilm", "bilstm": "bilstm_classifier", "bidaf": "bidaf"}


@dataclasses.dataclass(frozen=True)
class BaselineDescription:
    """Config and head of a model that BERT is compared with.

    Attributes:
        config: the `BaselineConfig`.
        head: str, "language_model", "classification" or "question_answering".
        num_classes: int, width of a classification head, 1 for regression. `None` for other heads.
        pair: bool, whether a classifier reads pairs of texts. `None` for other heads.
        dtype: str, name of the dtype policy.
        layers: dict of layers by name.
    """

    multi_label = next_sentence = causal = bilstm = False
    positions, features, score_activation = "none", None, "linear"

    config: BaselineConfig
    head: str
    num_classes: int | None
    pair: bool | None
    dtype: str
    layers: dict


def build_baseline(config, num_classes=None, pair=True, language_model=None, dtype=None):
    """Builds the model of a config.

    Args:
        config: a `BaselineConfig`.
        num_classes: int, number of classes of a classifier, 1 for regression.
        pair: bool, whether a classifier reads pairs of texts. Defaults to `True`.
        language_model: the model of `config.language_model`, if it has one.
        dtype: dtype policy. Defaults to Keras' global dtype policy.
    """
    if config.kind == "bilm":
        return build_bilm(config.vocab_size, config.width, config.num_layers, config.dropout, dtype)
    sizes = {"embedding_size": config.embedding_size, "width": config.width, "dropout": config.dropout}
    options = {**sizes, "language_model": language_model, "dtype": dtype}
    if config.kind == "bidaf":
        return build_bidaf(config.vocab_size, **options)
    return build_bilstm_classifier(config.vocab_size, num_classes, pair, num_layers=config.num_layers, **options)


def is_baseline(model):
    """Returns whether a model has the name of one of these."""
    return model.name in _MODEL_NAMES.values() and isinstance(getattr(model, "output", None), dict)


def describe_baseline(model):
    """Describes a model that BERT is compared with, also after it was saved and loaded by Keras.

    Returns:
        A `BaselineDescription`.

    Raises:
        ValueError: if no builder makes this graph.
    """
    try:
        check_functional(model)
        description = _read(model)
        check_built(model, description.layers, lambda: _smallest(description))
    except (OtherWiringError, KeyError, AttributeError) as error:
        raise ValueError(
            "`model` must come from build_bilm, build_bilstm_classifier or build_bidaf, with nothing added, removed or "
            f"changed. {error}. Received: model={model.name!r}. Keras saves any model: model.save('model.keras')"
        ) from None
    return description


def _read(model):
    """Returns the description according to the sizes of the layers."""
    kind = next(kind for kind, name in _MODEL_NAMES.items() if name == model.name)
    layers = {layer.name: layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer)}
    if kind == "bilm":
        head, num_classes, pair = "language_model", None, None
        config = _language_model(layers, layers["dropout_0"].rate)
    else:
        table = layers["embedding"]
        is_classifier = kind == "bilstm"
        head = "classification" if is_classifier else "question_answering"
        num_classes = layers["classifier"].units if is_classifier else None
        pair = "match_bilstm" in layers if is_classifier else None
        first = layers["bilstm_0" if is_classifier else "contextual_bilstm"]
        rate = layers["dropout_0" if is_classifier else "contextual_dropout"].rate
        depth = _count(layers, "bilstm_") if is_classifier else 1
        features = _language_model(layers, DROPOUT["bilm"]) if "weighted_sum" in layers else None
        config = BaselineConfig(kind, table.input_dim, first.units, depth, table.output_dim, rate, features)
    recurrent = next(layer for layer in layers.values() if isinstance(layer, BiLSTM))
    return BaselineDescription(config, head, num_classes, pair, recurrent.dtype_policy.name, layers)


def _language_model(layers, dropout):
    table, depth = layers["token_embedding"], _count(layers, "lstm_")
    return BaselineConfig("bilm", table.input_dim, table.output_dim, depth, table.output_dim, dropout)


def _count(layers, prefix):
    return sum(re.fullmatch(rf"{prefix}\d+", name) is not None for name in layers)


def _smallest(description):
    """Builds a model with the same graph and the smallest sizes."""
    small = {"vocab_size": 1, "width": 1, "embedding_size": 1}
    config = dataclasses.replace(description.config, **small)
    features = config.language_model
    if features is not None:
        features = build_baseline(dataclasses.replace(features, **small), dtype=description.dtype)
    return build_baseline(config, description.num_classes, description.pair, features, description.dtype)

"""What is read from the layers of a model that BERT is compared with."""

import dataclasses
import re

from keras_bert.models import Family, own_layers
from research.rivals.config import DROPOUT, RivalConfig


@dataclasses.dataclass(frozen=True)
class RivalDescription:
    """Config and head of a model that BERT is compared with.

    Attributes:
        config: the `RivalConfig`.
        head: str, "language_model", "classification" or "question_answering".
        num_classes: int, width of a classification head, 1 for regression. `None` for other heads.
        pair: bool, whether a classifier reads pairs of texts. `None` for other heads.
        dtype: str, name of the dtype policy.
        layers: dict of layers by name.
    """

    multi_label = next_sentence = causal = False
    positions, score_activation = "none", "linear"
    embedding, formats, write, signatures = {}, ("keras",), None, None

    config: RivalConfig
    head: str
    num_classes: int | None
    pair: bool | None
    dtype: str
    layers: dict

    def to_json(self, metadata):
        """Returns the content of `config.json`, which only this package reads."""
        return {**self.config.to_huggingface(), "labels": metadata.labels, "keras_bert": metadata.to_json()}


def family(read, rebuild):
    """Returns the `Family` of one builder."""
    builders = "build_bilm, build_bilstm_classifier or build_bidaf"
    return Family(builders, own_layers, read, lambda description, model: rebuild(description))


def read_language_model(layers, dropout):
    """Returns the config of a "bilm", also of one whose states are features of the model with these layers."""
    table = layers["token_embedding"]
    return RivalConfig("bilm", table.input_dim, table.output_dim, count(layers, "lstm_"), table.output_dim, dropout)


def read_model(layers, kind, first, dropout, num_layers):
    """Returns the config of a model with a token table of its own.

    Args:
        layers: dict of layers by name.
        kind: str, see `RivalConfig`.
        first, dropout: names of the first BiLSTM and of the dropout before it.
        num_layers: int.
    """
    table, lstm, rate = layers["embedding"], layers[first], layers[dropout].rate
    features = read_language_model(layers, DROPOUT["bilm"]) if "weighted_sum" in layers else None
    return RivalConfig(kind, table.input_dim, lstm.units, num_layers, table.output_dim, rate, features)


def count(layers, prefix):
    """Returns the number of layers whose names are the prefix and a number."""
    return sum(re.fullmatch(rf"{prefix}\d+", name) is not None for name in layers)

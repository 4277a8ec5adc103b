"""BERT's configuration: the keys of `bert_config.json` and the named sizes.

Google and Hugging Face write the same keys with different values of `hidden_act`: Google's "gelu" is the tanh form,
Hugging Face's "gelu" is the erf form and "gelu_new" the tanh form. `BertConfig` uses Hugging Face's names; only
this file converts them.
"""

import dataclasses
import pathlib
import re

from keras_bert.checks import (
    check_choice,
    check_count,
    check_counts,
    check_heads,
    check_positive,
    check_rate,
    with_plain_numbers,
)
from keras_bert.files import read_object

ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu", "tanh", "linear")
POOLER_ACTIVATIONS = ("tanh", "relu", "gelu")

# Maps other programs' names of activations to ours.
_FROM_GOOGLE = {"gelu": "gelu_new", "relu": "relu", "tanh": "tanh", "linear": "linear"}
_FROM_HUGGINGFACE = dict(zip(ACTIVATIONS, ACTIVATIONS, strict=True)) | {
    "gelu_pytorch_tanh": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu_python": "gelu",
    "swish": "silu",
}

# Unused keys of Google's multilingual and Chinese files.
_INERT_IN_GOOGLE = {
    "directionality",
    "pooler_type",
    "pooler_fc_size",
    "pooler_size_per_head",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
}
# Every Hugging Face config contains at least one of these keys.
_HUGGINGFACE_KEYS = {"model_type", "architectures", "transformers_version", "pad_token_id", "layer_norm_eps"}
# Keys of Hugging Face configs that change the model, with their values for BERT.
_FIXED_IN_HUGGINGFACE = {
    "model_type": "bert",
    "position_embedding_type": "absolute",
    "add_cross_attention": False,
    "is_decoder": False,
    "is_encoder_decoder": False,
}
# Settings that only BERT's relatives have, with BERT's values.
OTHER_SETTINGS = {"embedding_size": None, "pooler_activation": "tanh", "position_padding_id": None}


@with_plain_numbers
@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The configuration of a BERT, with the keys of `bert_config.json`. The defaults are those of uncased BERT BASE.

    Args:
        vocab_size: int, number of rows of the token table. Defaults to 30522.
        hidden_size: int, width of the model, a multiple of `num_attention_heads`. Defaults to 768.
        num_hidden_layers: int, number of Transformer blocks. Defaults to 12.
        num_attention_heads: int, number of attention heads per block. Defaults to 12.
        intermediate_size: int, inner width of the feed-forward network. Defaults to 3072.
        hidden_act: str, one of `ACTIVATIONS`: "gelu" is the erf form, "gelu_new" the tanh form. Defaults to "gelu_new".
        hidden_dropout_prob: float, dropout rate of the embeddings and of each sublayer's output. Defaults to 0.1.
        attention_probs_dropout_prob: float, dropout rate of the attention probabilities. Defaults to 0.1.
        max_position_embeddings: int, maximum sequence length. Defaults to 512.
        type_vocab_size: int, number of segments; 0 for no segment embeddings, as in DistilBERT. Defaults to 2.
        initializer_range: float, standard deviation of the truncated normal initializer. Defaults to 0.02.
        layer_norm_eps: float, epsilon of every LayerNorm. Defaults to 1e-12.
        classifier_dropout: float, dropout rate before a classification head. Defaults to `hidden_dropout_prob`.
        embedding_size: int, width of the embeddings, which a dense layer makes `hidden_size`, as in ELECTRA. Defaults
            to `hidden_size`, without that layer.
        pooler_activation: str, one of `POOLER_ACTIVATIONS`: "relu" in DistilBERT, "gelu" in ELECTRA. Defaults to
            "tanh".
        position_padding_id: int, id of padding, from which positions are counted, as in RoBERTa: the first token has
            the row after it of the position table, and padding, wherever it is, the row of its id. Defaults to `None`:
            positions are counted from 0, with padding.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    classifier_dropout: float | None = None
    embedding_size: int | None = None
    pooler_activation: str = "tanh"
    position_padding_id: int | None = None

    # For the model card.
    title = "BERT"
    package = "keras_bert"

    def __post_init__(self):
        check_counts(self, may_be_zero=("type_vocab_size",))
        check_heads(self.hidden_size, num_attention_heads=self.num_attention_heads)
        check_choice("hidden_act", self.hidden_act, ACTIVATIONS)
        check_choice("pooler_activation", self.pooler_activation, POOLER_ACTIVATIONS)
        if self.embedding_size is not None:
            check_count("embedding_size", self.embedding_size)
        if self.position_padding_id is not None:
            check_count("position_padding_id", self.position_padding_id, least=0)
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            check_rate(name, getattr(self, name))
        check_rate("classifier_dropout", self.head_dropout)
        for name in ("initializer_range", "layer_norm_eps"):
            check_positive(name, getattr(self, name))

    @property
    def size(self):
        """Layers and width, such as "6 layers, width 384"."""
        layers = "1 layer" if self.num_hidden_layers == 1 else f"{self.num_hidden_layers} layers"
        return f"{layers}, width {self.hidden_size}"

    @property
    def position_rows(self):
        """Returns the number of rows of the position table."""
        if self.position_padding_id is None:
            return self.max_position_embeddings
        return self.max_position_embeddings + self.position_padding_id + 1

    @property
    def head_dropout(self):
        """Returns the dropout rate before a classification head."""
        if self.classifier_dropout is None:
            return self.hidden_dropout_prob
        return self.classifier_dropout

    @classmethod
    def from_json(cls, path):
        """Reads Google's `bert_config.json` or Hugging Face's `config.json`, depending on the weights next to it."""
        path = pathlib.Path(path).expanduser()
        values = read_object(path)
        weights = [*path.parent.glob("*.safetensors"), *path.parent.glob("pytorch_model*.bin")]
        program = "huggingface" if path.name == "config.json" and weights else None
        try:
            return cls.from_dict(values, program)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def from_dict(cls, values, program=None):
        """Creates a config from the content of either JSON file.

        Args:
            values: dict, the content.
            program: str, "google" or "huggingface", the program that wrote it. By default, inferred from the keys.
        """
        if "vocab_size" not in values:
            raise ValueError(f"the key `vocab_size` is missing. Received the keys: {', '.join(sorted(values))}")
        if program is None:
            program = "huggingface" if _HUGGINGFACE_KEYS & values.keys() else "google"
        known = {field.name for field in dataclasses.fields(cls)}
        if program == "huggingface":
            _check_huggingface(values)
            activations = _FROM_HUGGINGFACE
        else:
            _check_google(values, known)
            activations = _FROM_GOOGLE
        settings = {key: value for key, value in values.items() if key in known}
        activation = settings.get("hidden_act", "gelu")
        check_choice("hidden_act", activation, activations)
        settings["hidden_act"] = activations[activation]
        return cls(**settings)

    def check_plain(self, place):
        """Raises if a setting is none of BERT's, for a place that cannot store it."""
        changed = [name for name, value in OTHER_SETTINGS.items() if getattr(self, name) != value]
        if not self.type_vocab_size:
            changed.append("type_vocab_size")
        if changed:
            values = ", ".join(f"{name}={getattr(self, name)!r}" for name in changed)
            raise ValueError(f"{place} has no place for {values}. Expected a BERT; use the huggingface format")

    def to_huggingface(self):
        """Returns the content of Hugging Face's `config.json`, for a BERT."""
        content = {"model_type": "bert"}
        for key, value in dataclasses.asdict(self).items():
            if key not in OTHER_SETTINGS:
                content[key] = value
        return content

    def to_google(self):
        """Returns the content of Google's `bert_config.json`; raises for settings without a key there."""
        self.check_plain("Google's format")
        to_google = {ours: theirs for theirs, ours in _FROM_GOOGLE.items()}
        if self.hidden_act not in to_google:
            raise ValueError(
                f"Google's format has no name for `hidden_act`={self.hidden_act!r} (its gelu is the tanh form). "
                f"Expected one of {', '.join(to_google)}; use the huggingface or keras format"
            )
        if self.layer_norm_eps != 1e-12:
            raise ValueError(
                "Google's format has no key for `layer_norm_eps`, its programs use 1e-12. "
                f"Received: layer_norm_eps={self.layer_norm_eps}; use the huggingface or keras format"
            )
        content = self.to_huggingface()
        for key in ("layer_norm_eps", "classifier_dropout", "model_type"):
            del content[key]
        content["hidden_act"] = to_google[self.hidden_act]
        return content


def _check_huggingface(values):
    """Raises an error for the content of a `config.json` that is not that of a BERT."""
    for key, expected in _FIXED_IN_HUGGINGFACE.items():
        if values.get(key, expected) not in (expected, None):
            raise ValueError(f"`{key}` must be {expected!r} for a BERT encoder. Received: {key}={values[key]!r}")
    for key in ("pruned_heads", "quantization_config"):
        if values.get(key):
            raise ValueError(f"`{key}` is not supported. Received: {key}={values[key]!r}")


def _check_google(values, known):
    """Raises an error for keys of a `bert_config.json` whose meaning is unknown."""
    unknown = set(values) - known - _INERT_IN_GOOGLE
    if unknown:
        raise ValueError(
            f"unknown key(s) {', '.join(sorted(unknown))}. Expected Google's bert_config.json with "
            f"{', '.join(sorted(known))}, or Hugging Face's config.json with `model_type`"
        )


def _size(layers, hidden, heads=None):
    return BertConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads or hidden // 64,
        intermediate_size=4 * hidden,
    )


BERT_TINY = _size(2, 128)
BERT_MINI = _size(4, 256)
BERT_SMALL = _size(4, 512)
BERT_MEDIUM = _size(8, 512)
BERT_BASE = _size(12, 768)
BERT_LARGE = _size(24, 1024)

NAMED_CONFIGS = {
    "tiny": BERT_TINY,
    "mini": BERT_MINI,
    "small": BERT_SMALL,
    "medium": BERT_MEDIUM,
    "base": BERT_BASE,
    "large": BERT_LARGE,
}
# Google's 24 miniatures (Turc et al., 2019).
for _layers in range(2, 13, 2):
    for _hidden in (128, 256, 512, 768):
        NAMED_CONFIGS[f"L-{_layers}_H-{_hidden}"] = _size(_layers, _hidden)
# The size study of the paper (table 6): layers, width, heads.
for _layers, _hidden, _heads in (
    (3, 768, 12),
    (6, 768, 3),
    (6, 768, 12),
    (12, 768, 12),
    (12, 1024, 16),
    (24, 1024, 16),
):
    NAMED_CONFIGS[f"L-{_layers}_H-{_hidden}_A-{_heads}"] = _size(_layers, _hidden, _heads)


def named_config(name: str) -> "BertConfig":
    """Returns the config of a named size: "base", "bert-large", "L-4_H-256", "L-6_H-768_A-3"..."""
    config = NAMED_CONFIGS.get(re.sub(r"^bert[-_]", "", name, flags=re.IGNORECASE))
    if config is None:
        raise ValueError(f"unknown size name {name!r}. Expected one of {', '.join(NAMED_CONFIGS)}")
    return config

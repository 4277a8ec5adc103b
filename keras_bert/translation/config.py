"""The configuration of the Transformer of "Attention Is All You Need" (Vaswani et al., 2017, table 3)."""

import dataclasses
import os

from keras_bert.checks import check_choice, check_counts, check_heads, check_positive, check_rate, with_plain_numbers
from keras_bert.config import ACTIVATIONS
from keras_bert.files import read_json
from keras_bert.runs.hyperparameters import PRECISIONS
from keras_bert.settings import setting

# The keys of Hugging Face's `MarianConfig`, and the fields of `TransformerConfig`.
MARIAN_KEYS = {
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    "encoder_attention_heads": "num_attention_heads",
    "decoder_attention_heads": "num_attention_heads",
    "encoder_ffn_dim": "intermediate_size",
    "decoder_ffn_dim": "intermediate_size",
    "activation_function": "hidden_act",
    "attention_dropout": "attention_dropout",
    "d_model": "hidden_size",
    "decoder_vocab_size": "vocab_size",
    "dropout": "dropout",
    "init_std": "initializer_range",
    "max_position_embeddings": "max_position_embeddings",
    "vocab_size": "vocab_size",
}
# Activations that Marian's layout has a name for, and their names here.
MARIAN_ACTIVATIONS = {
    "relu": "relu",
    "swish": "silu",
    "silu": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_new",
    "tanh": "tanh",
}


@with_plain_numbers
@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """The configuration of an encoder-decoder. The defaults are those of the paper's base model.

    Args:
        vocab_size: int, number of rows of the token table, which source, target and output share. Defaults to 37000.
        hidden_size: int, width of the model, d_model in the paper, a multiple of `num_attention_heads`. Defaults to
            512.
        num_encoder_layers: int, number of encoder blocks. Defaults to 6.
        num_decoder_layers: int, number of decoder blocks. Defaults to 6.
        num_attention_heads: int, number of attention heads per block. Defaults to 8.
        intermediate_size: int, inner width of the feed-forward network. Defaults to 2048.
        hidden_act: str, one of `ACTIVATIONS`. Defaults to "relu".
        dropout: float, dropout rate of the embeddings and of each sublayer's output. Defaults to 0.1.
        attention_dropout: float, dropout rate of the attention probabilities. Defaults to 0.0.
        positions: str, "sinusoid", or "learned" tables of encoder and decoder. Defaults to "sinusoid".
        max_position_embeddings: int, maximum length of source and target. Defaults to 512.
        initializer_range: float, standard deviation of the token table, which is scaled by the square root of the
            width. Defaults to `hidden_size ** -0.5`.
        layer_norm_eps: float, epsilon of every LayerNorm. Defaults to 1e-5, as in transformers.
        output_bias: bool, whether the logits have a bias. Defaults to `False`.
    """

    # For the model card.
    title = "Transformer"
    package = "keras_bert.translation"

    vocab_size: int = 37000
    hidden_size: int = 512
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    hidden_act: str = "relu"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    positions: str = "sinusoid"
    max_position_embeddings: int = 512
    initializer_range: float | None = None
    layer_norm_eps: float = 1e-5
    output_bias: bool = False

    def __post_init__(self):
        check_counts(self)
        check_heads(self.hidden_size, num_attention_heads=self.num_attention_heads)
        check_choice("hidden_act", self.hidden_act, ACTIVATIONS)
        check_choice("positions", self.positions, ("sinusoid", "learned"))
        check_rate("dropout", self.dropout)
        check_rate("attention_dropout", self.attention_dropout)
        if not isinstance(self.output_bias, bool):
            raise ValueError(f"`output_bias` must be a bool. Received: output_bias={self.output_bias!r}")
        check_positive("layer_norm_eps", self.layer_norm_eps)
        if self.initializer_range is not None:
            check_positive("initializer_range", self.initializer_range)

    @classmethod
    def from_json(cls, path):
        """Reads a JSON file with fields of this class."""
        known = {field.name for field in dataclasses.fields(cls)}
        try:
            values = read_json(path)
            expected = f"expected an object with keys out of {', '.join(sorted(known))}"
            if not isinstance(values, dict):
                raise ValueError(f"{expected}. Received: {type(values).__name__}")
            unknown = sorted(values.keys() - known)
            if unknown:
                raise ValueError(f"{expected}. Received: {unknown}")
            return cls(**values)
        except ValueError as error:  # Also those of the JSON parser.
            raise ValueError(f"{path}: {error}") from None

    def check_huggingface(self):
        """Raises an error for settings that Hugging Face's Marian layout has no place for."""
        for name, expected in (("positions", "sinusoid"), ("layer_norm_eps", 1e-5)):
            if getattr(self, name) != expected:
                raise ValueError(
                    f"Marian's layout has no place for {name}={getattr(self, name)!r}, only for {expected!r}. "
                    "Only model.save('model.keras') keeps such a model"
                )
        known = dict.fromkeys(MARIAN_ACTIVATIONS.values())
        if self.hidden_act not in known or self.hidden_size % 2:
            raise ValueError(
                f"Marian's layout needs an even width and one of {', '.join(known)}. "
                f"Received: hidden_size={self.hidden_size}, hidden_act={self.hidden_act!r}"
            )

    def to_huggingface(self):
        """Returns the keys of Hugging Face's `MarianConfig`."""
        values = {key: getattr(self, field) for key, field in MARIAN_KEYS.items()}
        values["init_std"] = self.deviation
        values["is_encoder_decoder"] = True
        values["keras_bert"] = {"output_bias": self.output_bias}
        return values

    @property
    def size(self):
        """Describes the size in words."""
        return f"{self.num_encoder_layers} + {self.num_decoder_layers} layers of width {self.hidden_size}"

    @property
    def deviation(self):
        """The standard deviation of the initializers."""
        return self.initializer_range or self.hidden_size**-0.5


def _size(layers, width, heads, intermediate, **options):
    return TransformerConfig(
        hidden_size=width,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        num_attention_heads=heads,
        intermediate_size=intermediate,
        **options,
    )


TRANSFORMER_CONFIGS = {
    "tiny": _size(2, 128, 4, 256),
    "mini": _size(4, 128, 4, 256, dropout=0.3),  # For small corpora, such as Multi30k.
    "small": _size(4, 256, 4, 1024, dropout=0.3),
    "base": TransformerConfig(),
    "big": _size(6, 1024, 16, 4096, dropout=0.3),
}


def open_config(name):
    """Returns the `TransformerConfig` of a size, such as "mini", or of a JSON file."""
    if name in TRANSFORMER_CONFIGS:
        return TRANSFORMER_CONFIGS[name]
    if os.path.isdir(name):
        raise ValueError(f"`config` must be a JSON file. Received: the folder {name}")
    if name.endswith(".json") and not os.path.isfile(name):
        raise ValueError(f"`config`: no such file: {name}")
    if not os.path.isfile(name):
        raise ValueError(f"`config` must be one of {', '.join(TRANSFORMER_CONFIGS)}, or a JSON file. Received: {name}")
    return TransformerConfig.from_json(name)


@dataclasses.dataclass(frozen=True)
class TranslationSettings:
    """Settings that all runs share, in place of `Hyperparameters`."""

    warmup_steps: int = setting(
        None,
        "Steps until the peak, before the rate falls; default: 4000, or an eighth of all steps.",
        least=1,
        section="training",
    )
    label_smoothing: float = setting(0.1, "Share of the probability that is spread over all tokens.", least=0, most=1)
    max_length: int = setting(128, "Maximum number of tokens of a sentence; longer pairs are left out.", least=2)
    average: int = setting(5, "Number of the last epochs whose weights are averaged.", least=1)
    patience: int = setting(None, "Epochs without a better BLEU, or loss at the same BLEU, before stopping.", least=1)
    beam_size: int = setting(4, "Number of beams.", least=1, section="translation")
    length_penalty: float = setting(0.6, "Alpha of the length penalty; 0 for none.", least=0)
    bleu_tokenizer: str = setting(
        "13a", "sacreBLEU's tokenizer; char or zh if words have no spaces.", values=["13a", "intl", "char", "zh"]
    )
    gradient_accumulation: int = setting(1, "Micro-batches per batch.", least=1, section="training")
    precision: str = setting("float32", "Computation precision.", values=PRECISIONS)

    # What `Finetuning` reads of `Hyperparameters` besides.
    best = True
    pack = False
    lora_rank = None

    def to_dict(self):
        return dataclasses.asdict(self)

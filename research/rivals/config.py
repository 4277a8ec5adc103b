"""Config and names of the models that BERT is compared with."""

import dataclasses
import re

# Sizes that a name may contain, with the published ones, and the rate of dropout.
SIZES = {
    "bilm": {"width": 512, "num_layers": 2, "dropout": 0.1},
    "bilstm": {"width": 1500, "num_layers": 2, "embedding_size": 300, "dropout": 0.2},
    "bidaf": {"width": 100, "embedding_size": 200, "dropout": 0.2},
}
_LETTERS = {"H": "width", "L": "num_layers", "E": "embedding_size"}


@dataclasses.dataclass(frozen=True)
class RivalConfig:
    """Config of a model that BERT is compared with."""

    kind: str  # "bilm" (`build_bilm`), "bilstm" (`build_bilstm_classifier`) or "bidaf" (`build_bidaf`).
    vocab_size: int
    width: int  # Of each direction of the LSTMs.
    num_layers: int  # Of LSTMs; for "bilstm", those below the attention.
    embedding_size: int
    dropout: float
    language_model: "RivalConfig | None" = None  # The "bilm" whose states are features.

    max_position_embeddings = 512  # Texts of this length are read unless the caller asks for more; there is no limit.

    package = "research.rivals"  # For the model card, like `title`.

    @property
    def title(self):
        """Returns the name of the kind in texts."""
        name = {"bilm": "biLM", "bilstm": "BiLSTM", "bidaf": "BiDAF"}[self.kind]
        return f"{name} with ELMo" if self.language_model else name

    @property
    def size(self):
        """Layers and width, as of a `BertConfig`, and those of the language model below."""
        layers = "1 layer" if self.num_hidden_layers == 1 else f"{self.num_hidden_layers} layers"
        size = f"{layers}, width {self.width} in each direction"
        if self.language_model:
            size += f", on the states of a biLM: {self.language_model.size}"
        return size

    @property
    def hidden_size(self):
        """Returns the width of the states."""
        return 2 * self.width

    @property
    def num_hidden_layers(self):
        """Returns the number of LSTM layers."""
        return self.num_layers

    def to_huggingface(self):
        """Returns the content of `config.json`, which only this package reads."""
        return {"model_type": f"keras_bert_{self.kind}"} | dataclasses.asdict(self)


def explain_names(name):
    """Returns a sentence about the names of models that BERT is compared with, if a name resembles them, or ""."""
    if not re.match(r"(bilm|bilstm|bidaf|elmo|gpt)(?![a-z0-9/])", str(name), re.IGNORECASE):
        return ""
    return (
        ". Models without BERT are named bilstm (classification) or bidaf (questions), with sizes as in "
        "bilstm_H-256_L-2_E-300; ELMo's features are added by --language_model; a model like GPT is pre-trained with "
        "--causal"
    )


def named_rival(name, vocab_size):
    """Returns the `RivalConfig` of a name, or `None` for another name.

    Names are `bilm`, `bilstm` and `bidaf`, of the published sizes, or with sizes: `bilstm_H-256_L-1_E-100` has LSTMs of
    width 256, one layer and a token table of width 100.
    """
    kind, *parts = str(name).split("_")
    matches = [re.fullmatch(r"([HLE])-([1-9]\d*)", part) for part in parts]
    if kind not in SIZES or not all(matches):
        return None
    letters = [match[1] for match in matches]
    if len(set(letters)) < len(letters):
        raise ValueError(f"{name}: each size must be given once. Received: {', '.join(letters)}")
    given = {_LETTERS[match[1]]: int(match[2]) for match in matches}
    unknown = given.keys() - SIZES[kind]
    if unknown:
        known = [letter for letter, size in _LETTERS.items() if size in SIZES[kind]]
        raise ValueError(f"{name}: {kind} has no {', '.join(sorted(unknown))}. Expected sizes {', '.join(known)}")
    sizes = {"num_layers": 1}
    sizes.update(SIZES[kind])
    sizes.update(given)
    sizes.setdefault("embedding_size", sizes["width"])
    return RivalConfig(kind, vocab_size, **sizes)


def is_name(name):
    """Returns whether a name is that of a new model."""
    return named_rival(name, 1) is not None

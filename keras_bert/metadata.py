"""Metadata of a checkpoint: facts about its model besides config and weights."""

import dataclasses
from typing import Any

_STRING, _BOOL, _INTEGER = ("a string", (str,)), ("true or false", (bool,)), ("an integer", (int,))
# Written under the key `keras_bert` of `config.json`, since Hugging Face has no keys for them; with their JSON types.
_STORED = {
    "head": _STRING,
    "task": _STRING,
    "pair": _BOOL,
    "sequence_length": _INTEGER,
    "null_threshold": ("a number", (int, float)),
    "thresholds": ("a number or a list of numbers", (int, float, list)),
    "task_settings": ("an object", (dict,)),
    "keep_special_tokens": ("a list of strings", (list,)),
    "positions": _STRING,
    "head_options": ("an object", (dict,)),
}
# What neither the weights nor the layers of a model tell, but its user.
_SETTINGS: tuple[str, ...] = (
    "lowercase",
    "labels",
    "task",
    "pair",
    "sequence_length",
    "null_threshold",
    "thresholds",
    "task_settings",
    "prompts",
)
_SETTINGS += ("default_prompt_name", "similarity_function", "model_type")


@dataclasses.dataclass(frozen=True)
class Metadata:
    """Facts about the model of a checkpoint besides config and weights.

    Args:
        head: str, the kind of head, see `describe`. `None` if unknown.
        vocabulary: the `Vocabulary`, or `None`.
        lowercase: bool, whether the vocabulary is uncased. Defaults to `True`.
        labels: list of the class names, or `None`.
        multi_label: bool, whether several classes may apply to one text. Defaults to `False`.
        score_activation: str, see `build_classifier`. Defaults to "linear".
        task: str, name of the task that the head was trained on, or `None`.
        pair: bool, whether the model was trained on pairs of texts. `None` if unknown.
        sequence_length: int, maximum sequence length in training, or `None`.
        null_threshold: float, see `save`, or `None`.
        thresholds: float or list of floats, see `save`, or `None`.
        task_settings: dict of the settings of the task that shape answers, such as `doc_stride`, or `None`.
        pooling: str or tuple of str, pooling of a sentence encoder, see `build_embedder`, or `None`.
        normalize: bool, whether a sentence encoder normalizes its vectors. Defaults to `False`.
        projection: int, number of units of its dense layer, see `build_embedder`, or `None`.
        projection_activation: str, the activation of that layer. Defaults to "linear".
        prompts: dict of texts before the texts to embed, by name, see `save`, or `None`.
        default_prompt_name: str, the prompt that applies if no other is given, or `None`.
        similarity_function: str, what compares two vectors, see `save`. Defaults to "cosine".
        causal: bool, as passed to `build_encoder`. Defaults to `False`.
        head_options: dict of options of the head, see `Head.saved`, or `None`.
        positions: str, as passed to `build_encoder`. Defaults to "learned".
        tied: bool, whether the masked-LM head shares the token table. Defaults to `True`.
        keep_special_tokens: list of BERT's special tokens that the tokenizer recognizes in texts, or `None`.
        model_type: str, whose layout the model has in transformers: "bert", "distilbert", "electra", "xlm-roberta",
            "roberta" or "camembert". By default, the first one that has a place for its config.
    """

    head: str | None = None
    vocabulary: Any = None
    lowercase: bool = True
    labels: list | None = None
    multi_label: bool = False
    score_activation: str = "linear"
    task: str | None = None
    pair: bool | None = None
    sequence_length: int | None = None
    null_threshold: float | None = None
    thresholds: float | list | None = None
    task_settings: dict | None = None
    pooling: str | None = None
    normalize: bool = False
    projection: int | None = None
    projection_activation: str = "linear"
    prompts: dict | None = None
    default_prompt_name: str | None = None
    similarity_function: str = "cosine"
    head_options: dict | None = None
    causal: bool = False
    positions: str = "learned"
    tied: bool = True
    keep_special_tokens: list | None = None
    model_type: str | None = None

    @classmethod
    def of_settings(cls, **settings):
        """Returns metadata from settings that `save` takes; raises for any other."""
        if unknown := settings.keys() - set(_SETTINGS):
            known = ", ".join(_SETTINGS)
            raise ValueError(f"`save` has no setting {sorted(unknown)[0]!r}. Expected one of: {known}")
        return cls(**settings)

    @property
    def settings(self):
        """The settings that `save` takes, a dict: what neither weights nor layers tell."""
        return {name: getattr(self, name) for name in _SETTINGS}

    @property
    def strip_accents(self):
        """Whether the vocabulary's tokenizer removes accents; `None` means the same as `lowercase`."""
        return self.vocabulary.strip_accents if self.vocabulary else None

    def replace(self, **changes):
        """Returns a copy with changed values."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def from_json(cls, values):
        """Reads the content of the key `keras_bert`; keys of other versions are ignored."""
        if not isinstance(values, dict):
            raise ValueError(f"`keras_bert` must be the object that this package writes. Received: {values!s:.200}")
        stored = {name: values[name] for name in _STORED if values.get(name) is not None}
        for name, value in stored.items():
            expected, kinds = _STORED[name]
            strings = value if name == "keep_special_tokens" and isinstance(value, list) else ()
            if type(value) not in kinds or not all(isinstance(each, str) for each in strings):
                raise ValueError(f"`{name}` in `keras_bert` must be {expected}. Received: {name}={value!r:.200}")
        return cls(**stored)

    def to_json(self):
        """Returns the content of the key `keras_bert`, without defaults."""
        return {name: value for name in _STORED if (value := getattr(self, name)) != getattr(type(self), name)}


def answer_length(bert, sequence_length=None):
    """Returns the maximum number of tokens of a text to answer: a given one, that of training, or the model's."""
    own = bert.sequence_length or bert.config.max_position_embeddings
    return own if sequence_length is None else sequence_length

"""Metadata of a checkpoint: facts about its model besides config and weights."""

import dataclasses
from typing import Any

_STRING = ("a string", (str,))
_BOOL = ("true or false", (bool,))
_INTEGER = ("an integer", (int,))
# Written under the key `keras_bert` of `config.json`, since Hugging Face has no keys for them; with their JSON types.
_STORED = {
    "head": _STRING,
    "task": _STRING,
    "pair": _BOOL,
    "sequence_length": _INTEGER,
    "long_texts": _STRING,
    "overlap": _INTEGER,
    "max_windows": _INTEGER,
    "null_threshold": ("a number", (int, float)),
    "thresholds": ("a number or a list of numbers", (int, float, list)),
    "confidence": ("an object", (dict,)),
    "task_settings": ("an object", (dict,)),
    "columns": ("an object of names of columns, or of lists of them", (dict,)),
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
    "long_texts",
    "overlap",
    "max_windows",
    "null_threshold",
    "thresholds",
    "confidence",
    "task_settings",
    "columns",
    "prompts",
    "default_prompt_name",
    "similarity_function",
    "model_type",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metadata:
    """Facts about the model of a checkpoint besides config and weights; `None` stands for none or unknown.

    Each is an attribute of what `keras_bert.load` returns.

    Example:
        metadata = Metadata(vocabulary=keras_bert.Vocabulary("vocab.txt"), lowercase=True)
    """

    head: str | None = None  # The kind of head, see `describe`.
    vocabulary: Any = None  # A `Vocabulary`.
    lowercase: bool = True  # Whether the vocabulary is uncased.
    labels: list | None = None  # The names of the classes.
    multi_label: bool = False  # Whether several classes may apply to one text.
    score_activation: str = "linear"  # See `build_classifier`.
    task: str | None = None  # The name of the task that the head was trained on.
    pair: bool | None = None  # Whether the model was trained on pairs of texts.
    sequence_length: int | None = None  # The maximum in training.
    long_texts: str | None = None  # This and the next two: how it reads longer texts, see `TextPreprocessor`.
    overlap: int | None = None
    max_windows: int | None = None
    null_threshold: float | None = None  # These two: see `save`.
    thresholds: float | list | None = None
    confidence: dict | None = None  # The temperature and the threshold of a classifier, see `Confidence`.
    task_settings: dict | None = None  # The settings of the task that shape answers, such as `doc_stride`.
    columns: dict | None = None  # The columns that it was trained on by input: "text", "pair", or a list "choices".
    pooling: str | None = None  # This and the next three: see `build_embedder`. Of several poolings, a tuple.
    normalize: bool = False
    projection: int | None = None
    projection_activation: str = "linear"
    prompts: dict | None = None  # This and the next two: see `save`.
    default_prompt_name: str | None = None
    similarity_function: str = "cosine"
    head_options: dict | None = None  # Options of the head, see `Head.saved`.
    causal: bool = False  # This and the next one: as passed to `build_encoder`.
    positions: str = "learned"
    tied: bool = True  # Whether the masked-LM head shares the token table.
    keep_special_tokens: list | None = None  # BERT's special tokens that the tokenizer recognizes in texts.
    # Whose layout the model has in transformers: "bert", "distilbert", "electra", "xlm-roberta", "roberta" or
    # "camembert". By default, the first one that has a place for its config.
    model_type: str | None = None

    @staticmethod
    def setting_names():
        """Returns the names of `settings`."""
        return _SETTINGS

    @classmethod
    def of_settings(cls, **settings):
        """Returns metadata from settings that `save` takes; raises for any other."""
        unknown = settings.keys() - set(_SETTINGS)
        if unknown:
            known = ", ".join(_SETTINGS)
            raise ValueError(f"`save` has no setting {min(unknown)!r}. Expected one of: {known}")
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
            expected, types = _STORED[name]
            strings = ()
            if name == "keep_special_tokens" and isinstance(value, list):
                strings = value
            elif name == "columns" and isinstance(value, dict):
                strings = _column_names(value)
            if type(value) not in types or not all(isinstance(each, str) for each in strings):
                raise ValueError(f"`{name}` in `keras_bert` must be {expected}. Received: {name}={value!r:.200}")
        return cls(**stored)

    def to_json(self):
        """Returns the content of the key `keras_bert`, without defaults."""
        content = {}
        for name in _STORED:
            value = getattr(self, name)
            if value != getattr(type(self), name):
                content[name] = value
        return content


def _column_names(columns):
    """Returns the names of a dict of columns, each of which is one name or a list of them."""
    names = []
    for column in columns.values():
        if isinstance(column, list):
            names.extend(column)
        else:
            names.append(column)
    return names


def answer_length(bert, sequence_length=None):
    """Returns the maximum number of tokens of a text to answer: a given one, that of training, or the model's."""
    if sequence_length is not None:
        return sequence_length
    return bert.sequence_length or bert.config.max_position_embeddings

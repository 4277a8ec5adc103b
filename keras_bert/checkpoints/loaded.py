"""The models of an open checkpoint, which share its weights."""

import dataclasses
import functools
import hashlib
import json
import logging
import math
from typing import TYPE_CHECKING, Any, TypeVar

import keras
import numpy as np

from keras_bert.annotations import LongTexts
from keras_bert.checkpoints.tensors import POOLER_TENSORS, Checkpoint, Tensor, check_known, check_sizes, fill, slots
from keras_bert.checks import check_count
from keras_bert.config import BertConfig
from keras_bert.files import add_array, json_text
from keras_bert.heads.classification import build_classifier
from keras_bert.heads.confidence import checked_confidence
from keras_bert.heads.pretraining import Pretraining, build_pretrainer
from keras_bert.heads.question_answering import build_span_labeler
from keras_bert.heads.registry import NO_HEAD, describe, head_named
from keras_bert.imports import naming_extras
from keras_bert.layers.quantization import undrawn_weights
from keras_bert.layers.registry import positions_named
from keras_bert.memory import explain_out_of_memory
from keras_bert.metadata import Metadata
from keras_bert.models.encoder import build_encoder
from keras_bert.rewirings.joined import take_layers
from keras_bert.tasks.class_names import class_name
from keras_bert.text.long_texts import READING, WINDOWS
from keras_bert.text.vocabulary import Vocabulary

_OWN_FACTS = ("pieces", "strip_accents")  # Settings of a vocabulary that identify a model on their own.
_CHANGEABLE = (*Metadata().settings, "vocabulary", "multi_label")


class _CalledFirstMethod:
    """Decorates a method whose result has the attributes that people look for in the method."""

    def __init__(self, function):
        functools.update_wrapper(self, function)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return _Bound(self.__wrapped__, instance)


class _Bound(functools.partial):
    def __getattr__(self, name):
        method = f"`bert.{self.func.__name__}`"
        raise AttributeError(
            f"{method} is a method, which returns a Keras model, and has no attribute {name!r}. Use `bert.fit`, "
            f"`bert.evaluate` and `bert.predict` on texts, or bert.{self.func.__name__}().{name} on token ids"
        )


if TYPE_CHECKING:
    _Method = TypeVar("_Method")

    def _called_first(method: _Method) -> _Method: ...

else:
    _called_first = _CalledFirstMethod


class _Fact:
    """An attribute that is a field of `metadata`; those that a model was built with cannot be set."""

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, models, owner=None):
        if models is None:
            return self
        return getattr(models.metadata, self._name)

    def __set__(self, models, value):
        models._change_fact(self._name, value)


def _changed_fact(name, value):
    """Returns the value of a fact that is set; raises for one that cannot be."""
    if name not in _CHANGEABLE:
        raise AttributeError(f"`{name}` is what a model was built with: build another one on `bert.encoder`")
    is_array = hasattr(value, "tolist")
    if is_array or (name == "thresholds" and isinstance(value, tuple)):
        value = np.array(value).tolist()
    if name == "labels" and value is not None:
        value = [class_name(label) for label in value]
    if name == "confidence":
        value = checked_confidence(value)
    return value


def _fact() -> Any:
    """Returns a `_Fact`, for type checkers of any type."""
    return _Fact()


class LoadedModels:
    """A checkpoint in memory. Its models share the weights of `encoder`.

    Its attributes are those of `LoadedBert` but `results`.
    """

    has_pair_layers = False
    has_pooler: bool
    config: BertConfig
    encoder: keras.Model
    metadata: Metadata
    # Fields of the metadata.
    head: str = _fact()
    vocabulary: Vocabulary = _fact()
    lowercase: bool = _fact()
    labels: list[str] | None = _fact()
    multi_label: bool = _fact()
    score_activation: str = _fact()
    task: str | None = _fact()
    pair: bool | None = _fact()
    sequence_length: int = _fact()  # `None` if unknown, as `vocabulary`.
    long_texts: LongTexts | None = _fact()
    overlap: int | None = _fact()
    max_windows: int | None = _fact()
    null_threshold: float | None = _fact()
    thresholds: float | list | None = _fact()
    confidence: dict | None = _fact()
    task_settings: dict | None = _fact()
    columns: dict | None = _fact()
    pooling: Any = _fact()
    normalize: bool = _fact()
    projection: int | None = _fact()
    projection_activation: str = _fact()
    prompts: dict[str, str] | None = _fact()
    default_prompt_name: str | None = _fact()
    similarity_function: str = _fact()
    head_options: dict | None = _fact()
    causal: bool = _fact()
    positions: str = _fact()
    tied: bool = _fact()
    keep_special_tokens: list[str] | None = _fact()
    model_type: str | None = _fact()

    def __init__(self, checkpoint, num_layers=None, **encoder_options):
        _check_config(checkpoint)
        self.encoder_options = dict(encoder_options)  # Besides the dtype, those of the models that `fit` trains.
        self.encoder_options.pop("dtype", None)

        metadata = checkpoint.metadata
        metadata = metadata.replace(head=metadata.head or NO_HEAD)
        other_options = dict(encoder_options)
        for name in ("causal", "positions"):
            if name in other_options:
                metadata = metadata.replace(**{name: other_options.pop(name)})
        options = {"causal": metadata.causal, "positions": metadata.positions} | other_options

        config = checkpoint.config
        encoder = _filled_encoder(checkpoint, options)
        if num_layers is not None:
            with explain_out_of_memory(parameters=_parameters(checkpoint)), undrawn_weights():
                encoder = take_layers(encoder, num_layers, **other_options)
            config = dataclasses.replace(config, num_hidden_layers=num_layers)

        self._checkpoint = checkpoint
        self._model = None
        self._identity = None
        self.encoder = encoder
        self.config = config
        self.metadata = metadata
        self.has_pooler = checkpoint.tensors.keys() >= POOLER_TENSORS
        if not self.has_pooler and "pooled" in head_named(self.head).reads:
            logging.getLogger("keras_bert").warning(
                "%s has no pooler: the encoder's is randomly initialized. Fine-tune before using `pooled_output`.",
                checkpoint.name,
            )

    def _take(self, other):
        """Takes the models and the facts of another object."""
        self._checkpoint = other._checkpoint
        self._model = other._model
        self._identity = other._identity
        self.encoder = other.encoder
        self.config = other.config
        self.metadata = other.metadata
        self.encoder_options = other.encoder_options
        self.has_pooler = other.has_pooler

    def _change_fact(self, name, value):
        """Changes a field of the metadata; raises for one that a model was built with."""
        changes = {name: _changed_fact(name, value)}
        if name == "long_texts" and value != WINDOWS:  # These settings are those of windows.
            changes["overlap"] = None
            changes["max_windows"] = None
        self.metadata = self.metadata.replace(**changes)

    @property
    def strip_accents(self) -> bool | None:
        """Whether the tokenizer removes accents; `None` means the same as `lowercase`."""
        return self.metadata.strip_accents

    def preprocessor(self, sequence_length: int, **options) -> Any:
        """Returns the `TextPreprocessor` for these models; `options` are passed to it, by default those of training."""
        with naming_extras("a preprocessor of texts"):
            from keras_bert.text.preprocessor import TextPreprocessor  # Needs TensorFlow, unlike the models.

        check_count("sequence_length", sequence_length, least=3)
        name = self._checkpoint.name
        limit = self.config.max_position_embeddings
        if self.vocabulary is None:
            raise ValueError(
                f"{name} has no vocabulary. Expected vocab.txt or tokenizer.json in its folder, "
                "load(..., tokenizer=folder) with those of another one, or a `TextPreprocessor` of your own"
            )
        if sequence_length > limit and positions_named(self.positions).has_table:
            raise ValueError(
                f"`sequence_length` must be at most {limit}, the number of positions of {name}. "
                f"Received: sequence_length={sequence_length}"
            )
        settings: dict[str, Any] = {"lowercase": self.lowercase}
        if "long_texts" not in options:
            for setting in READING:
                settings[setting] = getattr(self, setting)
        settings.update(options)
        return TextPreprocessor(self.vocabulary, sequence_length, **settings)

    def classifier(self, num_classes: int, multi_label: bool = False) -> keras.Model:
        """Returns the encoder with a new head from `build_classifier`, which reads pairs and single texts alike."""
        return build_classifier(self.encoder, num_classes, multi_label=multi_label)

    def span_labeler(self) -> keras.Model:
        """Returns the encoder with a new head from `build_span_labeler`."""
        return build_span_labeler(self.encoder)

    def pretrainer(self, next_sentence: bool | None = None) -> keras.Model:
        """Returns the pre-training model with the checkpoint's heads; by default with NSP if the checkpoint has it."""
        options = {"tied": self.tied}
        options.update(Pretraining().sizes(self._checkpoint.tensors))
        if next_sentence is not None:
            options["next_sentence"] = next_sentence
        return self._fill_head(build_pretrainer(self.encoder, **options))

    @_called_first
    def model(self) -> keras.Model:
        """Returns the model with the head that the checkpoint contains, the same one in each call."""
        if self._model is None:
            self._model = self._build_model()
        return self._model

    def _build_model(self):
        head = head_named(self.head)
        name = self._checkpoint.name
        stored = self.metadata.head_options or {}
        unknown = stored.keys() - set(head.saved)
        if unknown:
            raise ValueError(
                f"{name}: `head_options` of head={head.name!r} must be {', '.join(head.saved) or 'none'}. "
                f"Received: {', '.join(sorted(unknown))}"
            )
        try:
            sizes = head.sizes(self._checkpoint.tensors)
        except KeyError as error:
            raise ValueError(
                f"{name}: the config specifies a {head.name} head, but there is no {error.args[0]}"
            ) from None
        options = dict(vars(self.metadata))
        options.update(stored)
        options["dropout"] = self.config.head_dropout
        options.update(sizes)
        if head.has_classes and self.labels and len(self.labels) != options["num_classes"]:
            raise ValueError(
                f"{name}: `id2label` has {len(self.labels)} labels, but the {head.name} head has "
                f"{options['num_classes']} classes"
            )
        return self._fill_head(head.build(self.encoder, **head.options(options)))

    @property
    def name(self):
        """The path or name of the checkpoint."""
        return self._checkpoint.name

    def checkpoint(self):
        """Returns a `Checkpoint` of the present weights, those of the head if `model()` was built."""
        tensors = {}
        for name, tensor in self._checkpoint.tensors.items():
            if ".layer." not in name:  # `num_layers` may have left out layers.
                tensors[name] = tensor
        models = [self.encoder]
        if self._model is not None:  # A head may not have the pooler.
            models.append(self._model)
        for model in models:
            for slot in slots(describe(model)):
                tensors[slot.name] = Tensor(slot.name, slot.shape, slot.value)
        drawn = self._checkpoint.drawn
        if not self.has_pooler:
            drawn = frozenset(POOLER_TENSORS)
        return Checkpoint(self.name, self.config, tensors, self.metadata, drawn)

    def keep_in_memory(self, name):
        """Makes the object independent of the files that it was loaded from, and names it; no weight counts as new."""
        self.model()
        self._checkpoint = self.checkpoint().replace(name=name, drawn=frozenset())

    @property
    def identity(self):
        """What training from the checkpoint depends on, see `model_identity`; that of the first time."""
        if self._identity is None:
            checkpoint = self._checkpoint
            known = sorted(checkpoint.tensors.keys() - checkpoint.drawn)  # Others are new at each load.
            arrays = (checkpoint.tensors[name].read() for name in known)
            self._identity = model_identity(self.metadata, checkpoint.config, arrays)
        return self._identity

    def left_out(self, model):
        """Returns the names of the checkpoint's tensors that a model does not use, such as the head or the pooler."""
        used = {slot.name for slot in slots(describe(model))}
        names = []
        for name, tensor in self._checkpoint.tensors.items():
            if name not in used:
                names.append(tensor.name)
        return sorted(names)

    def _fill_head(self, model):
        """Loads the weights that a model has besides the encoder's."""
        filled = {slot.name for slot in slots(describe(self.encoder))}
        others = [slot for slot in slots(describe(model)) if slot.name not in filled]
        fill(self._checkpoint, others)
        return model


def _filled_encoder(checkpoint, options):
    """Returns an encoder with the weights of a checkpoint, new ones for a pooler that it lacks."""
    with explain_out_of_memory(parameters=_parameters(checkpoint)), undrawn_weights():
        encoder = build_encoder(checkpoint.config, **options)
        description = describe(encoder)
        check_known(checkpoint, description)
        has_pooler = bool(POOLER_TENSORS & checkpoint.tensors.keys())
        optional = set()
        if not has_pooler:  # All of it may be missing, but not one half.
            optional = POOLER_TENSORS
        fill(checkpoint, slots(description), optional=optional)
        if not has_pooler:
            dense = description.layers["pooler"].dense
            dense.kernel.assign(dense.kernel_initializer(dense.kernel.shape, dense.kernel.dtype))
    return encoder


def _parameters(checkpoint):
    """Returns the number of parameters of a checkpoint."""
    return sum(math.prod(tensor.shape) for tensor in checkpoint.tensors.values())


def _check_config(checkpoint):
    """Raises if the sizes of config, tensors and vocabulary disagree, before a model of any size is built."""
    config = checkpoint.config
    vocabulary = checkpoint.metadata.vocabulary
    sizes = vars(config) | {"max_position_embeddings": config.position_rows}
    check_sizes(checkpoint.name, sizes, checkpoint.tensors)
    if vocabulary is not None and len(vocabulary) > config.vocab_size:
        raise ValueError(
            f"{checkpoint.name}: the vocabulary has {len(vocabulary)} pieces, more than the token table's "
            f"vocab_size={config.vocab_size} rows. Expected the vocabulary that the model was trained with"
        )


def model_identity(metadata, config, arrays):
    """Returns what training from a model depends on, JSON values without defaults: the `identity` of a loaded model.

    Runs that resume compare it with that of the model which they started from.

    Args:
        metadata: a `Metadata`.
        config: dataclass of the sizes of the model.
        arrays: iterable of the weights, NumPy arrays in a fixed order.
    """
    vocabulary = metadata.vocabulary
    digest = hashlib.sha256()
    for array in arrays:
        add_array(digest, array.astype("float32", copy=False))
    facts = {
        "weights": digest.hexdigest()[:16],
        "vocabulary": vocabulary and vocabulary.sha256,
        "strip_accents": metadata.strip_accents,
        "tokenizer": _tokenizer_settings(vocabulary),
        "config": _changed(config),
    }
    facts.update(_changed(metadata.replace(vocabulary=None)))
    return json.loads(json_text(facts))  # As they are read back: tuples are lists.


def _tokenizer_settings(vocabulary):
    """Returns the settings of a vocabulary that other facts do not tell."""
    config = vocabulary.get_config() if vocabulary else {}
    if isinstance(config, list):  # The pieces alone, with default settings.
        return {}
    return {name: value for name, value in config.items() if name not in _OWN_FACTS}


def _changed(settings):
    """Returns the fields of a dataclass that do not have their default."""
    values = dataclasses.asdict(settings)
    changed = {}
    for field in dataclasses.fields(settings):
        if values[field.name] != field.default:
            changed[field.name] = values[field.name]
    return changed

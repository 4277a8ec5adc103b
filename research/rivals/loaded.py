"""`research.rivals.load`: the models that BERT is compared with, and their answers to texts."""

import dataclasses
import functools
import logging
import os
from typing import Any

import keras

from keras_bert import Vocabulary, checkpoints
from keras_bert.checkpoints import Metadata, model_identity, read_tokenizer
from keras_bert.files import read_object
from research.rivals.config import explain_names, named_rival
from research.rivals.models import build_rival, describe

_LOG = logging.getLogger("keras_bert")
_KERAS_FILE = "model.keras"  # In a folder that `keras_bert.save` wrote.
_PURPOSES = {
    "bilm": "A bilm serves as `language_model` (--language_model) of a bilstm or a bidaf",
    "bilstm": "A bilstm only classifies texts or pairs of texts",
    "bidaf": "A bidaf only answers questions",
}


class NotBertError(AttributeError, ValueError):
    """Raised where a task needs the encoder of a BERT; commands show it as a mistake of their user."""


class LoadedRival:
    """A model that BERT is compared with, in memory; or only its sizes and a vocabulary, before training.

    `language_model` is the model whose states are features. The fields of `metadata` are attributes, too.
    """

    has_pair_layers = True

    def __init__(self, name, config, metadata, model=None, language_model=None, dtype=None):
        self.config = config
        self.metadata = metadata
        self._name = name
        self._model = model
        self._language_model = language_model
        self._dtype = dtype
        self._answerer = None  # Made by the first `predict`.

    def __repr__(self):
        sizes = [f"{name}={value}" for name, value in dataclasses.asdict(self.config).items() if value]
        return f"LoadedRival({self._name!r}, {', '.join(sizes)})"

    def __getattr__(self, name):
        if name in ("encoder", "encode", "attention"):
            raise NotBertError(f"{self._name} is not a BERT and has no {name!r}. {_PURPOSES[self.config.kind]}")
        if name == "strip_accents" or name in Metadata.__dataclass_fields__:
            return getattr(self.metadata, name)
        raise AttributeError(f"LoadedRival has no attribute {name!r}")

    @functools.cached_property
    def identity(self):
        """What training from the model depends on, see `model_identity`."""
        return model_identity(self.metadata, self.config, self._arrays())

    def _arrays(self):
        """Yields the weights of the model, and of the one whose states are features."""
        for model in (self._model, self._language_model):
            if model is not None:
                for weight in model.weights:
                    yield keras.ops.convert_to_numpy(weight.value)

    def model(self):
        """Returns the trained model, the same one in each call."""
        if self._model is None:
            raise ValueError(f"{self._name} has no weights. Build a model with `classifier` or `span_labeler`")
        return self._model

    def classifier(self, num_classes, pair=True, multi_label=False):
        """Returns a classifier with new weights, or with those of the trained model below its last layer."""
        if multi_label:
            raise ValueError(f"{self._name}: several labels per text need a BERT model. Received: multi_label=True")
        return self._build("bilstm", num_classes, pair)

    def span_labeler(self):
        """Returns a model for question answering with new weights, or with those of the trained model."""
        return self._build("bidaf")

    def _build(self, kind, num_classes=None, pair=None):
        """Builds a model of a kind, with the weights that it has in common with the trained model."""
        if self.config.kind != kind:
            task = "question answering" if kind == "bidaf" else "classification"
            features = ", with this model as `language_model`" if self.config.kind == "bilm" else ""
            raise ValueError(f"{self._name}: {task} needs a {kind}{features}. Received: a {self.config.kind}")
        model = build_rival(self.config, num_classes, pair, self._language_model, self._dtype)
        if self._model is not None:
            new = _copy_weights(self._model, model, omitted=["classifier"])
            if new:
                _LOG.warning("%s has no weights for %s: they are new. Train them", self._name, ", ".join(new))
        return model

    def preprocessor(self, sequence_length, **options):
        """Returns the `TextPreprocessor` for the model; `options` are passed to it."""
        from keras_bert import TextPreprocessor  # Needs TensorFlow, unlike the models.

        if self.vocabulary is None:
            raise ValueError(f"{self._name} has no vocabulary. Build a `TextPreprocessor` with your own vocabulary")
        options.setdefault("lowercase", self.lowercase)
        return TextPreprocessor(self.vocabulary, sequence_length, **options)

    def predict(self, texts, *, batch_size=32, sequence_length=None, n_best=None, **options):
        """Answers texts, see `LoadedBert.predict`."""
        if self.config.kind == "bilm":
            raise ValueError(f"{self._name} answers no texts. {_PURPOSES['bilm']}")
        if self._answerer is None:
            from keras_bert.answering import Answerer  # Needs TensorFlow, unlike the models.

            self._answerer = Answerer(self)
        return self._answerer.predict(
            texts, n_best=n_best, batch_size=batch_size, sequence_length=sequence_length, **options
        )


def load(
    path_or_name: str | os.PathLike,
    *,
    dtype: str | keras.DTypePolicy | None = None,
    vocabulary: Any = None,
    lowercase: bool | None = None,
    language_model: keras.Model | None = None,
) -> Any:
    """Loads a model that BERT is compared with, or creates a new one of a name.

    Args:
        path_or_name: a directory or a `.keras` file that `keras_bert.save` wrote; or the name of a new model without
            weights, such as "bilstm", "bilstm_H-256" or "bidaf", see `named_rival`.
        dtype: dtype policy, such as "mixed_bfloat16". Defaults to Keras' global dtype policy.
        vocabulary: path, list of pieces or `Vocabulary` of a new model. Defaults to that of `language_model`.
        lowercase: bool, whether `vocabulary` is uncased. Defaults to that of `language_model`, or is inferred.
        language_model: path of a "bilm" whose states are features of a new model. Defaults to `None`.

    Returns:
        A `LoadedRival`.

    Example:
        baseline = research.rivals.load("bilstm_H-256", vocabulary="vocab.txt")
        model = baseline.classifier(num_classes=2)
    """
    path = checkpoints.find(path_or_name)
    of_new_models = {"vocabulary": vocabulary, "lowercase": lowercase, "language_model": language_model}
    if path is None:
        if not named_rival(path_or_name, 1):
            raise ValueError(f"{path_or_name}: no such model{explain_names(path_or_name)}")
        return _new(path_or_name, dtype, **of_new_models)
    for name, value in of_new_models.items():
        if value is not None:
            raise ValueError(f"`{name}` is for new models, such as bilstm. Received: {name} for {path_or_name}")
    file = path / _KERAS_FILE if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(
            f"{path}: expected a folder with {_KERAS_FILE}, or a .keras file. keras_bert.load opens a BERT"
        )
    return _open_file(file, dtype)


def _new(name, dtype, vocabulary, lowercase, language_model):
    """Returns a `LoadedRival` without weights."""
    if language_model is not None:
        language_model = load(language_model, dtype=dtype)
        if language_model.config.kind != "bilm":
            raise ValueError(f"`language_model` must be a trained model of kind bilm. Received: {language_model!r}")
        if vocabulary is not None and Vocabulary(vocabulary).pieces != language_model.vocabulary.pieces:
            raise ValueError("`vocabulary` must be that of `language_model`. Received: another one")
        vocabulary = language_model.vocabulary
        if lowercase is None:
            lowercase = language_model.lowercase
    if vocabulary is None:
        raise ValueError(
            f"{name} is a new model without a vocabulary, to be trained by run_glue or run_squad with --vocabulary or "
            "--language_model. In Python, pass `vocabulary` or `language_model`"
        )
    vocabulary = Vocabulary(vocabulary)
    if lowercase is None:
        lowercase = not vocabulary.cased
    metadata = Metadata(vocabulary=vocabulary, lowercase=lowercase)
    config = named_rival(name, len(vocabulary))
    if language_model is None:
        return LoadedRival(name, config, metadata, dtype=dtype)
    config = dataclasses.replace(config, language_model=language_model.config)
    return LoadedRival(name, config, metadata, language_model=language_model.model(), dtype=dtype)


def _open_file(file, dtype):
    """Returns a `LoadedRival` for the model of a `.keras` file, with the metadata in its directory, if any."""
    model = _open_keras(file)
    description = describe(model)
    config = description.config
    metadata = _metadata_beside(file, description)
    metadata = metadata.replace(head=description.head, pair=description.pair, positions=description.positions)
    metadata = read_tokenizer(file.parent, metadata)
    policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
    if policy.name != description.dtype:
        other = build_rival(config, description.num_classes, description.pair, dtype=policy)
        _copy_weights(model, other)
        model = other
    return LoadedRival(str(file), config, metadata, model, dtype=policy)


def _open_keras(file):
    """Returns the model of a `.keras` file."""
    try:
        return keras.saving.load_model(file, compile=False)
    except (ValueError, OSError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{file}: Keras cannot load this file: {reason}") from error


def _metadata_beside(file, description):
    """Returns the metadata in the directory of a `.keras` file, those of defaults without a `config.json` there."""
    path = file.parent / "config.json"
    if not path.is_file():
        return Metadata()
    values = read_object(path)
    if values.get("model_type") != description.config.to_huggingface()["model_type"]:
        raise ValueError(f"{path}: expected the config of {file.name}. Received: {values.get('model_type')!r}")
    try:
        labels = _checked_labels(values.get("labels"), description.num_classes)
        return Metadata.from_json(values.get("keras_bert") or {}).replace(labels=labels)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _checked_labels(labels, num_classes):
    """Returns the labels, different names in the order of the logits; or `None`."""
    if labels is None:
        return None
    if not isinstance(labels, list) or not len(set(labels)) == len(labels) == num_classes:
        raise ValueError(
            f"`labels` must be {num_classes} different names, in the order of the logits. Received: labels={labels}"
        )
    return labels


def _copy_weights(source, target, omitted=()):
    """Copies the weights of layers with the same name and shapes, and returns the names of the others."""
    source_layers = {layer.name: layer for layer in source.layers}
    new = []
    for layer in target.layers:
        if not layer.weights or layer.name in omitted:
            continue
        weights = []
        if layer.name in source_layers:
            weights = source_layers[layer.name].get_weights()
        if [weight.shape for weight in layer.weights] == [weight.shape for weight in weights]:
            layer.set_weights(weights)
        else:
            new.append(layer.name)
    return new

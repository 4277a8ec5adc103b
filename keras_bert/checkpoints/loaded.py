"""What `keras_bert.load` returns: the models of a checkpoint, and their answers to texts."""

import functools
import logging
from collections.abc import Sequence
from typing import Any, Self

import keras
import numpy as np

from keras_bert.checkpoints import other_names
from keras_bert.checkpoints.added_words import with_words
from keras_bert.checkpoints.identity import model_identity
from keras_bert.checkpoints.layout import POOLER_TENSORS, Checkpoint, Tensor, check_known, fill, slots
from keras_bert.checkpoints.model_methods import ModelMethods
from keras_bert.checks import check_count
from keras_bert.heads.classification import build_classifier
from keras_bert.heads.describe import describe
from keras_bert.heads.pretraining import Pretraining, build_pretrainer
from keras_bert.heads.question_answering import build_span_labeler
from keras_bert.heads.registry import NO_HEAD, head_named
from keras_bert.imports import naming_extras
from keras_bert.metadata import Metadata
from keras_bert.models.encoder import build_encoder
from keras_bert.models.lora import check_no_lora
from keras_bert.rewirings.student import take_layers
from keras_bert.tasks.class_names import class_name

_SHOWN = 5  # Labels that are shown.
_FACTS = ("config", "encoder", "head", "labels", "metadata", "results", "sequence_length", "task", "vocabulary")
_INTERNAL = ("checkpoint", "has_pair_layers", "identity", "keep_in_memory")  # What `dir` does not list.
_CHANGEABLE = (*Metadata().settings, "vocabulary", "multi_label")
_UNSAVED = ("_checkpoint", "_model", "_answerer", "encoder", "identity")  # What a copy makes again.


class LoadedBert(ModelMethods):
    """A checkpoint in memory. Its models share the weights of `encoder`.

    It is not a Keras model: pass `bert.encoder` to builders of heads, and `bert.model()` to training, `save`, `export`.
    Its pickles and deep copies have the weights, with merged LoRA adapters, and answer equally.

    Attributes:
        config: the `BertConfig`.
        encoder: the encoder with loaded weights.
        metadata: the `Metadata`. Each of its fields is an attribute too: `head` ("encoder" for none), `vocabulary`,
            `lowercase`, `labels`, `multi_label`, `task`, `pair`, `sequence_length`, `null_threshold`, `thresholds`,
            `pooling`, `normalize`, ...
        strip_accents: bool, whether to remove accents; `None` means the same as `lowercase`.
        has_pooler: bool, whether the checkpoint has a pooler; otherwise the encoder's is randomly initialized.
        has_pair_layers: `False`; `True` for other models, whose `classifier` takes `pair` to build layers for pairs.
        results: dict, the setting, scores and history of the run of `fit` that trained the model, or `None`.
    """

    has_pair_layers = False

    def __init__(self, checkpoint, num_layers=None, **encoder_options):
        self._checkpoint, self._model, self._answerer = checkpoint, None, None
        self.config, self.results = checkpoint.config, None
        self.encoder_options = dict(encoder_options)  # Besides the dtype, those of the models that `fit` trains.
        self.encoder_options.pop("dtype", None)
        names = ("causal", "positions")
        changes = {name: encoder_options.pop(name) for name in names if name in encoder_options}
        self.metadata = checkpoint.metadata.replace(head=checkpoint.metadata.head or NO_HEAD, **changes)
        vars(self).update(vars(self.metadata))
        self.strip_accents = self.metadata.strip_accents
        self.encoder = build_encoder(self.config, causal=self.causal, positions=self.positions, **encoder_options)
        description = describe(self.encoder)
        check_known(checkpoint, description)
        pooler = set() if POOLER_TENSORS & checkpoint.tensors.keys() else POOLER_TENSORS  # All of it may be missing.
        fill(checkpoint, slots(description), optional=pooler)
        self.has_pooler = checkpoint.tensors.keys() >= POOLER_TENSORS
        if not self.has_pooler and "pooled" in head_named(self.head).reads:
            logging.getLogger("keras_bert").warning(
                "%s has no pooler: the encoder's is randomly initialized. Fine-tune before using `pooled_output`.",
                checkpoint.name,
            )
        if num_layers is not None:
            self.encoder = take_layers(self.encoder, num_layers, **encoder_options)
            self.config = describe(self.encoder).config

    def __repr__(self):
        config, facts = self.config, [f"head={self.head!r}"]
        if self.labels:
            more = f", ... {len(self.labels)} in all" if len(self.labels) > _SHOWN else ""
            facts.append(f"labels=[{', '.join(map(repr, self.labels[:_SHOWN]))}{more}]")
        facts += [f"sequence_length={self.sequence_length}"] if self.sequence_length else []
        return (
            f"LoadedBert({self._checkpoint.name!r}, L={config.num_hidden_layers} H={config.hidden_size} "
            f"A={config.num_attention_heads}, {', '.join(facts)})"
        )

    def __dir__(self):
        return [*(name for name in dir(type(self)) if name not in _INTERNAL), *_FACTS]

    def __reduce__(self):
        """Pickles, and copies deeply, the present weights, whatever files or graphs they were in."""
        if any(layer.quantization_mode for layer in (self._model or self.encoder)._flatten_layers()):
            raise TypeError(
                "a quantized model cannot be pickled or copied. Expected a model without quantize(), and a dtype other "
                "than int8; `save` writes it"
            )
        arrays = {name: (tensor.name, tensor.read()) for name, tensor in self.checkpoint().tensors.items()}
        facts = {name: value for name, value in vars(self).items() if name not in _UNSAVED}
        return _restored, (self.name, arrays, self.encoder.get_layer("token_embedding").dtype_policy.name, facts)

    def __copy__(self):
        copied = object.__new__(type(self))
        vars(copied).update(vars(self), _answerer=None)
        return copied

    def __setattr__(self, name, value):
        """`fit`, `save` and pickles read `metadata`, answers the attributes."""
        if name in Metadata.__dataclass_fields__:
            if name not in _CHANGEABLE:
                raise AttributeError(f"`{name}` is what a model was built with: build another one on `bert.encoder`")
            if hasattr(value, "tolist") or (name == "thresholds" and isinstance(value, tuple)):
                value = np.array(value).tolist()
            value = list(map(class_name, value)) if name == "labels" and value is not None else value
            self.metadata = self.metadata.replace(**{name: value})
        super().__setattr__(name, value)

    def __getattr__(self, name):
        if name in other_names.ATTRIBUTES:
            raise AttributeError(f"a LoadedBert has no attribute {name!r}: {other_names.ATTRIBUTES[name]}")
        if hasattr(keras.Model, name):
            raise AttributeError(
                f"a LoadedBert is not a Keras model and has no attribute {name!r}. Use `bert.encoder` to build a model "
                "with a new head, or `bert.model()` for the model with the checkpoint's head"
            )
        raise AttributeError(f"LoadedBert has no attribute {name!r}")

    def add_words(self, words: Sequence[str]) -> Self:
        """Adds words to the vocabulary, so that they are one token each, and their rows to the token table.

        Words take the place of `[unused]` pieces first, then new rows. A row starts as the mean of those of the pieces
        that the word had before: train the model afterwards. Also longer words that start with a new word are split
        differently. `encoder` and `model()` are new models: those from before stay as they are, also the models that
        share their weights. Needs TensorFlow.

        Args:
            words: list of single words, as the tokenizer splits texts, in lower case for an uncased vocabulary; or of
                pieces that continue a word, such as "##itis". Those of the vocabulary are skipped, with a warning.

        Returns:
            This object.

        Example:
            bert.add_words(["remdesivir", "ventilator"]).save("my_model")
        """
        model = self.encoder if self._model is None else self._model
        check_no_lora(model, "bert.model()")
        if any(layer.quantization_mode for layer in model._flatten_layers()):
            raise ValueError(
                "`add_words` needs floats. Expected a model without quantize(), and a dtype other than int8"
            )
        dtype = self.encoder.get_layer("token_embedding").dtype_policy
        larger = type(self)(with_words(self.checkpoint(), words), dtype=dtype, **self.encoder_options)
        larger.keep_in_memory(self.name)  # Not the old models, which may still be trained.
        larger.results, larger.has_pooler = self.results, self.has_pooler
        vars(self).clear()
        vars(self).update(vars(larger))
        return self

    def preprocessor(self, sequence_length: int, **options) -> Any:
        """Returns the `TextPreprocessor` for these models; `options` are passed to it."""
        with naming_extras("a preprocessor of texts"):
            from keras_bert.text.preprocessor import TextPreprocessor  # Needs TensorFlow, unlike the models.

        check_count("sequence_length", sequence_length, least=3)
        name, limit = self._checkpoint.name, self.config.max_position_embeddings
        if self.vocabulary is None:
            raise ValueError(
                f"{name} has no vocabulary. Expected vocab.txt or tokenizer.json in its folder, "
                "load(..., tokenizer=folder) with those of another one, or a `TextPreprocessor` of your own"
            )
        if sequence_length > limit and self.positions == "learned":
            raise ValueError(
                f"`sequence_length` must be at most {limit}, the number of positions of {name}. "
                f"Received: sequence_length={sequence_length}"
            )
        return TextPreprocessor(self.vocabulary, sequence_length, **{"lowercase": self.lowercase, **options})

    def classifier(self, num_classes: int, multi_label: bool = False) -> keras.Model:
        """Returns the encoder with a new head from `build_classifier`, which reads pairs and single texts alike."""
        return build_classifier(self.encoder, num_classes, multi_label=multi_label)

    def span_labeler(self) -> keras.Model:
        """Returns the encoder with a new head from `build_span_labeler`."""
        return build_span_labeler(self.encoder)

    def pretrainer(self, next_sentence: bool | None = None) -> keras.Model:
        """Returns the pre-training model with the checkpoint's heads; by default with NSP if the checkpoint has it."""
        options = {"tied": self.tied, **Pretraining().sizes(self._checkpoint.tensors)}
        options |= {} if next_sentence is None else {"next_sentence": next_sentence}
        return self._fill_head(build_pretrainer(self.encoder, **options))

    @other_names.CalledFirst
    def model(self) -> keras.Model:
        """Returns the model with the head that the checkpoint contains, the same one in each call."""
        if self._model is None:
            self._model = self._build_model()
        return self._model

    def _build_model(self):
        head, name, tensors = head_named(self.head), self._checkpoint.name, self._checkpoint.tensors
        own = self.metadata.head_options or {}
        if unknown := own.keys() - set(head.saved):
            raise ValueError(
                f"{name}: `head_options` of head={head.name!r} must be {', '.join(head.saved) or 'none'}. "
                f"Received: {', '.join(sorted(unknown))}"
            )
        options = {**vars(self.metadata), **own, "dropout": self.config.head_dropout}
        try:
            options |= head.sizes(tensors)
        except KeyError as error:
            raise ValueError(
                f"{name}: the config specifies a {head.name} head, but there is no {error.args[0]}"
            ) from None
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
        models = [self.encoder, *([] if self._model is None else [self._model])]  # A head may not have the pooler.
        held = [slot for model in models for slot in slots(describe(model))]
        tensors = {slot.name: Tensor(slot.name, slot.shape, slot.value) for slot in held}
        # `num_layers` may have left out layers.
        others = {name: tensor for name, tensor in self._checkpoint.tensors.items() if ".layer." not in name}
        return Checkpoint(self.name, self.config, {**others, **tensors}, self.metadata)

    def keep_in_memory(self, name):
        """Makes the object independent of the files that it was loaded from, and names it."""
        self.model()
        self._checkpoint = self.checkpoint()
        self._checkpoint.name = name

    @functools.cached_property
    def identity(self):
        """What training from the checkpoint depends on, see `model_identity`."""
        arrays = (tensor.read() for _, tensor in sorted(self._checkpoint.tensors.items()))
        return model_identity(self.metadata, self._checkpoint.config, arrays)

    def left_out(self, model):
        """Returns the names of the checkpoint's tensors that a model does not use, such as the head or the pooler."""
        held = {slot.name for slot in slots(describe(model))}
        return sorted(tensor.name for name, tensor in self._checkpoint.tensors.items() if name not in held)

    def _fill_head(self, model):
        """Loads the weights that a model has besides the encoder's."""
        filled = {slot.name for slot in slots(describe(self.encoder))}
        fill(self._checkpoint, [slot for slot in slots(describe(model)) if slot.name not in filled])
        return model


def _restored(name, arrays, dtype, facts):
    """Returns a `LoadedBert` from what it was pickled as."""
    tensors = {key: Tensor(was, value.shape, lambda value=value: value) for key, (was, value) in arrays.items()}
    checkpoint = Checkpoint(name, facts["config"], tensors, facts["metadata"])
    bert = LoadedBert(checkpoint, dtype=dtype, **facts["encoder_options"])
    vars(bert).update(facts)
    return bert

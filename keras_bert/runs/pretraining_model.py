"""The model that a pre-training starts with: new weights, or those of a checkpoint that fits the records."""

import dataclasses
import pathlib

import keras

from keras_bert.checkpoints.load import open_checkpoint
from keras_bert.checkpoints.loaded import LoadedModels
from keras_bert.checkpoints.tensors import with_words
from keras_bert.config import BertConfig, named_config
from keras_bert.heads.pretraining import build_pretrainer
from keras_bert.heads.registry import describe, head_named
from keras_bert.models.encoder import build_encoder
from keras_bert.rewirings.joined import add_teacher
from keras_bert.text.new_words import without_known


def open_config(config, vocabulary=None):
    """Returns the config of a new model for a vocabulary.

    Args:
        config: str, the name of a size or a config file; for another model than a BERT, see `PretrainingSettings`.
        vocabulary: the `Vocabulary`, whose size the config of a named size gets. Defaults to `None`.

    Example:
        open_config("L-4_H-256").hidden_size
    """
    if not isinstance(config, str):
        return config.config(1 if vocabulary is None else len(vocabulary))
    if pathlib.Path(config).is_file():
        return BertConfig.from_json(config)
    try:
        size = named_config(config)
    except ValueError as error:
        raise ValueError(f"`config`: {error}") from None
    if vocabulary is None:
        return size
    return dataclasses.replace(size, vocab_size=len(vocabulary))


class PretrainerBuilder:
    """Builds the pre-trainer of a run, and loads what it starts from and learns from.

    Args:
        settings: the `PretrainingSettings`.
        vocabulary: the `Vocabulary` of the records.
        length: int, the tokens of the longest records.

    Attributes:
        origins: facts about the checkpoints that were loaded, by name, see `check_unchanged`.
    """

    def __init__(self, settings, vocabulary, length):
        self._settings = settings
        self._vocabulary = vocabulary
        self._length = length
        self.origins = {}

    def load_teacher(self):
        """Returns the pre-trainer of the teacher, which has the vocabulary of the records."""
        settings = self._settings
        bert = self._load("teacher", settings.teacher, dtype=settings.precision)
        if "masked" not in head_named(bert.head).reads:
            raise ValueError(f"`teacher`: {settings.teacher} has no masked-LM head. Expected a pre-trained model")
        # Without the objective, the teacher has next sentence prediction if its checkpoint has it.
        return bert.pretrainer(None if settings.objective.next_sentence else False)

    def build(self, teacher):
        """Builds a pre-trainer for the records, with new weights or with those of a checkpoint, and with a teacher."""
        settings = self._settings
        keras.utils.set_random_seed(settings.seed)
        if (settings.config is None) == (settings.model is None):
            raise ValueError("expected either `config` (new weights) or `model` (weights to start from)")
        options = {"dtype": settings.precision, "remat": settings.remat}
        if settings.positions:
            options["positions"] = settings.positions
        if settings.model:
            model = self._build_from_checkpoint(options)
        else:
            model = self._build_new(options)
        if teacher is None:
            return model
        return add_teacher(model, teacher)

    def _build_new(self, options):
        """Returns a pre-trainer with new weights."""
        config = self._settings.config
        objective = self._settings.objective
        if not isinstance(config, str):
            return config.build(len(self._vocabulary), **options)
        size = open_config(config, self._vocabulary)
        self._check_size("config", size)
        encoder = build_encoder(size, causal=objective.causal, **options)
        return build_pretrainer(encoder, objective.next_sentence)

    def _build_from_checkpoint(self, options):
        """Returns a pre-trainer with the weights of a checkpoint, or of some of its layers."""
        settings = self._settings
        next_sentence = settings.objective.next_sentence
        if settings.student_layers:
            options = options | {"num_layers": settings.student_layers}
        bert = self._load("model", settings.model, settings.add_words, **options)
        if next_sentence and bert.model_type not in (None, "bert"):
            kind = f"{settings.model} is of type {bert.model_type}, which has no next sentence prediction"
            raise ValueError(f"`model`: {kind}. Add `next_sentence=False`")
        return bert.pretrainer(next_sentence)

    def _load(self, argument, model, add_words=None, **options):
        """Loads a checkpoint that fits the records and the objective; notes its facts in `origins`."""
        causal = self._settings.objective.causal
        checkpoint = open_checkpoint(model)
        new_words = without_known(add_words or (), checkpoint.metadata.vocabulary or ())
        if new_words:
            checkpoint = with_words(checkpoint, new_words)
        bert = LoadedModels(checkpoint, **options)
        # Records have only ids.
        if bert.vocabulary is not None and bert.vocabulary.pieces != self._vocabulary.pieces:
            raise ValueError(
                f"`{argument}`: {model} has another vocabulary than `data`. Create the data with it, and with the "
                "same `add_words`, if there are any"
            )
        self._check_size(argument, bert.config)
        if describe(bert.encoder).causal != causal:
            kind = "is bidirectional" if causal else "is a left-to-right model"
            raise ValueError(f"`{argument}`: {model} {kind}. Received: `causal={causal}`")
        self.origins[str(model)] = bert.identity
        return bert

    def _check_size(self, argument, config):
        """Raises for a model with fewer tokens or positions than the records have."""
        tokens = len(self._vocabulary)
        if config.vocab_size < tokens or config.max_position_embeddings < self._length:
            raise ValueError(
                f"`{argument}`: expected at least {tokens} tokens and {self._length} positions. Received: "
                f"vocab_size={config.vocab_size}, max_position_embeddings={config.max_position_embeddings}"
            )

"""Settings of pre-training, and the model to start from, on any backend."""

import dataclasses
import pathlib
from typing import Any, ClassVar

from keras_bert.checkpoints.load import open_checkpoint
from keras_bert.checkpoints.loaded import LoadedModels
from keras_bert.checkpoints.tensors import with_words
from keras_bert.config import BertConfig, named_config
from keras_bert.heads.pretraining import build_pretrainer
from keras_bert.heads.registry import describe, head_named
from keras_bert.models.encoder import build_encoder
from keras_bert.pretraining.masking import Masking
from keras_bert.text.new_words import without_known


@dataclasses.dataclass(frozen=True)
class Objective:
    """Pre-training objective. A subclass for a model of another kind has a subclass of `Records` as its `records`.

    Args:
        next_sentence: bool, whether to train next sentence prediction. Defaults to `True`.
        causal: bool, whether to train a left-to-right language model instead of a masked one. Defaults to `False`.
        masking: a `Masking` of records without masks. Defaults to that of their settings.
    """

    next_sentence: bool = True
    causal: bool = False
    masking: Masking | None = None

    records: ClassVar[type | None] = None

    def __post_init__(self):
        if self.next_sentence and self.causal:
            kind = "--causal: left-to-right models are"
            raise ValueError(f"{kind} trained without next sentence prediction. Add --next_sentence=false")


@dataclasses.dataclass(frozen=True)
class PretrainingSettings:
    """Settings of a pre-training run. Defaults follow the paper.

    Args:
        phases: list of dicts with `length`, `steps` and `batch`.
        objective: an `Objective`.
        config: name of a size or path of a config file; for another model than a BERT, an object whose methods `config`
            and `build` take the size of the vocabulary; `None` if `model` is given.
        model: directory or name of a checkpoint to start from; `None` if `config` is given.
        add_words: list of words to add to `model`, see `LoadedBert.add_words`; those that it has are skipped.
        positions: str, see `build_encoder`; `None` for those of `model`, or else "learned".
        optimizer: str, "adamw" or "lamb".
        learning_rate: float, peak learning rate.
        warmup: float, fraction of the steps used for learning rate warmup.
        bias_correction: bool, whether the optimizer corrects the bias of its moments; Google's does not.
        gradient_accumulation: int, number of micro-batches per batch.
        precision: str, name of a Keras dtype policy.
        remat: bool, whether to recompute activations, to save memory.
        seed: int, random seed of weights and dropout.
        save_every: int, steps between snapshots and between evaluations.
        student_layers: int, number of evenly spaced layers of `model` to start from; `None` for all.
        teacher: directory or name of a checkpoint with a masked-LM head, whose predictions the model learns; or `None`.
        temperature, alpha: see `distillation_loss`.
        pack: bool, whether the rows of a batch contain several examples each, see `PackedRecords`.
    """

    phases: list
    objective: Objective
    config: Any = None
    model: str | None = None
    add_words: list | None = None
    positions: str | None = None
    optimizer: str = "adamw"
    learning_rate: float = 1e-4
    warmup: float = 0.01
    bias_correction: bool = False
    gradient_accumulation: int = 1
    precision: str = "float32"
    remat: bool = False
    seed: int = 1
    save_every: int = 1000
    student_layers: int | None = None
    teacher: str | None = None
    temperature: float = 2.0
    alpha: float = 0.5
    pack: bool = False

    @property
    def encoder_options(self):
        """Returns arguments of `build_model` for the encoder."""
        positions = {"positions": self.positions} if self.positions else {}
        return {"dtype": self.precision, "remat": self.remat, **positions}

    @property
    def steps(self):
        """Returns the number of steps of all phases."""
        return sum(phase["steps"] for phase in self.phases)


def open_records(phases, sources, lengths, seed, open_source):
    """Opens the records of each phase, from the source with the phase's sequence length.

    A phase has `length`, `steps` and `batch`; there is a source and one of the `lengths` for each sequence length. A
    source used by several phases gets a different seed in each. `open_source` is a function of a source, `batch_size`
    and `seed` that returns records with a `vocabulary`.
    """
    wanted = [phase["length"] for phase in phases]
    if sorted(lengths) != sorted(set(wanted)):
        raise ValueError(
            f"--data: expected one source for each length of a --phase, {sorted(set(wanted))}. Received: "
            + ", ".join(f"{source} of length {length}" for source, length in zip(sources, lengths, strict=True))
        )
    found, records = dict(zip(lengths, sources, strict=True)), []
    for index, phase in enumerate(phases):
        options = {"batch_size": phase["batch"], "seed": seed + wanted[:index].count(phase["length"])}
        records.append(open_source(found[phase["length"]], **options))
    if any(source.vocabulary != records[0].vocabulary for source in records):
        raise ValueError("--data: the sources have different vocabularies. Expected the same vocabulary")
    return records


def check_held_out(held_out, records):
    """Returns records to evaluate on; raises unless they have the vocabulary of the others."""
    if held_out.vocabulary != records.vocabulary:
        raise ValueError("--eval_data: the vocabulary differs from that of --data. Expected the same vocabulary")
    return held_out


def check_pairs(records, source, objective):
    """Returns the records of a source; raises unless they have sentence pairs, if the objective needs them."""
    if objective.next_sentence and not records.settings.get("next_sentence", True):
        raise ValueError(f"{source}: the records have no sentence pairs. Add --next_sentence=false")
    return records


def open_config(config, vocabulary=None):
    """Returns the config of a file, of a named size or of another model, for a vocabulary."""
    if not isinstance(config, str):
        return config.config(1 if vocabulary is None else len(vocabulary))
    if pathlib.Path(config).is_file():
        return BertConfig.from_json(config)
    try:
        size = named_config(config)
    except ValueError as error:
        raise ValueError(f"--config: {error}") from None
    return size if vocabulary is None else dataclasses.replace(size, vocab_size=len(vocabulary))


def build_model(config, model, objective, vocabulary, length, origins, add_words=None, **options):
    """Builds a pre-trainer for records, with new weights or with those of a checkpoint.

    For the first arguments see `PretrainingSettings`. The facts of the checkpoint are added to `origins`, see
    `check_unchanged`; options are arguments of `build_encoder` and `load`, such as `dtype`.
    """
    if (config is None) == (model is None):
        raise ValueError("expected either --config (new weights) or --model (weights to start from)")
    if model:
        bert = _load("--model", model, objective, vocabulary, length, origins, add_words, **options)
        if objective.next_sentence and bert.model_type not in (None, "bert"):
            kind = f"{model} is of type {bert.model_type}, which has no next sentence prediction"
            raise ValueError(f"--model: {kind}. Add --next_sentence=false")
        return bert.pretrainer(objective.next_sentence)
    if not isinstance(config, str):
        return config.build(len(vocabulary), **options)
    size = open_config(config, vocabulary)
    _check_size("--config", size, vocabulary, length)
    return build_pretrainer(build_encoder(size, causal=objective.causal, **options), objective.next_sentence)


def load_teacher(model, objective, vocabulary, length, origins, dtype=None):
    """Returns the pre-trainer of a checkpoint with a masked-LM head, to teach a model with the same vocabulary."""
    bert = _load("--teacher", model, objective, vocabulary, length, origins, dtype=dtype)
    if "masked" not in head_named(bert.head).reads:
        raise ValueError(f"--teacher: {model} has no masked-LM head. Expected a pre-trained model")
    return bert.pretrainer(None if objective.next_sentence else False)


def _load(flag, model, objective, vocabulary, length, origins, add_words=None, **options):
    """Loads a checkpoint that fits the records and the objective."""
    checkpoint = open_checkpoint(model)
    if words := without_known(add_words or (), checkpoint.metadata.vocabulary or ()):
        checkpoint = with_words(checkpoint, words)
    bert = LoadedModels(checkpoint, **options)
    if bert.vocabulary is not None and bert.vocabulary.pieces != vocabulary.pieces:  # Records contain only ids.
        raise ValueError(
            f"{flag}: {model} has another vocabulary than --data. Create the data with it, and with the same "
            "--add_words, if there are any"
        )
    _check_size(flag, bert.config, vocabulary, length)
    if describe(bert.encoder).causal != objective.causal:
        kind = "is bidirectional" if objective.causal else "is a left-to-right model"
        raise ValueError(f"{flag}: {model} {kind}. Received: --causal={str(objective.causal).lower()}")
    origins[str(model)] = bert.identity
    return bert


def _check_size(flag, config, vocabulary, length):
    if config.vocab_size < len(vocabulary) or config.max_position_embeddings < length:
        raise ValueError(
            f"{flag}: expected at least {len(vocabulary)} tokens and {length} positions. Received: "
            f"vocab_size={config.vocab_size}, max_position_embeddings={config.max_position_embeddings}"
        )

"""Pre-training in phases: the records of each phase, and the model to start from."""

import dataclasses
import json
import pathlib

import tensorflow as tf

from keras_bert.baseline_config import BaselineConfig, named_baseline
from keras_bert.checkpoints.load import load
from keras_bert.config import BertConfig, named_config
from keras_bert.experiments.finetuning_task import size_text
from keras_bert.experiments.reports.environment import environment
from keras_bert.experiments.reports.pretraining import results_text, write_pretraining_report
from keras_bert.experiments.reports.report import Head
from keras_bert.models.baselines import build_baseline
from keras_bert.models.description import describe
from keras_bert.models.encoder import build_encoder
from keras_bert.models.pretrainer import build_pretrainer
from keras_bert.models.student import without_teacher
from keras_bert.pretraining.dataset import Records, find_damage, sequence_length
from keras_bert.pretraining.fills import sample_fills
from keras_bert.pretraining.masking import Masking
from keras_bert.pretraining.packed_records import PackedRecords
from keras_bert.training.callbacks import flat_settings
from keras_bert.training.distribution import is_chief
from keras_bert.training.snapshots import Snapshots


@dataclasses.dataclass(frozen=True)
class Objective:
    """Pre-training objective.

    Args:
        next_sentence: bool, whether to train next sentence prediction. Defaults to `True`.
        causal: bool, whether to train a left-to-right language model instead of a masked one. Defaults to `False`.
        both_directions: bool, whether to train a language model in each direction, see `build_bilm`. Defaults to
            `False`.
        masking: a `Masking` of records without masks. Defaults to that of their settings.
    """

    next_sentence: bool = True
    causal: bool = False
    both_directions: bool = False
    masking: Masking | None = None

    def __post_init__(self):
        if self.causal and self.both_directions:
            raise ValueError("a bilm reads in both directions. Received: --causal")
        if self.next_sentence and (self.causal or self.both_directions):
            kind = "--causal: left-to-right models are" if self.causal else "--config: a bilm is"
            raise ValueError(f"{kind} trained without next sentence prediction. Add --next_sentence=false")


def open_phases(phases, sources, objective, vocabulary=None, seed=1, pack=False):
    """Opens the records of each phase, from the source with the phase's sequence length.

    Args:
        phases: list of dicts with `length`, `steps` and `batch`.
        sources: list of folders or glob patterns, one for each sequence length.
        objective: an `Objective`.
        vocabulary: `vocab.txt` for records without one.
        seed: int, shuffling seed; a source used by several phases gets a different seed in each. Defaults to 1.
        pack: bool, whether to return `PackedRecords`. Defaults to `False`.
    """
    lengths = [sequence_length(source) for source in sources]
    wanted = [phase["length"] for phase in phases]
    if sorted(lengths) != sorted(set(wanted)):
        raise ValueError(
            f"--data: expected one source for each length of a --phase, {sorted(set(wanted))}. Received: "
            + ", ".join(f"{source} of length {length}" for source, length in zip(sources, lengths, strict=True))
        )
    found = dict(zip(lengths, sources, strict=True))
    records, kind = [], PackedRecords if pack else Records
    for index, phase in enumerate(phases):
        options = {"batch_size": phase["batch"], "seed": seed + wanted[:index].count(phase["length"])}
        records.append(_open(found[phase["length"]], objective, vocabulary, kind, **options))
    if any(source.vocabulary != records[0].vocabulary for source in records):
        raise ValueError("--data: the sources have different vocabularies. Expected the same vocabulary")
    return records


def open_held_out(source, records, objective, vocabulary=None, examples=2000):
    """Opens the records to evaluate on, with the batch size and the vocabulary of `records`."""
    held_out = _open(source, objective, vocabulary, batch_size=records.batch_size, shuffle=False, limit=examples)
    if held_out.vocabulary != records.vocabulary:
        raise ValueError("--eval_data: the vocabulary differs from that of --data. Expected the same vocabulary")
    return held_out


def _open(source, objective, vocabulary, kind=Records, **options):
    if objective.both_directions:
        options["both_directions"] = True
    records = kind(source, vocabulary, masking=objective.masking, causal=objective.causal, **options)
    if objective.next_sentence and not records.settings.get("next_sentence", True):
        raise ValueError(f"{source}: the records have no sentence pairs. Add --next_sentence=false")
    return records


def open_config(config, vocabulary=None):
    """Returns the config of a file, or of a named size for a vocabulary: a `BertConfig`, or that of a bilm."""
    if pathlib.Path(config).is_file():
        return BertConfig.from_json(config)
    if baseline := named_baseline(config, 1 if vocabulary is None else len(vocabulary)):
        if baseline.kind != "bilm":
            raise ValueError(f"--config={config}: only a bilm is pre-trained; train others by run_glue or run_squad")
        return baseline
    try:
        size = named_config(config)
    except ValueError as error:
        raise ValueError(f"--config: {error}, or bilm, such as bilm_H-256") from None
    return size if vocabulary is None else dataclasses.replace(size, vocab_size=len(vocabulary))


def build_model(config, model, objective, vocabulary, length, **options):
    """Builds a pre-trainer, with new weights or with those of a checkpoint.

    Args:
        config: name of a size or path of a config file; `None` if `model` is given.
        model: directory or name of a checkpoint; `None` if `config` is given.
        objective: an `Objective`.
        vocabulary: the vocabulary of the records.
        length: int, maximum sequence length of the records.
        **options: arguments of `build_encoder` and `load`, such as `dtype`.
    """
    if (config is None) == (model is None):
        raise ValueError("expected either --config (new weights) or --model (weights to start from)")
    if model:
        bert = _load("--model", model, objective, vocabulary, length, **options)
        return bert.pretrainer(objective.next_sentence)
    size = open_config(config, vocabulary)
    if isinstance(size, BaselineConfig):
        if given := [name for name, value in options.items() if value and name != "dtype"]:
            raise ValueError(f"--config={config}: a bilm has no {', '.join(given)}")
        return build_baseline(size, dtype=options.get("dtype"))
    _check_size("--config", size, vocabulary, length)
    return build_pretrainer(build_encoder(size, causal=objective.causal, **options), objective.next_sentence)


def load_teacher(model, objective, vocabulary, length, dtype=None):
    """Returns the pre-trainer of a checkpoint with a masked-LM head, to teach a model with the same vocabulary.

    Args:
        model: directory or name of the checkpoint.
        objective, vocabulary, length: see `build_model`.
        dtype: dtype policy. Defaults to Keras' global one.
    """
    bert = _load("--teacher", model, objective, vocabulary, length, dtype=dtype)
    if bert.head != "pretraining":
        raise ValueError(f"--teacher: {model} has no masked-LM head. Expected a pre-trained model")
    return bert.pretrainer(None if objective.next_sentence else False)


def _load(flag, model, objective, vocabulary, length, **options):
    """Loads a checkpoint that fits the records and the objective."""
    bert = load(model, **options)
    if isinstance(bert.config, BaselineConfig):
        longer = ". To train a bilm longer, extend its run: more steps in --phase" if flag == "--model" else ""
        raise ValueError(f"{flag}: {model} is no BERT{longer}")
    _check_size(flag, bert.config, vocabulary, length)
    if bert.vocabulary is not None and bert.vocabulary.pieces != vocabulary.pieces:  # Records contain only ids.
        raise ValueError(f"{flag}: {model} has another vocabulary than --data. Create the data with it")
    if describe(bert.encoder).causal != objective.causal:
        kind = "is bidirectional" if objective.causal else "is a left-to-right model"
        raise ValueError(f"{flag}: {model} {kind}. Received: --causal={str(objective.causal).lower()}")
    return bert


def _check_size(flag, config, vocabulary, length):
    if config.vocab_size < len(vocabulary) or config.max_position_embeddings < length:
        raise ValueError(
            f"{flag}: expected at least {len(vocabulary)} tokens and {length} positions. Received: "
            f"vocab_size={config.vocab_size}, max_position_embeddings={config.max_position_embeddings}"
        )


def located(error, sources):
    """Returns a `ValueError` that names the damaged record of one of the sources, for TensorFlow's error."""
    damage = next(filter(None, map(find_damage, sources)), error.message)
    return ValueError(f"{damage}. Copy the file again or recreate the data")


def report(trainer, results, phases, records, source, objective, steps):
    """Writes `report.html` to the directory of a finished run. With several workers, all must call it.

    Args:
        trainer: the `Trainer`.
        results: dict, the results of its `fit`.
        phases: list of dicts with `length`, `steps` and `batch`.
        records: `Records` of the first phase.
        source: folder or glob pattern of the records to take sample fills from.
        objective: the `Objective`.
        steps: list of `(what, command)`, the next steps.
    """
    is_masked = not (objective.causal or objective.both_directions)
    fills = _fills(trainer, source, objective, records.vocabulary) if is_masked else []
    if not is_chief(trainer.strategy):
        return
    output, encoder = trainer.directory, describe(without_teacher(trainer.model)).config
    size = size_text(encoder)
    texts = [f"{phase['steps']:,} steps of {phase['batch']} x {phase['length']} tokens" for phase in phases]
    facts = {
        "model": f"{size}, {trainer.model.count_params():,} parameters",
        "training": "; ".join(texts),
        "data": f"{records.examples:,} examples, a vocabulary of {len(records.vocabulary):,} tokens",
        "last results": results_text(results),
    }
    settings = Snapshots(output / "snapshots", write=False).newest()["settings"]
    settings = flat_settings(settings) | {name: settings[name] for name in ("phases", "examples")}  # Not as JSON.
    head = Head(
        f"Pre-training, {output.name}",
        facts,
        environment(0, trainer.strategy.num_replicas_in_sync),
        {name.replace("_", " "): value for name, value in settings.items()},
    )
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    write_pretraining_report(output / "report.html", head, lines, fills, steps)


def _fills(trainer, source, objective, vocabulary):
    sample = _open(source, objective, vocabulary, batch_size=16, shuffle=False)

    def predict(inputs):
        return trainer.predict(tf.data.Dataset.from_tensors(inputs))

    return sample_fills(predict, sample)

"""Pre-trains BERT: masked LM and next sentence prediction, in phases of different lengths.

    python -m pipelines.create_pretraining_data --input="corpus/*.txt" --vocab=vocab.txt --output=data/128
    python -m pipelines.run_pretraining --data=data/128 --config=tiny --phase=length:128,steps:100000,batch:64 \\
        --output_dir=runs/tiny --eval_data=data/held_out

A phase takes its records from the folder of `--data` that has them in its length; optimizer and learning rate go on
from one phase to the next. The same command continues a run that was cut, to the step. In `--output_dir`: `flags.txt`
(for `--flagfile`), `metrics.jsonl` and TensorBoard's events, snapshots, and `model/` as it is at the last snapshot,
which `keras_bert.load` and transformers open. On two cores a model of 2 layers, width 128, learns from 45,000 tokens a
second, with `--precision=mixed_bfloat16` from 59,000; one of 4 layers, width 256, from 10,500 and 15,000.
"""

import dataclasses
import pathlib

import keras
import tensorflow as tf
from absl import flags, logging

import keras_bert
from keras_bert.pretraining.dataset import Records, find_damage, sequence_length
from keras_bert.training import losses
from keras_bert.training.distribution import is_chief
from keras_bert.training.input_pipeline import Phases
from pipelines import common_flags

_DATA = flags.DEFINE_list("data", None, "Folders of create_pretraining_data, or glob patterns.", required=True)
_EVAL = flags.DEFINE_string("eval_data", None, "Such a folder to evaluate on.")
_EVAL_EXAMPLES = flags.DEFINE_integer("eval_examples", 2000, "The most examples to evaluate on.", 1)
_VOCAB = flags.DEFINE_string("vocab", None, "The vocab.txt of records that come without one.")
_LOWERCASE = flags.DEFINE_bool("lowercase", True, "Whether that vocabulary is uncased.")
_CONFIG = flags.DEFINE_string("config", None, "Size: tiny ... large, L-4_H-256, or a config file.")
_MODEL = flags.DEFINE_string("model", None, "Directory or name of a model to start from, in place of --config.")
_OUTPUT = flags.DEFINE_string("output_dir", None, "Where everything is written.", required=True)
_PHASE = flags.DEFINE_multi_string("phase", None, "length:128,steps:90000,batch:256; several in order.", required=True)
_NEXT_SENTENCE = flags.DEFINE_bool("next_sentence", True, "Whether to train next sentence prediction.")
_CAUSAL = flags.DEFINE_bool("causal", False, "A left-to-right language model in place of the masked one.")
_OPTIMIZER = flags.DEFINE_enum("optimizer", "adamw", ["adamw", "lamb"], "LAMB is for large batches.")
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-4, "The highest.")
_WARMUP = flags.DEFINE_float("warmup", 0.01, "Share of the steps that the learning rate rises.", 0, 1)
_BIAS_CORRECTION = flags.DEFINE_bool("bias_correction", False, "Of AdamW and LAMB; Google's BERT has none.")
_ACCUMULATION = flags.DEFINE_integer("gradient_accumulation", 1, "In how many parts a batch is computed.", 1)
_REMAT = flags.DEFINE_bool("remat", False, "Whether activations are computed again: half the speed, a third of memory.")
_PRECISION = flags.DEFINE_enum(
    "precision", "float32", ["float32", "mixed_bfloat16", "mixed_float16"], "Of the computation."
)
_STRATEGY = flags.DEFINE_string("strategy", "auto", "auto, one, mirrored, multi_worker or tpu.")
_SEED = flags.DEFINE_integer("seed", 1, "Of the weights, the order of the data, the masks and the dropout.", 0)
_EVERY = flags.DEFINE_integer("save_every", 1000, "Steps between snapshots, and between evaluations.", 1)


def main():
    strategy = keras_bert.create_strategy(_STRATEGY.value)
    if _CAUSAL.value and _NEXT_SENTENCE.value:
        raise ValueError("--causal: [CLS] sees nothing on its right, so B cannot be judged. Add --next_sentence=false")
    phases = [_read_phase(text) for text in _PHASE.value]
    records = _records(phases)
    held_out = _held_out(records[0])
    longest = max(source.sequence_length for source in [*records, held_out or records[0]])
    total = sum(phase["steps"] for phase in phases)
    trainer = keras_bert.Trainer(
        lambda: _model(records[0].vocabulary, longest),
        lambda model: _optimizer(model, total),
        losses.pretraining_losses(_NEXT_SENTENCE.value),
        losses.pretraining_metrics(_NEXT_SENTENCE.value),
        directory=_OUTPUT.value,
        strategy=strategy,
        micro_batches=_ACCUMULATION.value,
        seed=_SEED.value,
        settings={
            "phases": phases,
            "examples": [source.examples for source in records],
            **{holder.name: holder.value for holder in (_CAUSAL, _PRECISION)},
        },
    )
    given = pathlib.Path(_OUTPUT.value) / "flags.txt"
    if is_chief(strategy) and not given.exists():
        given.parent.mkdir(parents=True, exist_ok=True)
        common_flags.write_given(given)
    logging.info("%s weights, %s steps", f"{trainer.model.count_params():,}", f"{total:,}")
    try:
        results = trainer.fit(
            Phases([(source, phase["steps"]) for source, phase in zip(records, phases, strict=True)]),
            steps=total,
            evaluation=held_out,
            evaluate_every=_EVERY.value,
            save_every=_EVERY.value,
            after_save=lambda: _save(trainer.model, records[0]),
        )
    except tf.errors.DataLossError as error:
        sources = [*_DATA.value, *([_EVAL.value] if _EVAL.value else [])]
        damage = next(filter(None, map(find_damage, sources)), error.message)
        raise ValueError(f"{damage}. Copy the file again, or make the data anew") from None
    print("  ".join(f"{name} {value:.4f}" for name, value in results.items()))
    if is_chief(strategy):
        _save(trainer.model, records[0])
        print(f"the model is in {_OUTPUT.value}/model")


def _read_phase(text):
    """`length:128,steps:1000,batch:32` as a dict."""
    try:
        phase = {name: int(value) for name, value in (part.split(":") for part in text.split(","))}
    except ValueError:
        phase = {}
    if set(phase) != {"length", "steps", "batch"} or min(phase.values()) < 1:
        raise ValueError(f"--phase must look like length:128,steps:90000,batch:256. Received: {text!r}")
    return phase


def _records(phases):
    """The records of each phase: of the source that has them in its length."""
    lengths = [sequence_length(source) for source in _DATA.value]
    wanted = [phase["length"] for phase in phases]
    if sorted(lengths) != sorted(set(wanted)):
        raise ValueError(
            f"--data: expected one source for each length of a --phase, {sorted(set(wanted))}. Received: "
            + ", ".join(f"{source} of length {length}" for source, length in zip(_DATA.value, lengths, strict=True))
        )
    found = dict(zip(lengths, _DATA.value, strict=True))
    records = []
    for index, phase in enumerate(phases):
        again = wanted[:index].count(phase["length"])  # Another order where a source comes again.
        options = {"batch_size": phase["batch"], "seed": _SEED.value + again}
        records.append(_open(found[phase["length"]], **options))
    if any(source.vocabulary != records[0].vocabulary for source in records):
        raise ValueError("--data: the sources have different vocabularies. Expected the same one")
    return records


def _open(source, **options):
    records = Records(source, _VOCAB.value, causal=_CAUSAL.value, **options)
    if _NEXT_SENTENCE.value and not records.settings.get("next_sentence", True):
        raise ValueError(f"{source}: was made without sentence pairs. Train it by --next_sentence=false")
    return records


def _held_out(records):
    if _EVAL.value is None:
        return None
    held_out = _open(_EVAL.value, batch_size=records.batch_size, shuffle=False, limit=_EVAL_EXAMPLES.value)
    if held_out.vocabulary != records.vocabulary:
        raise ValueError("--eval_data: has another vocabulary than --data. Expected the same one")
    return held_out


def _model(vocabulary, longest):
    keras.utils.set_random_seed(_SEED.value)
    options = {"dtype": _PRECISION.value, "remat": _REMAT.value}
    if (_CONFIG.value is None) == (_MODEL.value is None):
        raise ValueError("expected either --config or --model: a size to begin with, or weights to go on from")
    if _MODEL.value:
        bert = keras_bert.load(_MODEL.value, **options)
        _check_size("--model", bert.config, vocabulary, longest)
        if bert.vocabulary is not None and bert.vocabulary != vocabulary:
            raise ValueError(f"--model: {_MODEL.value} has another vocabulary than --data. Make the data with its own")
        if keras_bert.describe(bert.encoder).causal != _CAUSAL.value:
            kind = "sees both sides" if _CAUSAL.value else "is a left-to-right model"
            raise ValueError(f"--model: {_MODEL.value} {kind}. Received: --causal={str(_CAUSAL.value).lower()}")
        return bert.pretrainer(_NEXT_SENTENCE.value)
    if pathlib.Path(_CONFIG.value).is_file():
        config = keras_bert.BertConfig.from_json(_CONFIG.value)
    else:
        config = dataclasses.replace(keras_bert.named_config(_CONFIG.value), vocab_size=len(vocabulary))
    _check_size("--config", config, vocabulary, longest)
    encoder = keras_bert.build_encoder(config, causal=_CAUSAL.value, **options)
    return keras_bert.build_pretrainer(encoder, _NEXT_SENTENCE.value)


def _check_size(flag, config, vocabulary, longest):
    if config.vocab_size < len(vocabulary) or config.max_position_embeddings < longest:
        raise ValueError(
            f"{flag}: expected at least {len(vocabulary)} pieces and {longest} positions. Received: "
            f"vocab_size={config.vocab_size}, max_position_embeddings={config.max_position_embeddings}"
        )


def _optimizer(model, steps):
    return keras_bert.create_optimizer(
        model,
        _LEARNING_RATE.value,
        steps,
        round(_WARMUP.value * steps),
        bias_correction=_BIAS_CORRECTION.value,
        kind=_OPTIMIZER.value,
    )


def _save(model, records):
    casing = {"lowercase": records.settings.get("lowercase", _LOWERCASE.value)}
    casing["strip_accents"] = records.settings.get("strip_accents")
    keras_bert.save(model, pathlib.Path(_OUTPUT.value) / "model", records.vocabulary, **casing)


if __name__ == "__main__":
    common_flags.run(main)

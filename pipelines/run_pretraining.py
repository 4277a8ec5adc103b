"""Pre-trains BERT: masked LM and next sentence prediction, in phases.

    python -m pipelines.create_pretraining_data --input="corpus/*.txt" --vocab=vocab.txt --output_dir=data/128
    python -m pipelines.run_pretraining --data=data/128 --config=tiny --phase=length:128,steps:100000,batch:64 \\
        --output_dir=runs/tiny --eval_data=data/held_out

Each phase uses the `--data` folder with its sequence length; optimizer state and schedule carry over between phases.
The same command resumes an interrupted run exactly. `--output_dir` contains `flags.txt` (for `--flagfile`),
`metrics.jsonl`, TensorBoard events, snapshots, and `model/` as of the last snapshot, which `keras_bert.load` and
transformers can load. On two cores, a model of 2 layers, width 128, processes 45,000 tokens per second, or 59,000 with
`--precision=mixed_bfloat16`; one of 4 layers, width 256, processes 10,500 or 15,000.
"""

import logging
import pathlib

from absl import flags

import keras_bert
from keras_bert.files import write_text

from . import command, common_flags

command.section("data")
_DATA = flags.DEFINE_list("data", None, "Folder(s) of create_pretraining_data, or glob patterns.", required=True)
_EVAL = flags.DEFINE_string("eval_data", None, "Folder or glob pattern of the data to evaluate on.")
_EVAL_EXAMPLES = flags.DEFINE_integer("eval_examples", 2000, "Maximum number of examples to evaluate on.", 1)
_VOCAB = flags.DEFINE_string("vocab", None, "vocab.txt for records without one.")
_LOWERCASE = flags.DEFINE_bool("lowercase", True, "Whether --vocab is uncased.")
command.section("model")
_CONFIG = flags.DEFINE_string("config", None, "Size: tiny ... large, L-4_H-256, or a config file.")
_MODEL = flags.DEFINE_string("model", None, "Directory or name of a model to start from, instead of --config.")
command.section("training")
_PHASE = flags.DEFINE_multi_string("phase", None, "length:128,steps:90000,batch:256; repeatable.", required=True)
flags.DEFINE_bool("next_sentence", True, "Whether to train next sentence prediction.")
flags.DEFINE_bool("causal", False, "Trains a left-to-right language model instead of a masked one.")
_OPTIMIZER = flags.DEFINE_enum("optimizer", "adamw", ["adamw", "lamb"], "Optimizer; LAMB is for large batches.")
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
_REMAT = flags.DEFINE_bool("remat", False, "Recomputes activations: half the speed, a third of the memory.")
_SEED = flags.DEFINE_integer("seed", 1, "Random seed.", 0)
_EVERY = flags.DEFINE_integer("save_every", 1000, "Steps between snapshots and between evaluations.", 1)
_FLAGS = common_flags.training(warmup=0.01, bias_correction=False)


def main():
    import tensorflow as tf

    from keras_bert.experiments.pretraining import Objective, open_held_out, open_phases, parse_phase
    from keras_bert.pretraining.dataset import find_damage
    from keras_bert.training.distribution import is_chief
    from keras_bert.training.input_pipeline import Phases

    strategy, output = keras_bert.create_strategy(_FLAGS.strategy.value), pathlib.Path(_FLAGS.output_dir.value)
    objective = common_flags.instance(Objective)
    phases = [parse_phase(text) for text in _PHASE.value]
    records = open_phases(phases, _DATA.value, objective, _VOCAB.value, _SEED.value)
    held_out = None
    if _EVAL.value:
        held_out = open_held_out(_EVAL.value, records[0], objective, _VOCAB.value, _EVAL_EXAMPLES.value)
    trainer = _trainer(phases, records, held_out, objective, strategy)
    if is_chief(strategy) and not (output / "flags.txt").exists():
        write_text(output / "flags.txt", command.given_flags())
    total = sum(phase["steps"] for phase in phases)
    logging.getLogger("keras_bert").info("%s weights, %s steps", f"{trainer.model.count_params():,}", f"{total:,}")
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
        raise ValueError(f"{damage}. Copy the file again or recreate the data") from None
    print("  ".join(f"{name} {value:.4f}" for name, value in results.items()))
    if is_chief(strategy):
        _save(trainer.model, records[0])
        print(f"saved the model to {output}/model")


def _trainer(phases, records, held_out, objective, strategy):
    import keras

    from keras_bert.experiments.pretraining import build_model
    from keras_bert.training import losses

    longest = max(source.sequence_length for source in [*records, held_out or records[0]])
    steps = sum(phase["steps"] for phase in phases)

    def build():
        keras.utils.set_random_seed(_SEED.value)
        options = {"dtype": _FLAGS.precision.value, "remat": _REMAT.value}
        return build_model(_CONFIG.value, _MODEL.value, objective, records[0].vocabulary, longest, **options)

    return keras_bert.Trainer(
        build,
        lambda model: _optimizer(model, steps),
        losses.pretraining_losses(objective.next_sentence),
        losses.pretraining_metrics(objective.next_sentence),
        directory=_FLAGS.output_dir.value,
        strategy=strategy,
        micro_batches=_FLAGS.gradient_accumulation.value,
        seed=_SEED.value,
        settings={
            "phases": phases,
            "examples": [source.examples for source in records],
            "causal": objective.causal,
            "precision": _FLAGS.precision.value,
        },
    )


def _optimizer(model, steps):
    return keras_bert.create_optimizer(
        model,
        _LEARNING_RATE.value,
        steps,
        round(_FLAGS.warmup.value * steps),
        bias_correction=_FLAGS.bias_correction.value,
        kind=_OPTIMIZER.value,
    )


def _save(model, records):
    casing = {"lowercase": records.settings.get("lowercase", _LOWERCASE.value)}
    casing["strip_accents"] = records.settings.get("strip_accents")
    keras_bert.save(model, pathlib.Path(_FLAGS.output_dir.value) / "model", records.vocabulary, **casing)


if __name__ == "__main__":
    command.run(main)

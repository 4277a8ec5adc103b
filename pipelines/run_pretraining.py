"""Pre-trains BERT: masked LM and next sentence prediction, in phases.

    python -m pipelines.create_pretraining_data --input="corpus/*.txt" --vocab=vocab.txt --output_dir=data/128
    python -m pipelines.run_pretraining --data=data/128 --config=tiny --phase=length:128,steps:100000,batch:64 \\
        --output_dir=runs/tiny --eval_data=data/held_out

Each phase uses the `--data` folder with its sequence length; optimizer state and schedule carry over between phases.
The same command resumes an interrupted run exactly. With more steps in the last `--phase`, or more phases, it extends a
finished run: weights and moments carry over, and the new steps have their own warmup and decay, from `--learning_rate`
and `--warmup`. `--output_dir` contains `report.html`, `flags.txt` (for `--flagfile`),
`metrics.jsonl`, TensorBoard events, snapshots, and `model/` as of the last snapshot, which `keras_bert.load` and
transformers can load. On two cores, a model of 2 layers, width 128, processes 45,000 tokens per second, or 59,000 with
`--precision=mixed_bfloat16`; one of 4 layers, width 256, processes 10,500 or 15,000.
"""

import dataclasses
import logging
import pathlib
import shlex

from absl import flags

import keras_bert
from keras_bert.corpus import lines
from keras_bert.files import write_text
from keras_bert.training.progress import announced

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
_FLAGS = common_flags.training(**common_flags.schedule(warmup=0.01, bias_correction=False))


def check():
    """Finds mistakes in phases and paths."""
    _phases()
    for source in [*_DATA.value, *([_EVAL.value] if _EVAL.value else [])]:
        if not pathlib.Path(source).is_dir():
            lines.find(source)
    common_flags.check_paths(_MODEL.value, vocab=_VOCAB.value)


def main():
    import tensorflow as tf

    from keras_bert.experiments import pretraining
    from keras_bert.experiments.extension import EXTENDABLE
    from keras_bert.training.callbacks import check_report_to
    from keras_bert.training.distribution import is_chief
    from keras_bert.training.input_pipeline import Phases

    check_report_to(_FLAGS.report_to.value)
    strategy, output = keras_bert.create_strategy(_FLAGS.strategy.value), pathlib.Path(_FLAGS.output_dir.value)
    objective = common_flags.instance(pretraining.Objective)
    phases = _phases()
    records = pretraining.open_phases(phases, _DATA.value, objective, _VOCAB.value, _SEED.value)
    held_out = None
    if _EVAL.value:
        held_out = pretraining.open_held_out(_EVAL.value, records[0], objective, _VOCAB.value, _EVAL_EXAMPLES.value)
    trainer = _trainer(phases, records, held_out, objective, strategy)
    total = sum(phase["steps"] for phase in phases)
    logging.getLogger("keras_bert").info("%s weights, %s steps", f"{trainer.model.count_params():,}", f"{total:,}")
    try:
        results = trainer.fit(
            Phases([(source, phase["steps"]) for source, phase in zip(records, phases, strict=True)]),
            steps=total,
            evaluation=held_out,
            evaluate_every=_EVERY.value,
            save_every=_EVERY.value,
            log_every=max(1, min(50, total // 200)),  # The curves of short runs show the warmup, too.
            after_save=lambda: _save(trainer.model, records[0]),
            extend=EXTENDABLE,
        )
    except tf.errors.DataLossError as error:
        raise pretraining.located(error, [*_DATA.value, *([_EVAL.value] if _EVAL.value else [])]) from None
    pretraining.report(trainer, results, phases, records[0], _EVAL.value or _DATA.value[0], objective, _next())
    if is_chief(strategy):
        _save(trainer.model, records[0])
        # Not before the end of an extension: until then, the same command with this --flagfile resumes it.
        write_text(output / "flags.txt", command.given_flags())
        print(f"report:       {output / 'report.html'}\nmodel:        {output / 'model'}")
        for what, line in _next():
            command.print_next(line, what)


def _next():
    """Returns the next steps: what they do, and a command."""
    output = shlex.quote(_FLAGS.output_dir.value)
    files = "--train_file=train.csv --dev_file=dev.csv"
    tune = f"{command.spelling('run_glue')} --task=classification {files} --model={output}/model"
    extend = f"{command.spelling('run_pretraining')} --flagfile={output}/flags.txt"
    phase = _PHASE.value[-1]
    return [
        ("Fine-tunes it on your own table with the columns text and label.", f"{tune} --output_dir={output}_tuned"),
        ("Continues pre-training, with as many steps again in a new phase.", f"{extend} --phase={phase}"),
    ]


def _phases():
    return [_phase(text) for text in _PHASE.value]


def _phase(text):
    """Parses a phase such as `length:128,steps:1000,batch:32` into a dict."""
    try:
        phase = {name: int(value) for name, value in (part.split(":") for part in text.split(","))}
    except ValueError:
        phase = {}
    if set(phase) != {"length", "steps", "batch"} or min(phase.values()) < 1:
        raise ValueError(f"--phase must look like length:128,steps:90000,batch:256. Received: {text!r}")
    return phase


def _trainer(phases, records, held_out, objective, strategy):
    import keras

    from keras_bert.experiments.extension import extended_schedule
    from keras_bert.experiments.pretraining import build_model, open_config
    from keras_bert.training import losses
    from keras_bert.training.callbacks import create_callbacks
    from keras_bert.training.distribution import is_chief

    output = pathlib.Path(_FLAGS.output_dir.value)
    longest = max(source.sequence_length for source in [*records, held_out or records[0]])
    config = _CONFIG.value and dataclasses.asdict(open_config(_CONFIG.value, records[0].vocabulary))
    settings = {
        "model": _MODEL.value,
        "config": config,
        "phases": phases,
        "examples": [source.examples for source in records],
        "causal": objective.causal,
        "precision": _FLAGS.precision.value,
    }
    schedule = extended_schedule(output, settings, _LEARNING_RATE.value, _FLAGS.warmup.value)

    def build():
        keras.utils.set_random_seed(_SEED.value)
        options = {"dtype": _FLAGS.precision.value, "remat": _REMAT.value}
        return build_model(_CONFIG.value, _MODEL.value, objective, records[0].vocabulary, longest, **options)

    trainer = keras_bert.Trainer(
        build,
        lambda model: _optimizer(model, schedule),
        losses.pretraining_losses(objective.next_sentence),
        losses.pretraining_metrics(objective.next_sentence),
        directory=output,
        strategy=strategy,
        micro_batches=_FLAGS.gradient_accumulation.value,
        seed=_SEED.value,
        settings=settings,
        callbacks=create_callbacks(_FLAGS.report_to.value, output, output.name),
    )
    if is_chief(strategy) and not (output / "flags.txt").exists():
        write_text(output / "flags.txt", command.given_flags())
    return trainer


def _optimizer(model, schedule):
    optimizer = keras_bert.create_optimizer(
        model,
        _LEARNING_RATE.value,
        schedule.total_steps,
        bias_correction=_FLAGS.bias_correction.value,
        kind=_OPTIMIZER.value,
    )
    optimizer.learning_rate = schedule
    return optimizer


def _save(model, records):
    casing = {"lowercase": records.settings.get("lowercase", _LOWERCASE.value)}
    casing["strip_accents"] = records.settings.get("strip_accents")
    with announced("saving"):
        keras_bert.save(model, pathlib.Path(_FLAGS.output_dir.value) / "model", records.vocabulary, **casing)


if __name__ == "__main__":
    command.run(main, check=check, resumes=True)

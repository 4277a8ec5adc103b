"""Pre-trains BERT: masked LM and next sentence prediction, in phases.

    python -m pipelines.create_pretraining_data --input="corpus/*.txt" --vocab=vocab.txt --output_dir=data/128
    python -m pipelines.run_pretraining --data=data/128 --config=tiny --phase=length:128,steps:100000,batch:64 \\
        --output_dir=runs/tiny --eval_data=data/held_out

Each phase uses the `--data` folder with its sequence length; optimizer state and schedule carry over between phases.
The same command resumes an interrupted run exactly. With more steps in the last `--phase`, or more phases, it extends a
finished run: weights and moments carry over, and the new steps have their own warmup and decay, from `--learning_rate`
and `--warmup`. `--output_dir` contains `report.html`, `flags.txt` (for `--flagfile`), `metrics.jsonl`, TensorBoard
events, snapshots, and `model/` as of the last snapshot, which `keras_bert.load` and transformers can load. With
`KERAS_BACKEND=jax`, Keras' `fit` trains on JAX, on all devices; TensorFlow reads the records. On two cores, a model of
2 layers, width 128, processes 45,000 tokens per second, or 59,000 with `--precision=mixed_bfloat16`; one of 4 layers,
width 256, processes 10,500 or 15,000.
"""

import os
import pathlib
import shlex

from absl import flags

import keras_bert
from keras_bert.corpus import lines
from keras_bert.files import write_text

from . import command, common_flags, wings

command.section("data")
_DATA = flags.DEFINE_list("data", None, "Folder(s) of create_pretraining_data, or glob patterns.", required=True)
_EVAL = flags.DEFINE_string("eval_data", None, "Folder or glob pattern of the data to evaluate on.")
_EVAL_EXAMPLES = flags.DEFINE_integer("eval_examples", 2000, "Maximum number of examples to evaluate on.", 1)
_VOCAB = flags.DEFINE_string("vocab", None, "vocab.txt for records without one.")
_LOWERCASE = flags.DEFINE_bool("lowercase", True, "Whether --vocab is uncased.")
command.section("model")
_CONFIG = flags.DEFINE_string("config", None, "Size: tiny ... large, L-4_H-256, bilm, bilm_H-256; or a config file.")
_MODEL = flags.DEFINE_string("model", None, "Directory or name of a model to start from, instead of --config.")
_DISTILLATION = common_flags.distillation(
    "a pre-trained model with the vocabulary of --data; the default of --model without --config"
)
command.section("training")
_PHASE = flags.DEFINE_multi_string("phase", None, "length:128,steps:90000,batch:256; repeatable.", required=True)
flags.DEFINE_bool("next_sentence", True, "Whether to train next sentence prediction.")
flags.DEFINE_bool("pack", False, "Packs several short examples into each row of a batch.")
flags.DEFINE_bool("causal", False, "Trains a left-to-right language model instead of a masked one.")
flags.DEFINE_enum(
    "positions", None, ["learned", "sinusoid", "none"], "Position embeddings of new weights; default: learned."
)
flags.DEFINE_enum("optimizer", "adamw", ["adamw", "lamb"], "Optimizer; LAMB is for large batches.")
flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
flags.DEFINE_bool("remat", False, "Recomputes activations: half the speed, a third of the memory.")
flags.DEFINE_integer("seed", 1, "Random seed.", 0)
flags.DEFINE_integer("save_every", 1000, "Steps between snapshots and between evaluations.", 1)
_FLAGS = common_flags.training(**common_flags.schedule(warmup=0.01, bias_correction=False))


def check():
    """Finds mistakes in phases and paths."""
    common_flags.phases(_PHASE)
    common_flags.only(_EVAL.value, "with --eval_data", _EVAL_EXAMPLES.name)
    for source in [*_DATA.value, *([_EVAL.value] if _EVAL.value else [])]:
        if not pathlib.Path(source).is_dir():
            lines.find(source)
    if _start() and flags.FLAGS.positions:
        raise ValueError(f"--positions: only with --config. Received: --model={_start()}")
    if _DISTILLATION.student_layers.value and not _start():
        raise ValueError(f"--student_layers: only with --model or --teacher. Received: --config={_CONFIG.value}")
    if _DISTILLATION.teacher.value and _is_bilm():
        raise ValueError(f"--teacher: not for a bilm. Received: --config={_CONFIG.value}")
    if flags.FLAGS.pack and (_DISTILLATION.teacher.value or _is_bilm()):
        raise ValueError("--pack: not with --teacher and not for a bilm")
    if _backend() not in ("tensorflow", "jax"):
        raise ValueError(f"KERAS_BACKEND: expected tensorflow or jax. Received: {_backend()}")
    if _backend() == "jax" and flags.FLAGS["strategy"].present:
        raise ValueError("--strategy: only on TensorFlow. JAX trains on all devices. Received: KERAS_BACKEND=jax")
    common_flags.check_distillation(_DISTILLATION)
    common_flags.check_paths(_MODEL.value, vocab=_VOCAB.value)


def main():
    os.environ.setdefault("JAX_CPU_ENABLE_ASYNC_DISPATCH", "false")  # Steps on several virtual CPUs block each other.
    import tensorflow as tf

    from keras_bert.experiments import pretraining
    from keras_bert.experiments.pretraining_model import Objective, PretrainingSettings
    from keras_bert.experiments.pretraining_run import PretrainingRun
    from keras_bert.training.callbacks import check_report_to
    from keras_bert.training.distribution import is_chief

    check_report_to(_FLAGS.report_to.value)
    if _backend() == "jax":
        tf.config.set_visible_devices([], "GPU")  # TensorFlow only reads, and leaves the memory to JAX.
    strategy = None if _backend() == "jax" else keras_bert.create_strategy(_FLAGS.strategy.value)
    output = pathlib.Path(_FLAGS.output_dir.value)
    objective = common_flags.instance(Objective, masking=None, both_directions=_is_bilm())
    phases = common_flags.phases(_PHASE)
    given = {"phases": phases, "objective": objective, "model": _start()}
    if _is_bilm():
        given["config"] = wings.language_model(_CONFIG.value)
    settings = common_flags.instance(PretrainingSettings, **given)
    records = pretraining.open_phases(
        settings.phases, _DATA.value, objective, _VOCAB.value, settings.seed, settings.pack
    )
    held_out = None
    if _EVAL.value:
        held_out = pretraining.open_held_out(_EVAL.value, records[0], objective, _VOCAB.value, _EVAL_EXAMPLES.value)
    run = PretrainingRun(settings, records, output, held_out, strategy, _FLAGS.report_to.value, _LOWERCASE.value)
    if is_chief(strategy) and not (output / "flags.txt").exists():
        write_text(output / "flags.txt", command.given_flags())
    try:
        results = run.fit()
    except tf.errors.DataLossError as error:
        raise pretraining.located(error, [*_DATA.value, *([_EVAL.value] if _EVAL.value else [])]) from None
    fills = _EVAL.value or _DATA.value[0]
    pretraining.report(run.trainer, results, settings.phases, records[0], fills, objective, _next())
    if is_chief(strategy):
        run.save()
        # Not before the end of an extension: until then, the same command with this --flagfile resumes it.
        write_text(output / "flags.txt", command.given_flags())
        print(f"report:       {output / 'report.html'}\nmodel:        {output / 'model'}")
        for what, line in _next():
            command.print_next(line, what)


def _backend():
    return os.environ.get("KERAS_BACKEND", "tensorflow")


def _start():
    """Returns the model to start from, `None` for new weights."""
    return _MODEL.value or (None if _CONFIG.value else _DISTILLATION.teacher.value)


def _is_bilm():
    return _CONFIG.value is not None and wings.is_new(_CONFIG.value)


def _next():
    """Returns the next steps: what they do, and a command."""
    output = shlex.quote(_FLAGS.output_dir.value)
    files = "--train_file=train.csv --dev_file=dev.csv"
    model = f"--model=bilstm --language_model={output}/model" if _is_bilm() else f"--model={output}/model"
    tune = f"{command.spelling('run_glue')} --task=classification {files} {model}"
    what = "Trains a BiLSTM with its states as features" if _is_bilm() else "Fine-tunes it"
    extend = f"{command.spelling('run_pretraining')} --flagfile={output}/flags.txt"
    phase = _PHASE.value[-1]
    return [
        (f"{what} on your own table with the columns text and label.", f"{tune} --output_dir={output}_tuned"),
        ("Continues pre-training, with as many steps again in a new phase.", f"{extend} --phase={phase}"),
    ]


if __name__ == "__main__":
    command.run(main, check=check, resumes=True)

"""Repeats a study of the BERT paper at any scale: pre-trains, fine-tunes and compares all its rows.

    python -m pipelines.run_study --study=pretraining_tasks --scale=mini --data="books/*.txt" --glue_dir=glue_data \\
        --squad_train=train-v1.1.json --squad_dev=dev-v1.1.json --output_dir=runs/pretraining_tasks
    python -m pipelines.run_study --study=masking --scale=demo --data="books/*.txt" --glue_dir=glue_data \\
        --ner_train=eng.train --ner_dev=eng.testa --output_dir=runs/masking

Studies: `pretraining_tasks` (table 5: without next sentence prediction, left to right, with a BiLSTM on top),
`model_size` (table 6), `features` (table 7: named entities from features of a frozen encoder), `masking` (table 8),
`steps` (figure 5: scores over pre-training steps), `positions` (learned, sinusoids, none) and `rivals` (tables 1 and 2:
GPT, ELMo, BiLSTM and BiDAF). Scales: `base` (the
paper's), `tiny` (a day on an accelerator), `mini` (hours on two cores) and `demo` (minutes, to see how it works); other
flags override single settings. `--data` is a glob pattern of text files with one sentence per line and a blank line
between documents; the last file is held out, unless `--eval_data` names others. The first lines say what the study
will cost; `--estimate` ends there. The same command resumes an interrupted study; with other `--rows`, `--tasks` or
`--seed`, it adds to a finished one. `--output_dir` contains `results.md`, `results.json`, `report.html` (beside the
published figures), the vocabulary and the data, `pretraining/` with the model of each recipe, and `finetuning/`.
"""

import contextlib
import dataclasses
import io
import logging
import math
import pathlib
import time

from absl import flags

import keras_bert
from keras_bert.files import write_text

from . import command, common_flags, wings

_STUDIES = ("pretraining_tasks", "model_size", "features", "masking", "steps", "positions", "rivals")
_SCALES = ("base", "tiny", "mini", "demo")
command.section("study")
_STUDY = flags.DEFINE_enum("study", None, _STUDIES, "Study.", required=True)
_SCALE = flags.DEFINE_enum("scale", "mini", _SCALES, "Sizes of models and data.")
_ROWS = flags.DEFINE_list("rows", None, "Row(s) to run; default: all.")
_TASKS = flags.DEFINE_list("tasks", None, "Task(s) to fine-tune on; default: those of the study.")
_ESTIMATE = flags.DEFINE_bool("estimate", False, "Only prepares the data and says what the study will cost.")
command.section("data")
_DATA = flags.DEFINE_string("data", None, "Glob pattern of the text files to pre-train on.", required=True)
_EVAL = flags.DEFINE_string("eval_data", None, "Glob pattern of held-out text; default: the last file of --data.")
_VOCAB = flags.DEFINE_string("vocab", None, "Vocabulary, a vocab.txt; default: learned from --data.")
_LOWERCASE = flags.DEFINE_bool("lowercase", True, "Whether the vocabulary is uncased.")
_GLUE = flags.DEFINE_string("glue_dir", None, "Folder with the official GLUE files; default: downloaded.")
for _name, _help in (("squad", "in SQuAD's format"), ("ner", "in CoNLL's format")):
    flags.DEFINE_string(f"{_name}_train", None, f"Training file {_help}.")
    flags.DEFINE_string(f"{_name}_dev", None, f"Dev file {_help}.")
command.section("pre-training")
_CONFIG = flags.DEFINE_string("config", None, "Size: tiny ... large, L-4_H-256; default: that of the scale.")
_PHASE = flags.DEFINE_multi_string("phase", None, "length:128,steps:90000,batch:256; repeatable.")
_RATE = flags.DEFINE_float("pretraining_learning_rate", None, "Peak learning rate of pre-training.")
command.section("fine-tuning")
_FINETUNING = {
    "learning_rates": flags.DEFINE_list("learning_rate", None, "Peak learning rate(s); the best mean counts."),
    "batch_size": flags.DEFINE_integer("batch_size", None, "Batch size.", 1),
    "epochs": flags.DEFINE_integer("epochs", None, "Number of epochs.", 1),
    "train_examples": flags.DEFINE_integer("max_train_examples", None, "Number of training examples to use.", 1),
    "dev_examples": flags.DEFINE_integer("max_dev_examples", None, "Number of dev examples to use.", 1),
}
_SEED = flags.DEFINE_list("seed", None, "Random seed(s) of fine-tuning.")
command.section("computation")
_PRECISION = flags.DEFINE_enum(
    "precision", "float32", ["float32", "mixed_bfloat16", "mixed_float16"], "Computation precision."
)
_STRATEGY = flags.DEFINE_enum("strategy", "auto", ["auto", "one", "mirrored"], "Distribution on one machine.")
_OUTPUT = flags.DEFINE_string("output_dir", None, "Output directory.", required=True)


def check():
    """Finds mistakes in flags and paths."""
    common_flags.phases(_PHASE)
    paths = {name: flags.FLAGS[name].value for name in ("squad_train", "squad_dev", "ner_train", "ner_dev")}
    common_flags.check_paths(vocab=_VOCAB.value, **paths)
    for holder in (_ROWS, _TASKS, _SEED, _FINETUNING["learning_rates"]):
        if holder.value is not None and (not holder.value or len(set(holder.value)) < len(holder.value)):
            raise ValueError(f"--{holder.name} must be a list without duplicates. Received: {','.join(holder.value)}")
    for seed in common_flags.numbers(_SEED, int) or ():
        if not 0 <= seed < 2**32:
            raise ValueError(f"--seed must be from 0 to {2**32 - 1}. Received: {seed}")
    rates = {_RATE.name: [_RATE.value] if _RATE.value is not None else []}
    rates["learning_rate"] = common_flags.numbers(_FINETUNING["learning_rates"], float) or []
    for name, values in rates.items():
        for rate in values:
            if not 0 < rate < math.inf:
                raise ValueError(f"--{name} must be a positive number. Received: {rate}")


def main():
    from keras_bert.experiments.studies import cost
    from keras_bert.experiments.studies.results import write_results

    began, output, log = time.monotonic(), pathlib.Path(_OUTPUT.value), logging.getLogger("keras_bert")
    runner = _runner(output)
    write_text(output / "flags.txt", command.given_flags())
    runner.prepare()
    recipes, pairs = runner.unfinished()
    for row, column in runner.outdated():
        again = "it runs again" if (row, column) in pairs else "it is left out of the table"
        log.info("%s, %s: scored with other settings before; %s", row.title, column.title, again)
    log.info("%s, %s: %s", runner.definition.title, _SCALE.value, cost.work_text(runner, recipes, pairs))
    if recipes or pairs:
        log.info("timing a few steps of each kind of model ...")
        with contextlib.redirect_stderr(io.StringIO()):  # The progress of these steps.
            pretraining, finetuning = cost.estimate(runner, recipes, pairs)
        rest = "; not counted: training BiLSTM and BiDAF" if any(row.recurrent for row, _ in pairs) else ""
        log.info("estimate: %s of pre-training and %s of fine-tuning%s", *map(_hours, (pretraining, finetuning)), rest)
    if _ESTIMATE.value:
        return
    for number, recipe in enumerate(recipes, 1):
        log.info("pre-training %d of %d: %s", number, len(recipes), recipe.folder)
        runner.pretrain(recipe)
    for number, (row, column) in enumerate(pairs, 1):
        log.info("fine-tuning %d of %d: %s, %s", number, len(pairs), row.title, column.title)
        runner.finetune(row, column)
        write_results(runner, output, time.monotonic() - began)
    print(write_results(runner, output, time.monotonic() - began))
    print(f"results:      {output / 'results.md'}\nreport:       {output / 'report.html'}")


def _hours(seconds):
    if seconds < 120:
        return "less than 2 minutes"
    return f"{seconds / 3600:.1f} hours" if seconds >= 5400 else f"{seconds / 60:.0f} minutes"


def _runner(output):
    from keras_bert.experiments.studies.columns import Sources, open_columns
    from keras_bert.experiments.studies.definitions import define
    from keras_bert.experiments.studies.runner import Corpus, StudyRunner

    scale = _scale()
    definition = define(_STUDY.value, _SCALE.value == "base")
    known = [row.key for row in definition.rows if row.is_built]
    if unknown := [key for key in _ROWS.value or () if key not in known]:
        raise ValueError(f"--rows must be some of {', '.join(known)}. Received: {','.join(unknown)}")
    sources = common_flags.instance(Sources)
    columns = open_columns(_TASKS.value or definition.tasks, scale, sources, definition.metrics, wings.load)
    corpus = Corpus(_DATA.value, _EVAL.value, _VOCAB.value, _LOWERCASE.value)
    strategy = keras_bert.create_strategy(_STRATEGY.value)
    runner = StudyRunner(definition, scale, columns, corpus, output, _ROWS.value, strategy, _PRECISION.value)
    runner.language_model = wings.language_model
    return runner


def _scale():
    """Returns the scale with the flags' values."""
    from keras_bert.experiments.studies.scales import SCALES

    scale = SCALES[_SCALE.value]
    changes = {name: holder.value for name, holder in _FINETUNING.items() if holder.value is not None}
    if "learning_rates" in changes:
        changes["learning_rates"] = tuple(common_flags.numbers(_FINETUNING["learning_rates"], float))
        scale = dataclasses.replace(scale, recurrent_rates=changes["learning_rates"])
    tasks = {name: dataclasses.replace(recipe, **changes) for name, recipe in scale.tasks.items()}
    given = {
        "config": _CONFIG.value,
        "phases": tuple(common_flags.phases(_PHASE)) or None,
        "learning_rate": _RATE.value,
        "seeds": tuple(common_flags.numbers(_SEED, int) or ()) or None,
    }
    return dataclasses.replace(scale, tasks=tasks, **{name: value for name, value in given.items() if value})


if __name__ == "__main__":
    command.run(main, check=check, resumes=True)

"""Repeats a study of the BERT paper at any scale: pre-trains, fine-tunes and compares all its rows.

    python -m research.run_study --study=pretraining_tasks --scale=mini --data="books/*.txt" --glue_dir=glue_data \\
        --squad_train=train-v1.1.json --squad_dev=dev-v1.1.json --output_dir=runs/pretraining_tasks
    python -m research.run_study --study=masking --scale=demo --data="books/*.txt" --glue_dir=glue_data \\
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

import keras_bert
from keras_bert.files import write_text
from pipelines import command, common_flags
from pipelines.arguments import CommandArguments, flag
from research.studies.definitions import STUDIES, TASKS, define
from research.studies.scales import SCALES

_LOG = logging.getLogger("keras_bert")


class Arguments(CommandArguments):
    study: str = flag(None, "Study.", values=list(STUDIES), required=True, section="study")
    scale: str = flag("mini", "Sizes of models and data.", values=list(SCALES))
    rows: list[str] = flag(None, "Row(s) to run; default: all.")
    tasks: list[str] = flag(None, "Task(s) to fine-tune on; default: those of the study.")
    estimate: bool = flag(False, "Only prepares the data and says what the study will cost.")
    data: str = flag(None, "Glob pattern of the text files to pre-train on.", required=True, section="data")
    eval_data: str = flag(None, "Glob pattern of held-out text; default: the last file of --data.")
    vocabulary: str = flag(None, "Vocabulary, a vocab.txt; default: learned from --data.", is_file=True)
    lowercase: bool = flag(True, "Whether the vocabulary is uncased.")
    glue_dir: str = flag(None, "Folder with the official GLUE files; default: downloaded.")
    squad_train: str = flag(None, "Training file in SQuAD's format.", is_file=True)
    squad_dev: str = flag(None, "Dev file in SQuAD's format.", is_file=True)
    ner_train: str = flag(None, "Training file in CoNLL's format.", is_file=True)
    ner_dev: str = flag(None, "Dev file in CoNLL's format.", is_file=True)
    config: str = flag(None, "Size: tiny ... large, L-4_H-256; default: that of the scale.", section="pre-training")
    phases: list[str] = flag(None, "length:128,steps:90000,batch:256; repeatable.", repeatable=True)
    pretraining_learning_rate: float = flag(None, "Peak learning rate of pre-training.")
    learning_rate: list[float] = flag(None, "Peak learning rate(s); the best mean counts.", section="fine-tuning")
    batch_size: int = flag(None, "Batch size.", least=1)
    epochs: int = flag(None, "Number of epochs.", least=1)
    max_train_examples: int = flag(None, "Number of training examples to use.", least=1)
    max_dev_examples: int = flag(None, "Number of dev examples to use.", least=1)
    seed: list[int] = flag(None, "Random seed(s) of fine-tuning.")
    precision: str = flag(
        "float32",
        "Computation precision.",
        values=["float32", "mixed_bfloat16", "mixed_float16"],
        section="computation",
    )
    strategy: str = flag("auto", "Distribution on one machine.", values=["auto", "one", "mirrored"])
    output_dir: str = flag(None, "Output directory.", required=True, section="output")

    def changed(self, scale):
        """Returns a `Scale` with the values of the flags."""
        learning_rates = tuple(self.learning_rate or ())
        changes_of_tasks = {
            "learning_rates": learning_rates,
            "train_examples": self.max_train_examples,
            "dev_examples": self.max_dev_examples,
            "batch_size": self.batch_size,
            "epochs": self.epochs,
        }
        changes = {
            "config": self.config,
            "phases": tuple(common_flags.phase_settings(self.phases)),
            "learning_rate": self.pretraining_learning_rate,
            "seeds": tuple(self.seed or ()),
            "recurrent_rates": learning_rates,
        }
        tasks = {}
        for name, recipe in scale.tasks.items():
            tasks[name] = dataclasses.replace(recipe, **_given_values(changes_of_tasks))
        return dataclasses.replace(scale, tasks=tasks, **_given_values(changes))


def _given_values(changes):
    """Returns the changes whose flags are given."""
    return {name: value for name, value in changes.items() if value}


def check(arguments):
    """Finds mistakes in flags and paths."""
    common_flags.phase_settings(arguments.phases)
    for name, values in arguments.values("rows", "tasks", "seed", "learning_rate").items():
        if not values or len(set(values)) < len(values):
            received = ",".join(map(str, values))
            raise ValueError(f"--{name} must be a list without duplicates. Received: {received}")
    rows = define(arguments.study, arguments.scale == "base").rows
    _check_known("rows", arguments.rows, [row.key for row in rows if row.is_built])
    _check_known("tasks", arguments.tasks, TASKS)
    for seed in arguments.seed or ():
        if not 0 <= seed < 2**32:
            raise ValueError(f"--seed must be from 0 to {2**32 - 1}. Received: {seed}")
    if arguments.pretraining_learning_rate is not None:
        _check_positive("pretraining_learning_rate", [arguments.pretraining_learning_rate])
    _check_positive("learning_rate", arguments.learning_rate or ())


def _check_known(name, values, known):
    """Raises an error for values of a flag, `None` for none, that are not known."""
    unknown = [value for value in values or () if value not in known]
    if unknown:
        raise ValueError(f"--{name} must be some of {', '.join(known)}. Received: {','.join(unknown)}")


def _check_positive(name, values):
    """Raises an error for values of a flag that are not positive numbers."""
    for value in values:
        if not 0 < value < math.inf:
            raise ValueError(f"--{name} must be a positive number. Received: {value}")


def main(arguments):
    from research.studies.results import write_results

    began = time.monotonic()
    output = pathlib.Path(arguments.output_dir)
    runner = _create_runner(arguments, output)
    write_text(output / "flags.txt", arguments.flagfile)
    runner.prepare()
    recipes, pairs = runner.unfinished()
    for row, column in runner.outdated():
        again = "it runs again" if (row, column) in pairs else "it is left out of the table"
        _LOG.info("%s, %s: scored with other settings before; %s", row.title, column.title, again)
    _tell_cost(arguments, runner, recipes, pairs)
    if arguments.estimate:
        return
    for number, recipe in enumerate(recipes, 1):
        _LOG.info("pre-training %d of %d: %s", number, len(recipes), recipe.folder)
        runner.models.pretrain(recipe)
    for number, (row, column) in enumerate(pairs, 1):
        _LOG.info("fine-tuning %d of %d: %s, %s", number, len(pairs), row.title, column.title)
        runner.finetune(row, column)
        write_results(runner, output, time.monotonic() - began)
    print(write_results(runner, output, time.monotonic() - began))
    print(f"results:      {output / 'results.md'}\nreport:       {output / 'report.html'}")


def _tell_cost(arguments, runner, recipes, pairs):
    """Says what is left to do, and how long it will take."""
    from research.studies import cost

    _LOG.info("%s, %s: %s", runner.definition.title, arguments.scale, cost.work_text(runner, recipes, pairs))
    if recipes or pairs:
        _LOG.info("timing a few steps of each kind of model ...")
        with contextlib.redirect_stderr(io.StringIO()):  # The progress of these steps.
            pretraining, finetuning = cost.estimate(runner, recipes, pairs)
        are_recurrent = any(row.recurrent for row, _ in pairs)
        rest = "; not counted: training BiLSTM and BiDAF" if are_recurrent else ""
        _LOG.info(
            "estimate: %s of pre-training and %s of fine-tuning%s",
            _duration(pretraining),
            _duration(finetuning),
            rest,
        )


def _duration(seconds):
    """Returns a time in words."""
    if seconds < 120:
        return "less than 2 minutes"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"


def _create_runner(arguments, output):
    """Returns the `StudyRunner` of a study, with the values of the flags."""
    from research.studies.columns import open_columns
    from research.studies.corpus import Corpus
    from research.studies.runner import StudyRunner

    scale = arguments.changed(SCALES[arguments.scale])
    definition = define(arguments.study, arguments.scale == "base")
    columns = open_columns(arguments.tasks or definition.tasks, scale, arguments, definition.metrics)
    corpus = Corpus(arguments.data, arguments.eval_data, arguments.vocabulary, arguments.lowercase)
    strategy = keras_bert.create_strategy(arguments.strategy)
    return StudyRunner(
        definition,
        scale,
        columns,
        corpus,
        output,
        rows=arguments.rows,
        strategy=strategy,
        precision=arguments.precision,
    )


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)

"""Fine-tunes on any task, also one of your own, and keeps the best model on dev.

    python -m pipelines.run_task --plugins=relations_task --task=relations --train_file=train.jsonl \\
        --dev_file=dev.jsonl --model=google-bert/bert-base-uncased --output_dir=runs/relations

`--plugins` are Python modules, such as a file of the working directory without `.py`, which call `register_task`. The
settings of the task are flags, see `--help` with `--task`. Files are CSV, TSV, rows of JSON, or Parquet.
Flags with several values form a grid; the same command resumes interrupted runs and keeps finished ones. `--output_dir`
contains what other commands of fine-tuning leave: `flags.txt` (for `--flagfile`), `runs/`, `results.json`,
`results.md`, `report.html`, the best model in `model/` and its export in `saved_model/1/`.
"""

import dataclasses
import sys

import keras_bert
from keras_bert.data.sources import source

from . import command, common_flags
from .arguments import flag, read_some


@dataclasses.dataclass(frozen=True)
class Arguments(common_flags.FinetuningFlags):
    task: str = flag(None, "Name of the task.", required=True, section="data")
    train_file: str = flag(None, "Training data.", required=True)
    dev_file: str = flag(None, "File to select the best run on.", required=True)


def with_settings(cls, arguments):
    """Returns the class of the arguments with the settings of the task that they name."""
    given = read_some(cls, arguments, "task", "plugins")
    command.import_plugins(given["plugins"])
    if not given["task"]:
        return cls
    task = keras_bert.tasks.task_named(given["task"])
    bases = task.Settings, cls
    return dataclasses.dataclass(frozen=True)(type("Arguments", bases, {"__doc__": cls.__doc__}))


def check(arguments):
    """Finds mistakes in flags and files."""
    arguments.check_model()
    common_flags.check_paths(train_file=arguments.train_file, dev_file=arguments.dev_file)


def main(arguments):
    task = keras_bert.tasks.task_named(arguments.task)
    strategy, model, settings = arguments.create_strategy(), arguments.model, arguments.fill(task.Settings)
    data = task.read(source(arguments.train_file), source(arguments.dev_file), settings)
    made = task(data, keras_bert.tasks.Start(model, keras_bert.load(model)), settings)
    common_flags.finetune(arguments, made, arguments.choices(made), strategy, None)


if __name__ == "__main__":
    Arguments = with_settings(Arguments, sys.argv[1:])
    command.run(__doc__, Arguments, main, check, resumes=True)

"""Fine-tunes on any task, also one of your own, and keeps the best model on dev.

    python -m pipelines.run_task --plugins=relations_task --task=relations --train_file=train.jsonl \\
        --dev_file=dev.jsonl --model=google-bert/bert-base-uncased --output_dir=runs/relations

`--plugins` are Python modules, such as a file of the working directory without `.py`, which call `register_task`. The
settings of the task are flags, see `--help` with `--task`. Files are CSV, TSV, rows of JSON, or Parquet.
Flags with several values form a grid; the same command resumes interrupted runs and keeps finished ones. `--output_dir`
contains what other commands of fine-tuning leave: `flags.txt` (for `--flagfile`), `runs/`, `results.json`,
`results.md`, `report.html`, the best model in `model/` and its export in `saved_model/1/`.
"""

import functools
import shlex

import keras_bert
from keras_bert.data.formats import source

from . import command
from .arguments import flag, parse_some
from .common_flags import Distillation, FewExamplesFlags, Files, TaskFlags
from .common_flags import finetune as main
from .plugins import import_plugins


class Arguments(Files, Distillation, FewExamplesFlags, TaskFlags):
    # Other commands have one task, a constant.
    task: str = flag(None, "Name of the task.", required=True, section="data")  # type: ignore[misc]

    @classmethod
    def of(cls, arguments):
        """Returns the class with the settings of the task that a command line names, as flags."""
        given = parse_some(cls, arguments, "task", "plugins", "verbose")
        import_plugins(given["plugins"], given["verbose"])
        if not given["task"]:
            return cls
        settings = keras_bert.tasks.task_named(given["task"]).Settings
        attributes = {"__doc__": cls.__doc__, "Settings": settings}
        return type("Arguments", (settings, cls), attributes)

    @property
    def texts(self):  # type: ignore[override]
        """Arguments of `predict`: the rows of a file, which the task reads."""
        file = f"--input={shlex.quote(self.dev_file or self.train_file)}"
        if self.plugins:
            return f"--plugins={','.join(self.plugins)} {file}"
        return file

    @functools.cached_property
    def data(self):
        """The data of both files."""
        train, dev = self.train_and_dev()
        task = keras_bert.tasks.task_named(self.task)
        return self.parted(task.rows.read(source(train), source(dev), self.settings, name=task.name))


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, resumes=True)

"""Fine-tunes on SWAG or your own questions with choices, and keeps the best model on dev.

    python -m pipelines.run_multiple_choice --train_file=train.csv --dev_file=val.csv --predict_file=test.csv \\
        --model=google-bert/bert-base-uncased --output_dir=runs/swag
    python -m pipelines.run_multiple_choice --train_file=train.jsonl --dev_file=dev.jsonl \\
        --model=google-bert/bert-base-uncased --output_dir=runs/quiz --learning_rate=2e-5,5e-5 --seed=1,2,3

Files are SWAG's CSV; other CSV and TSV tables with a column for each choice, also without column names (text, choices,
label); or JSONL with the text, a list `choices` and a label. Rows may have different numbers of choices: an empty one
is absent. Labels are letters, or numbers from 0 or 1. A `--model` with a multiple-choice head keeps it. Flags with
several values form a grid; the same command resumes interrupted runs and keeps finished ones. Each run keeps its best
epoch on dev. `--output_dir` contains `flags.txt` (for `--flagfile`), `runs/`, `results.json`, `results.md`,
`report.html`, `errors.tsv`, for `--predict_file` `predictions.tsv` with the label and the
probabilities of the choices, the best model in `model/` and its export, from text and choices to probabilities, in
`saved_model/1/`.
"""

import dataclasses
import functools
import typing

import keras_bert
from keras_bert.tasks.multiple_choice import data

from . import command, common_flags
from .arguments import flag


@dataclasses.dataclass(frozen=True)
class Arguments(data.ChoiceSettings, common_flags.FinetuningFlags):
    wording: typing.ClassVar = {"rates": f"2e-5{common_flags.NARROW}", "batches": "16", "epochs": "3"}

    train_file: str = flag(None, "Training data: CSV, TSV or JSONL.", required=True, section="data")
    dev_file: str = flag(None, "File to select the best run on.", required=True)
    predict_file: str = flag(None, "File to predict.")
    skip_bad_rows: int = flag(0, "Maximum number of unreadable rows to skip in train and dev each.", least=0)

    @functools.cached_property
    def data(self):
        """The data of all files."""
        columns = {"text": self.text_column, "choices": self.choice_columns, "label": self.label_column}
        first = None if self.first_label is None else int(self.first_label)
        files = self.train_file, self.dev_file, self.predict_file
        return data.read_all(*files, **columns, first_label=first, skip=self.skip_bad_rows).first(
            self.max_train_examples
        )


def check(arguments):
    """Finds mistakes in flags and files."""
    arguments.check_model()
    _ = arguments.data


def main(arguments):
    from keras_bert.tasks.base import Start
    from keras_bert.tasks.multiple_choice.task import MultipleChoiceTask

    strategy, model = arguments.create_strategy(), arguments.model
    start = Start(model, keras_bert.load(model))
    task = MultipleChoiceTask(arguments.data, start, arguments.fill(data.ChoiceSettings))
    texts, predictions = '"A text." "One choice." "Another one."', arguments.predict_file and "predictions.tsv"
    common_flags.finetune(arguments, task, arguments.choices(task), strategy, texts, predictions)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)

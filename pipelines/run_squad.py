"""Fine-tunes on SQuAD or files in its format, and keeps the best model on dev.

    python -m pipelines.run_squad --train_file=train-v1.1.json --dev_file=dev-v1.1.json \\
        --model=google-bert/bert-base-uncased --output_dir=runs/squad
    python -m pipelines.run_squad --train_file=train-v2.0.json --dev_file=dev-v2.0.json --version_2 --epochs=2 \\
        --batch_size=48 --model=google-bert/bert-base-uncased --output_dir=runs/squad2

Several training files are used in sequence, such as TriviaQA before SQuAD. A `--model` with a question answering head
keeps it. Flags with several values form a grid, and so do several models with the same vocabulary in `--model`; the
same command resumes interrupted runs and keeps finished ones. `--ensemble=7` averages the logits of the seven best
runs. With `--version_2`, questions may have no answer; the threshold is chosen on dev. A question with answers that is
marked `is_impossible` is scored against its answers and trained on as unanswerable. `--output_dir` contains
`flags.txt`, `runs/`, `dev/` and, for `--predict_file`, `test/` with the official `predictions.json`,
`nbest_predictions.json` and `null_odds.json`, `results.json`, `results.md`, `report.html`, the
best model in `model/` and its export, from question and context to answer, in `saved_model/1/`.
"""

import pathlib

import keras_bert
from keras_bert.data.formats import source
from keras_bert.tasks.question_answering.data import QuestionSettings

from . import command
from .arguments import flag
from .common_flags import CrossValidationFlags, Distillation, PredictFile, TaskFlags, ValidationSplit, load_model
from .common_flags import finetune as main


class _Files(CrossValidationFlags, ValidationSplit):
    train_file: list[str] = flag(
        None, "Training file(s) in SQuAD's format, in training order.", is_file=True, required=True, section="data"
    )
    dev_file: str = flag(
        None,
        "File to select the best run on; or --validation_split.",
        is_file=True,
        required="validation_split or folds",
    )


class Arguments(_Files, PredictFile, QuestionSettings, Distillation, TaskFlags):
    task = "questions"
    Settings = QuestionSettings
    texts = '--question="Who?" --context_file=article.txt'
    wording = TaskFlags.wording | {
        "batches": "32, or 48 with --version_2",
        "epochs": "3, or 2 with --version_2",
    }

    def open(self, paths):
        """Returns the source of the only training file."""
        if len(paths) > 1:
            flag = "--folds" if self.divides else "--validation_split"
            raise ValueError(f"{flag}: only with one --train_file. Received: {','.join(paths)}")
        return source(paths[0])

    @property
    def models(self):
        """The models to start from. Runs are named by their last parts, which must differ."""
        models = self.model.split(",")
        if not all(models) or len({pathlib.Path(model).name for model in models}) < len(models):
            raise ValueError(
                "--model must be a directory or a name such as google-bert/bert-base-uncased, or several with "
                f"different last parts. Received: --model={self.model}"
            )
        return models

    def start(self):
        """Returns the `Start` of the runs, from one or several models."""
        from keras_bert.runs.finetuning import load_compatible

        load_options = self.load_options(self.models)
        if self.student_layers:
            load_options["num_layers"] = self.student_layers
        origins, bert = load_compatible(self.models, load_model, **load_options)
        return keras_bert.tasks.Start(
            self.models[0], bert, load_model, load_options, origins, new_head=bool(self.teacher)
        )

    def choices(self, task):
        """Returns the grid of the runs, with the models first if there are several."""
        choices = {}
        if len(self.models) > 1:
            choices["model"] = self.models
        choices.update(super().choices(task))
        return choices


def check(arguments):
    arguments.load_options(arguments.models)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)

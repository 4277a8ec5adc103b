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

import dataclasses
import pathlib
import typing

from keras_bert.tasks.questions import data

from . import command, common_flags
from .arguments import flag


@dataclasses.dataclass(frozen=True)
class Arguments(data.QuestionSettings, common_flags.FinetuningFlags):
    wording: typing.ClassVar = {"rates": f"5e-5{common_flags.NARROW}"}
    wording |= {"batches": "32, or 48 with --version_2", "epochs": "3, or 2 with --version_2"}

    train_file: list[str] = flag(
        None, "Training file(s) in SQuAD's format, in training order.", required=True, section="data"
    )
    dev_file: str = flag(None, "File to select the best run on.", required=True)
    predict_file: str = flag(None, "File to predict.")

    @property
    def models(self):
        """The models to start from. Runs are named by their last parts, which must differ."""
        models = (self.model or "").split(",")
        if not all(models) or len({pathlib.Path(model).name for model in models}) < len(models):
            raise ValueError(
                "--model must be a directory or a name such as google-bert/bert-base-uncased, or several with "
                f"different last parts. Received: --model={self.model or ''}"
            )
        return models


def check(arguments):
    """Finds mistakes in flags and files."""
    for model in arguments.models:
        common_flags.check_paths(model)
    arguments.load_options(arguments.models)
    arguments.check_adapters(arguments.models)
    for path in arguments.train_file:
        common_flags.check_paths(train_file=path)
    common_flags.check_paths(dev_file=arguments.dev_file, predict_file=arguments.predict_file)


def main(arguments):
    from keras_bert.runs.unchanged_inputs import load_compatible
    from keras_bert.tasks.base import Start
    from keras_bert.tasks.questions.task import QuestionAnsweringTask

    strategy, models = arguments.create_strategy(), arguments.models
    load_options = arguments.load_options(models)
    files = arguments.train_file, arguments.dev_file, arguments.predict_file
    questions = data.read_all(*files, arguments.version_2, arguments.max_train_examples)
    origins, bert = load_compatible(models, common_flags.load_model, **load_options)
    start = Start(models[0], bert, common_flags.load_model, load_options, origins)
    task = QuestionAnsweringTask(questions, start, arguments.fill(data.QuestionSettings))
    choices = {**({"model": models} if len(models) > 1 else {}), **arguments.choices(task)}
    texts = '--question="Who?" --context_file=article.txt'
    predictions = arguments.predict_file and "test/predictions.json"
    common_flags.finetune(arguments, task, choices, strategy, texts, predictions)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)

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
`nbest_predictions.json` and `null_odds.json`, `results.json`, `results.md` with the paper's scores, `report.html`, the
best model in `model/` and its export, from question and context to answer, in `saved_model/1/`.
"""

import pathlib

from absl import flags

from . import command, common_flags, wings

command.section("data")
_TRAIN = flags.DEFINE_list("train_file", None, "Training file(s) in SQuAD's format, in training order.", required=True)
_DEV = flags.DEFINE_string("dev_file", None, "File to select the best run on.", required=True)
_PREDICT = flags.DEFINE_string("predict_file", None, "File to predict.")
_VERSION_2 = flags.DEFINE_bool("version_2", False, "Whether questions may have no answer.")
flags.DEFINE_integer("sequence_length", 384, "Maximum number of tokens of question and context.", 8)
flags.DEFINE_integer("doc_stride", 128, "Distance in tokens between the windows of a long context.", 1)
flags.DEFINE_integer("max_question_length", 64, "Maximum number of tokens of a question.", 1)
flags.DEFINE_integer("max_answer_length", 30, "Maximum number of tokens of an answer.", 1)
flags.DEFINE_integer("n_best", 20, "Number of answers to write for each question.", 1)
_BASELINES = common_flags.baselines()
_FLAGS = common_flags.finetuning(
    "5e-5, or 1e-3 for new models", "32, or 48 with --version_2", "3, or 2 with --version_2"
)


def check():
    """Finds mistakes in flags and files."""
    common_flags.choices(_FLAGS, [], None, None)
    for model in _models():
        common_flags.check_paths(model)
    common_flags.load_options(_BASELINES, _models(), "bidaf")
    common_flags.check_lora(_FLAGS, _models())
    for path in _TRAIN.value:
        common_flags.check_paths(train_file=path)
    common_flags.check_paths(dev_file=_DEV.value, predict_file=_PREDICT.value)


def main():
    from keras_bert.experiments.origins import shared_origins
    from keras_bert.tasks.questions import data
    from keras_bert.tasks.questions.task import QuestionAnsweringTask, QuestionSettings

    _, strategy = common_flags.begin(_FLAGS)
    models = _models()
    epochs, batch_size = (2, 48) if _VERSION_2.value else (3, 32)  # As in the paper.
    load_options = common_flags.load_options(_BASELINES, models, "bidaf")
    files = _TRAIN.value, _DEV.value, _PREDICT.value
    questions = data.read_all(*files, _VERSION_2.value, _FLAGS.max_train_examples.value)
    settings = common_flags.instance(QuestionSettings)
    task = QuestionAnsweringTask(questions, *shared_origins(models, wings.load, **load_options), settings)
    task.load, task.load_options = wings.load, load_options
    choices = common_flags.choices(_FLAGS, common_flags.new_model_rates(task) or [5e-5], batch_size, epochs)
    if len(models) > 1:
        choices = {"model": models, **choices}
    texts, predictions = '--question="Who?" --context_file=article.txt', _PREDICT.value and "test/predictions.json"
    common_flags.finetune(_FLAGS, task, choices, strategy, texts, predictions)


def _models():
    """Returns the models to start from. Runs are named by their last parts, which must differ."""
    models = (_FLAGS.model.value or "").split(",")
    if not all(models) or len({pathlib.Path(model).name for model in models}) < len(models):
        raise ValueError(
            f"--model must be a directory or a name such as google-bert/bert-base-uncased, or several with different "
            f"last parts. Received: --model={_FLAGS.model.value or ''}"
        )
    return models


if __name__ == "__main__":
    command.run(main, check=check, resumes=True)

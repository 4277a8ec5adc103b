"""Fine-tunes on SWAG or your own questions with choices, and keeps the best model on dev.

    python -m pipelines.run_multiple_choice --train_file=train.csv --dev_file=val.csv --predict_file=test.csv \\
        --model=google-bert/bert-base-uncased --output_dir=runs/swag
    python -m pipelines.run_multiple_choice --train_file=train.jsonl --dev_file=dev.jsonl \\
        --model=google-bert/bert-base-uncased --output_dir=runs/quiz --learning_rate=2e-5,5e-5 --seed=1,2,3

Files are SWAG's CSV; other CSV and TSV tables with a column for each choice, also without column names (text, choices,
label); or JSONL with the text, a list `choices` and a label. Rows may have different numbers of choices: an empty one
is absent. Labels are letters, or numbers from 0 or 1. A `--model` with a multiple-choice head keeps it. Flags with
several values form a grid; the same command resumes interrupted runs and keeps finished ones. Each run keeps its best
epoch on dev. `--output_dir` contains `flags.txt` (for `--flagfile`), `runs/`, `results.json`, `results.md` (for SWAG
with the paper's scores), `report.html`, `errors.tsv`, for `--predict_file` `predictions.tsv` with the label and the
probabilities of the choices, the best model in `model/` and its export, from text and choices to probabilities, in
`saved_model/1/`.
"""

import functools

from absl import flags

import keras_bert
from keras_bert.tasks.multiple_choice import data

from . import command, common_flags

command.section("data")
_TRAIN = flags.DEFINE_string("train_file", None, "Training data: CSV, TSV or JSONL.", required=True)
_DEV = flags.DEFINE_string("dev_file", None, "File to select the best run on.", required=True)
_PREDICT = flags.DEFINE_string("predict_file", None, "File to predict.")
_SKIP = flags.DEFINE_integer("skip_bad_rows", 0, "Maximum number of unreadable rows to skip in train and dev each.", 0)
_TEXT = flags.DEFINE_string("text_column", None, "Column with the text; default: `question` or `text`.")
_CHOICES = flags.DEFINE_list(
    "choice_columns", None, "Columns with the choices; default: `choices`, or names such as `A` and `choice1`."
)
_LABEL = flags.DEFINE_string(
    "label_column", None, "Column with the right choice; default: `label`, `answer`, `key` or `answerKey`."
)
_FIRST = flags.DEFINE_enum("first_label", None, ["0", "1"], "Number of the first choice; default: as the labels show.")
_LENGTH = flags.DEFINE_integer("sequence_length", 128, "Maximum number of tokens of a text with one choice.", 5)
_FLAGS = common_flags.finetuning("2e-5", "16")


def check():
    """Finds mistakes in flags and files."""
    common_flags.choices(_FLAGS, [], None, None)
    common_flags.check_model(_FLAGS.model.value)
    common_flags.check_lora(_FLAGS, [_FLAGS.model.value])
    _data()


def main():
    from keras_bert.tasks.multiple_choice.task import MultipleChoiceTask

    _, strategy = common_flags.begin(_FLAGS)
    model = _FLAGS.model.value
    task = MultipleChoiceTask(_data(), model, keras_bert.load(model), _LENGTH.value)
    choices = common_flags.choices(_FLAGS, [2e-5], 16, 3)  # As in the paper.
    texts, predictions = '"A text." "One choice." "Another one."', _PREDICT.value and "predictions.tsv"
    common_flags.finetune(_FLAGS, task, choices, strategy, texts, predictions)


@functools.cache
def _data():
    columns = {"text": _TEXT.value, "choices": _CHOICES.value, "label": _LABEL.value}
    first = None if _FIRST.value is None else int(_FIRST.value)
    read = data.read_all(_TRAIN.value, _DEV.value, _PREDICT.value, **columns, first_label=first, skip=_SKIP.value)
    return read.first(_FLAGS.max_train_examples.value)


if __name__ == "__main__":
    command.run(main, check=check, resumes=True)

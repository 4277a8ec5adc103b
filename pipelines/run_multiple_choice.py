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

from keras_bert.tasks.multiple_choice.data import ChoiceSettings

from . import command
from .common_flags import NARROW, BadRows, Distillation, Files, PredictFile, TaskFlags
from .common_flags import check_task as check
from .common_flags import finetune as main


class Arguments(Files, PredictFile, BadRows, ChoiceSettings, Distillation, TaskFlags):
    task = "multiple_choice"
    Settings = ChoiceSettings
    texts = '"A text." "One choice." "Another one."'
    wording = TaskFlags.wording | {
        "train": ": CSV, TSV or JSONL",
        "rates": f"2e-5{NARROW}",
        "batches": "16",
    }


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)

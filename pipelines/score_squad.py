"""Prints the official scores of predictions for SQuAD 1.1 or 2.0 as JSON.

    python -m pipelines.score_squad --dev_file=dev-v1.1.json --predictions=predictions.json
    python -m pipelines.score_squad --dev_file=dev-v2.0.json --predictions=predictions.json --na_prob=null_odds.json

`--predictions` maps question ids to answers, "" for no answer; `--na_prob` maps them to the probability or odds of no
answer, from which the best thresholds are computed. A question without a prediction counts as 0. Takes five seconds.
"""

import json
import pathlib
import sys

from keras_bert.files import json_text
from keras_bert.tasks.question_answering import data as squad
from keras_bert.tasks.question_answering import metrics as squad_metrics

from . import command
from .arguments import CommandArguments, flag


class Arguments(CommandArguments):
    dev_file: str = flag(None, "File with the questions and their answers.", required=True, section="data")
    predictions: str = flag(None, "Answers by id, JSON.", required=True)
    na_prob: str = flag(None, "Probabilities or odds of no answer by id, JSON.")
    na_prob_thresh: float = flag(1.0, "Threshold of no answer.", needs="na_prob")


def main(arguments):
    questions = squad.read(arguments.dev_file)
    predictions = _read_by_id(arguments.predictions, str)
    no_answer = None
    if arguments.na_prob:
        no_answer = _read_by_id(arguments.na_prob, int | float)
    missing = [name for name in questions.ids if name not in predictions]
    _tell_count(missing, "question(s) have no prediction and count as 0")
    unknown = sorted(predictions.keys() - set(questions.ids))
    _tell_count(unknown, "prediction(s) match no question in the file")
    scores = squad_metrics.score(questions, predictions, no_answer, arguments.na_prob_thresh)
    print(json_text(scores, indent=2, ensure_ascii=True))


def _read_by_id(path, value_type):
    """Returns the object of a JSON file, whose values all have a type: `str`, or that of numbers."""
    try:
        values = json.loads(pathlib.Path(path).read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{path}: not a JSON file: {error}") from None
    expected = "a string" if value_type is str else "a number"
    wrong = []
    if isinstance(values, dict):
        for name, value in values.items():
            if not isinstance(value, value_type):
                wrong.append({name: value})
    else:
        wrong.append(values)
    if wrong:
        raise ValueError(f"{path}: expected an object with {expected} for each id. Received: {wrong[0]!r:.80}")
    return values


def _tell_count(names, what):
    """Prints how many questions or predictions there are of a kind, and the first of them."""
    if names:
        print(f"{len(names)} {what}, the first is {names[0]}", file=sys.stderr)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, tensorflow=False)

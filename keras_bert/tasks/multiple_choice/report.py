"""Report sections about a multiple-choice model on dev."""

import numpy as np

from keras_bert.reports import page
from keras_bert.reports.calibration import calibration_section
from keras_bert.reports.lengths import length_section, share_bar
from keras_bert.tasks.logits import softmax
from keras_bert.tasks.multiple_choice.predictions import predict

_HARDEST = 20
_MANY = 12  # Maximum number of choices of a table of positions.


def choice_sections(keys, examples, logits, lengths):
    """Returns HTML sections about a multiple-choice model.

    Args:
        keys: list of the labels of the choices.
        examples: the `ChoiceExamples` of dev.
        logits: array `(rows, choices)`.
        lengths: number of tokens of the longest choice of each row, with its text.
    """
    judged = _judged(examples, logits)
    right = judged["right"]
    hardest = np.argsort(-judged["losses"], kind="stable")[:_HARDEST]
    counts = np.array(examples.counts())
    return [
        page.render(
            "tasks/multiple_choice/report.html",
            accuracy=f"{right.sum():,} of {len(right):,} are correct, {page.percent(right.mean())}.",
            positions=_positions(keys, judged) if judged["shares"].shape[1] <= _MANY else [],
            counts=[[str(count), *_accuracy(counts == count, right), _chance(count)] for count in np.unique(counts)],
        ),
        calibration_section(judged["confidence"], right),
        length_section(lengths, ~right),
        page.render(
            "tasks/multiple_choice/hardest_choices.html",
            hardest=[_example(keys, examples, judged, row) for row in hardest],
        ),
    ]


def choice_errors(keys, examples, logits):
    """Returns the wrong predictions as rows of a table, the header first, the most confident at the top."""
    judged = _judged(examples, logits)
    wrong = np.flatnonzero(~judged["right"])
    wrong = wrong[np.argsort(-judged["confidence"][wrong], kind="stable")]
    columns = ["row", "true", "predicted", "probability", "loss", "text", "right choice", "predicted choice"]
    return [columns, *(_error(keys, examples, judged, row) for row in wrong)]


def _judged(examples, logits):
    """Returns arrays with a value for each row of dev: `labels`, `predicted`, `shares`, `confidence`, ..."""
    labels, shares, predicted = np.array(examples.labels), softmax(logits), predict(logits)
    rows = np.arange(len(labels))
    with np.errstate(divide="ignore"):
        losses = -np.log(shares[rows, labels])
    confidence, right = shares[rows, predicted], predicted == labels
    return dict(labels=labels, shares=shares, predicted=predicted, losses=losses, confidence=confidence, right=right)


def _positions(keys, judged):
    """Returns table rows: how often each position is right, how often it is predicted, accuracy where it is right."""
    labels, predicted = judged["labels"], judged["predicted"]
    numbers = range(judged["shares"].shape[1])
    return [
        [keys[number], *_accuracy(labels == number, judged["right"]), f"{(predicted == number).sum():,}"]
        for number in numbers
    ]


def _accuracy(chosen, right):
    """Returns the number of chosen rows, and their accuracy as a bar."""
    return f"{chosen.sum():,}", share_bar(right[chosen].mean()) if chosen.any() else page.NOTHING


def _chance(count):
    return page.percent(1 / count, 1)


def _example(keys, examples, judged, row):
    """Returns the template's values for a row; its choices are sorted by probability."""
    shares = judged["shares"][row]
    places = [place for place, choice in enumerate(examples.choices[row]) if choice]
    places.sort(key=lambda place: -shares[place])
    return {
        "row": examples.ids[row],
        "text": examples.text[row],
        "loss": judged["losses"][row],
        "right": judged["right"][row],
        "true": keys[judged["labels"][row]],
        "predicted": keys[judged["predicted"][row]],
        "choices": [
            [keys[place], examples.choices[row][place], share_bar(shares[place]), place == judged["labels"][row]]
            for place in places
        ],
    }


def _error(keys, examples, judged, row):
    label, predicted = judged["labels"][row], judged["predicted"][row]
    numbers = [f"{judged[name][row]:.6g}" for name in ("confidence", "losses")]
    choices = examples.choices[row]
    cells = [examples.ids[row] + 1, keys[label], keys[predicted], *numbers, examples.text[row]]
    return [*cells, choices[label], choices[predicted]]

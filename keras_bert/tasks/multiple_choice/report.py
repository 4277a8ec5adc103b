"""Report sections about a multiple-choice model on dev."""

import numpy as np

from keras_bert.reports import page
from keras_bert.reports.sections import calibration_section, length_section, share_bar
from keras_bert.tasks.classification.report import judge

_MANY = 12  # Maximum number of choices of a table of positions.


def choice_report(keys, examples, logits, lengths):
    """Returns HTML sections about a multiple-choice model, and the wrong predictions as rows of `errors.tsv`.

    `keys` are the labels of the choices, `examples` those of dev, `logits` `(rows, choices)`; `lengths` are the tokens
    of the longest choice of each row, with its text.
    """
    judged = judge(examples.labels, logits)
    right, counts = judged.right, np.array(examples.counts())
    sections = [
        page.render(
            "tasks/multiple_choice/report.html",
            accuracy=f"{right.sum():,} of {len(right):,} are correct, {page.percent(right.mean())}.",
            positions=_positions(keys, judged) if judged.shares.shape[1] <= _MANY else [],
            counts=[[str(count), *_accuracy(counts == count, right), _chance(count)] for count in np.unique(counts)],
        ),
        calibration_section(judged.confidence, right),
        length_section(lengths, ~right),
        page.render(
            "tasks/multiple_choice/hardest_choices.html",
            hardest=[_example(keys, examples, judged, row) for row in judged.hardest()],
        ),
    ]
    columns = ["row", "true", "predicted", "probability", "loss", "text", "right choice", "predicted choice"]
    return sections, [columns, *(_error(keys, examples, judged, row) for row in judged.wrong())]


def _positions(keys, judged):
    """Returns table rows: how often each position is right, how often it is predicted, accuracy where it is right."""
    return [
        [keys[number], *_accuracy(judged.targets == number, judged.right), f"{(judged.predictions == number).sum():,}"]
        for number in range(judged.shares.shape[1])
    ]


def _accuracy(chosen, right):
    """Returns the number of chosen rows, and their accuracy as a bar."""
    return f"{chosen.sum():,}", share_bar(right[chosen].mean()) if chosen.any() else page.NOTHING


def _chance(count):
    return page.percent(1 / count, 1)


def _example(keys, examples, judged, row):
    """Returns the template's values for a row; its choices are sorted by probability."""
    shares, label = judged.shares[row], judged.targets[row]
    places = [place for place, choice in enumerate(examples.choices[row]) if choice]
    places.sort(key=lambda place: -shares[place])
    return {
        "row": examples.ids[row],
        "text": examples.text[row],
        "true": keys[label],
        "predicted": keys[judged.predictions[row]],
        "choices": [
            [keys[place], examples.choices[row][place], share_bar(shares[place]), place == label] for place in places
        ],
        **judged.numbers(row),
    }


def _error(keys, examples, judged, row):
    label, predicted = judged.targets[row], judged.predictions[row]
    numbers = [f"{value:.6g}" for value in (judged.confidence[row], judged.losses[row])]
    choices = examples.choices[row]
    cells = [examples.ids[row] + 1, keys[label], keys[predicted], *numbers, examples.text[row]]
    return [*cells, choices[label], choices[predicted]]

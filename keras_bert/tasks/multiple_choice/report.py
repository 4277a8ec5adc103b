"""What a report shows about multiple choice: positions, numbers of choices, and the choices of the hardest rows."""

import dataclasses
from typing import Any

import numpy as np

from keras_bert.reports import page
from keras_bert.reports.judged import COUNTED, LOOK, Judged
from keras_bert.reports.sections import share_bar
from keras_bert.tasks.logits import softmax

_MANY = 12  # Maximum number of choices of a table of positions.


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedChoices(Judged):
    """Judged `ChoiceExamples`; the `names` are the labels of the choices, `shares` their probabilities."""

    examples: Any
    shares: Any

    wrong_first = False
    how = "The {shown} with the highest loss (cross-entropy), the highest first, with the probabilities of their "
    how += "choices: " + LOOK.format("wrong labels") + COUNTED

    def overview(self):
        right, counts = self.right, np.array(self.examples.counts())
        return [
            page.render(
                "tasks/multiple_choice/report.html",
                accuracy=f"{right.sum():,} of {len(right):,} are correct, {page.percent(right.mean())}.",
                positions=self._positions() if self.shares.shape[1] <= _MANY else [],
                counts=[
                    [str(count), *self._accuracy(counts == count), page.percent(1 / count, 1)]
                    for count in np.unique(counts)
                ],
            )
        ]

    def _positions(self):
        """Returns table rows: how often each position is right, accuracy where it is, how often it is predicted."""
        golds, predicted = np.array(self.gold), np.array(self.predicted)
        names = self.names[: self.shares.shape[1]]
        return [[name, *self._accuracy(golds == name), f"{(predicted == name).sum():,}"] for name in names]

    def _accuracy(self, chosen):
        """Returns the number of chosen rows, and their accuracy as a bar."""
        return f"{chosen.sum():,}", share_bar(self.right[chosen].mean()) if chosen.any() else page.NOTHING

    def paragraphs(self, row):
        places = [place for place, choice in enumerate(self.examples.choices[row]) if choice]
        places.sort(key=lambda place: -self.shares[row, place])
        choices = [
            (self.names[place], self.examples.choices[row][place], share_bar(self.shares[row, place]))
            for place in places
        ]
        options = page.render("tasks/multiple_choice/options.html", choices=choices, right=self.gold[row])
        return [("question", self.examples.text[row]), ("", options)]

    def columns(self):
        place = {name: number for number, name in enumerate(self.names)}
        sides = {"right choice": self.gold, "predicted choice": self.predicted}
        choices = {
            title: [row[place[name]] for row, name in zip(self.examples.choices, names, strict=True)]
            for title, names in sides.items()
        }
        return {**super().columns(), "text": self.examples.text, **choices}


def judge_choices(keys, examples, logits, lengths):
    """Judges `ChoiceExamples`, given the labels of the choices, logits `(rows, choices)` and the tokens of each row."""
    fields = {"place": [row + 1 for row in examples.ids], "length": lengths, "examples": examples}
    return JudgedChoices.of_classes(keys, examples.labels, logits, shares=softmax(logits), **fields)

"""Judged predictions of a task that states only what is right, what is predicted and the loss."""

import math
import re

from keras_bert.reports.judged import Judged


def heads(sections):
    return [re.sub("<.+?>", "", head) for head in re.findall('<p class="head">(.+?)</p>', sections[-1])]


def test_the_least():
    judged = Judged(gold=["b", "a", "c"], predicted=["a", "a", "a"], loss=[1.5, 9.0, math.nan])
    sections, errors = judged.report()
    names = re.findall("<h2>(.+?)</h2>", "".join(sections))
    assert names == ["Confusion matrix", "Classes", "Hardest examples of dev"]
    # Wrong rows come first, a loss that is not a number before all others.
    assert heads(sections) == [
        "row 3 · true c · predicted a · loss nan",
        "row 1 · true b · predicted a · loss 1.5",
        "row 2 · true a · predicted a · loss 9 · correct",
    ]
    assert errors == [["row", "true", "predicted", "loss"], [3, "c", "a", "nan"], [1, "b", "a", "1.5"]]


def test_a_text_that_a_row_lacks_is_an_empty_cell():
    judged = Judged(gold=["b", "a"], predicted=["a", "a"], loss=[1.5, 0.1], texts={"wrong": ["c", None]})
    assert judged.table()["wrong"] == ["c", ""]


class Rare(Judged):
    """Shows wrong rows alone, each text once."""

    title = "Hardest words of dev"
    none = "No word is wrong."
    once = "word"
    how = "The {shown} hardest, of {wrong} that are wrong."

    def overview(self):
        return []

    def paragraphs(self, row):
        return [("question", self.texts["word"][row]), ("", [("gold", "marked", [])])]


def test_a_subclass():
    fields = {"texts": {"word": ["x", "y<", "x", "z"]}, "place": [5, 6, 8, 9]}
    sections, errors = Rare(gold=list("aaaa"), predicted=list("bbba"), loss=[1, 2, 3, 4], **fields).report()
    assert heads(sections) == ["row 8 · true a · predicted b · loss 3", "row 6 · true a · predicted b · loss 2"]
    assert "The 2 hardest, of 3 of 4 that are wrong." in sections[0]
    assert '<p dir="auto" class="question">y&lt;</p>' in sections[0]
    assert '<mark class="gold">marked</mark>' in sections[0]
    assert [row[0] for row in errors] == ["row", 8, 6, 5]
    (section,), errors = Rare(gold=["a"], predicted=["a"], loss=[1], texts={"word": ["x"]}).report()
    assert "No word is wrong." in section
    assert errors == [["row", "true", "predicted", "loss", "word"]]

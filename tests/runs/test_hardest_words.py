"""The section "Words of the hardest examples": which rows, which target, and what `explain` tells of them."""

import re
import types
import xml.etree.ElementTree

import numpy as np
import pytest

pytest.importorskip("tensorflow")
import keras_bert
from keras_bert.reports.judged import Judged
from keras_bert.runs import hardest_words
from keras_bert.tasks.classification.multi_label_task import judge_sets
from keras_bert.tasks.multiple_choice.task import JudgedChoices
from keras_bert.tasks.tagging.metrics import PredictedSentence
from keras_bert.tasks.tagging.report import judge_tags

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
TEXTS = ["ab c", "d e f", "g h", " ", "i", "a i", "b i", "c i", "d i"]
LABELS = ["x", "y", "z"]


@pytest.fixture
def saved(build, pieces, tmp_path):
    """Returns a loaded model with a head, by its name."""

    def load(head, **options):
        keras_bert.save(build(head), tmp_path, pieces, overwrite=True, **options)
        return keras_bert.load(tmp_path)

    return load


def items_of(section):
    """Returns the texts of the examples of a section."""
    found = xml.etree.ElementTree.fromstring(section)
    return [" ".join("".join(item.itertext()).split()) for item in found.find(".//ol")]


def scores_of(section):
    return [float(text) for text in re.findall(r'data-score="(.*?)"', section)]


def judged(**fields):
    losses = [9.0, 8, 7, 6, 5, 4, 3, 2, 1]
    return Judged(gold=["x"] * 9, predicted=["y"] * 9, loss=losses, texts={"text": TEXTS}, **fields)


def test_the_hardest_rows_that_can_be_afforded(saved, monkeypatch):
    """One without words is left out, and one that takes 20 times 20 tokens if 100 may be computed."""
    bert = saved("classification", labels=LABELS, sequence_length=20)
    lengths = [5, 5, 21, 2, 3, 4, 4, 4, 4]
    monkeypatch.setattr(hardest_words, "_FEWEST", 100)
    section = hardest_words.section(bert, judged(length=lengths), [])
    heads = [item.split(" · ")[0] for item in items_of(section)]
    assert heads == ["row 1", "row 2", "row 5", "row 6", "row 7"]
    assert "at most 100 tokens" in section
    explained = bert.explain([TEXTS[row] for row in (0, 1, 4, 5, 6)])
    expected = []
    for each in explained:
        expected += [round(word["score"], 2) for word in each["words"]]
    np.testing.assert_allclose(scores_of(section), expected, atol=0.0051)
    assert f"{explained[0]['target']} {explained[0]['value']:.2f}; with [MASK]" in items_of(section)[0]
    # With more tokens, a quarter of those of the training data, the long one is there.
    split = [types.SimpleNamespace(lengths=np.array([1500, 500])), types.SimpleNamespace(lengths=np.array([2000]))]
    heads = [item.split(" · ")[0] for item in items_of(hardest_words.section(bert, judged(length=lengths), split))]
    assert heads == ["row 1", "row 2", "row 3", "row 5", "row 6"]


def test_targets(saved):
    """Of several labels the worst one, of tags the first wrong word."""
    bert = saved("multi_label", labels=LABELS, sequence_length=20)
    logits = np.array([[3.0, 2.0, -1.0], [-5.0, -3.0, -4.0]])
    sets = judge_sets(LABELS, [[0, 0, 1], [0, 1, 1]], logits, 0.5, texts={"text": TEXTS[:2]})
    assert [sets.asked(row) for row in (0, 1)] == [("ab c", 0), ("d e f", 2)]
    assert re.findall(r"<b>(\w) -?\d", hardest_words.section(bert, sets, [])) == ["z", "x"]

    bert = saved("token_classification", labels=["O", *"abcdefgh"])
    words = ["ab", "c", "d"]
    row = PredictedSentence(
        line=1,
        text="ab c d",
        words=[(0, 2), (3, 4), (5, 6)],
        golds=["O", "a", "b"],
        predictions=["O", "O", "O"],
        confidences=[0.5] * 3,
        loss=1.0,
        tokens=6,
        tags=[("O", "O", 0.1), ("a", "O", 1.0), ("b", "O", 1.0)],
        lines=[1, 2, 3],
        given_words=words,
    )
    section = hardest_words.section(bert, judge_tags([row], ["O", "a", "b"]), [])
    (expected,) = bert.explain([words], 1)
    np.testing.assert_allclose(scores_of(section), [word["score"] for word in expected["words"]], atol=0.0051)
    assert f"c: {expected['target']} " in items_of(section)[0]


def test_choices(saved):
    examples = type("Examples", (), {"text": ["a b"], "choices": [["c", "", "d e"]]})()
    fields = {"gold": ["A"], "predicted": ["B"], "loss": [1.0], "names": ["A", "B", "C"]}
    found = JudgedChoices(**fields, examples=examples, shares=np.ones([1, 3]) / 3, length=[6])
    for reading in ({}, {"long_texts": "windows"}):
        bert = saved("multiple_choice", sequence_length=20, **reading)
        assert len(scores_of(hardest_words.section(bert, found, []))) in (3, 4)


def test_nothing_to_explain(saved):
    assert hardest_words.section(saved("question_answering"), judged(), [None]) == ""
    bert = saved("classification")
    assert hardest_words.section(bert, None, [None]) == ""
    assert hardest_words.section(bert, Judged(gold=["x"], predicted=["y"], loss=[1.0]), []) == ""

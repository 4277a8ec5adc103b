"""Report sections about multiple choice, compared with hand-computed numbers."""

import numpy as np
import pytest

from keras_bert.tasks.multiple_choice.data import ChoiceExamples
from keras_bert.tasks.multiple_choice.report import judge_choices
from tests.runs.parsed import having, page_of, rows_of, text_of

pytestmark = pytest.mark.tensorflow
EXAMPLES = ChoiceExamples(
    text=["Why <b>?", "Who?", "When?"],
    choices=[["rain", "sun", "wind"], ["he", "", "she"], ["now", "then"]],
    labels=[1, 0, 0],
    lines=[2, 4, 5],
    ids=[0, 2, 3],
)
SHARES = np.array([[0.7, 0.2, 0.1], [0.9, 0.0, 0.1], [0.4, 0.6, 0.0]])
KEYS = ["A", "B", "C"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    logits = np.where(SHARES > 0, np.log(np.maximum(SHARES, 1e-9)), -1e9)
    judged = judge_choices(KEYS, EXAMPLES, logits, [4, 5, 6])
    return page_of(tmp_path_factory.mktemp("report"), judged, "accuracy")


def words(element):
    return " ".join(text_of(element).split())


def test_positions_and_numbers_of_choices(page):
    section = page.sections["Choices"]
    positions, counts = (table.find("tbody") for table in having(section, "list", "table"))
    assert [[text_of(cell) for cell in row] for row in positions] == [
        ["A", "2", "50.0%", "2"],
        ["B", "1", "0.0%", "1"],
        ["C", "0", "–", "0"],
    ]
    assert [[text_of(cell) for cell in row] for row in counts] == [
        ["2", "2", "50.0%", "50.0%"],
        ["3", "1", "0.0%", "33.3%"],
    ]
    assert "1 of 3 are correct, 33.33%." in text_of(section)
    assert rows_of(page.sections["Calibration"], "list")[-2] == ["80 to 90%", "1", "90.00%", "100.00%"]


def test_hardest_examples_with_their_choices(page):
    first, _, last = page.hard()
    assert (
        words(first)
        == "row 1 · true B · predicted A with 70.0% · loss 1.61 Why <b>? 70.0% A rain 20.0% B sun right 10.0% C wind"
    )
    # The absent choice is not listed.
    assert (
        words(last)
        == "row 3 · true A · predicted A with 90.0% · loss 0.105 · correct Who? 90.0% A he right 10.0% C she"
    )


def test_errors():
    logits = np.log(np.maximum(SHARES, 1e-9))
    header, *rows = judge_choices(KEYS, EXAMPLES, logits, [4, 5, 6]).report()[1]
    assert header == ["row", "true", "predicted", "probability", "loss", "text", "right choice", "predicted choice"]
    assert [[*row[:3], *row[5:]] for row in rows] == [
        [1, "B", "A", "Why <b>?", "sun", "rain"],
        [4, "A", "B", "When?", "now", "then"],
    ]
    assert [row[3] for row in rows] == ["0.7", "0.6"]

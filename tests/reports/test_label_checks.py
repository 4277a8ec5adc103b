"""The order of labels, by sorting in Python; losses of a user's task without judged predictions."""

import types

import numpy as np
import pytest

from keras_bert.reports.label_checks import JudgedLabel, ranked, section
from keras_bert.tasks.reporting import Report


def check(row, label, loss, text="", word=None):
    return JudgedLabel(row=row, label=label, predicted="x", loss=loss, place=row + 1, text=text, word=word)


def test_repeated_texts_with_different_labels_come_first():
    rows = [("a", ["x"], 0.1), ("b", ["y"], 9.0), ("a", ["x", "y"], 0.3), ("c", ["x"], float("nan")), ("c", ["x"], 1.0)]
    checks = [check(row, label, loss, text) for row, (text, label, loss) in enumerate(rows)]
    found = ranked(checks, [text for text, *_ in rows])
    assert [each.row for each in found] == [2, 0, 3, 1, 4]
    assert [each.same_text for each in found] == [(0,), (2,), (), (), ()]
    assert [each.row for each in ranked(checks)] == [3, 1, 4, 2, 0]


def test_words_are_compared_at_their_places():
    checks = [check(0, "A", 1.0, "u v", 0), check(0, "B", 2.0, "u v", 1), check(1, "A", 0.5, "u v", 0)]
    checks.append(check(1, "C", 0.2, "u v", 1))
    found = ranked(checks, ["u v"] * 4)
    assert [(each.row, each.word) for each in found] == [(0, 1), (1, 1), (0, 0), (1, 0)]


def test_many_repeated_texts():
    checks = [check(row, "xy"[row % 2], row, "same") for row in range(20_000)]
    found = ranked(checks, ["same"] * 20_000)
    assert found[0].row == 19_999
    assert len(found[0].same_text) == 20


def test_section():
    html = section([check(0, ["<b>", "y"], 0.5, "A <i>text"), check(1, 2.5, 0.25, "other")], "line", "rows.csv")
    assert "&lt;b&gt;, y" in html
    assert "A &lt;i&gt;text" in html
    assert html.index("line\N{NO-BREAK SPACE}1") < html.index("line\N{NO-BREAK SPACE}2")
    assert "rows.csv" in html


class OwnReport(Report):
    """A report that judges nothing."""

    metric = "none"

    def score(self, targets, outputs):
        return {}

    def judge(self, kept):
        return None

    def outputs(self, split, kept):
        return {"vector": kept["dev"]}


def own_task(values, together=False):
    loss = types.SimpleNamespace(name="own", together=together, values=values)
    split = types.SimpleNamespace(name="dev", examples=["a", "b", "c"], targets=np.array([[1, 0], [0, 1], [1, 1]]))
    task = types.SimpleNamespace(name="own", splits={"dev": [split]}, training=types.SimpleNamespace(losses=[loss]))
    return OwnReport(task), {"dev": np.array([[1.0, 0.0], [2.0, 2.0], [1.0, 0.0]])}


def test_a_loss_of_the_user_ranks_rows():
    report, kept = own_task(lambda targets, outputs: (targets - outputs["vector"]) ** 2)
    found = report.label_checks(kept)
    assert [(each.row, each.label, each.loss) for each in found] == [(1, [0, 1], 2.5), (2, [1, 1], 0.5), (0, [1, 0], 0)]


@pytest.mark.parametrize("together", [True, False])
def test_a_loss_without_a_value_for_each_row_is_said(together):
    report, kept = own_task(lambda targets, outputs: np.float64(1.0), together)
    with pytest.raises(ValueError, match="labels of the task own cannot be ranked: its loss own has no value for each"):
        report.label_checks(kept)

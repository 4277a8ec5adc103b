"""A task's classes as arrays, and the table of its predictions as other programs read it."""

import csv
import io

import numpy as np
import pytest

from keras_bert.tasks.classification import Task, predictions_table, score
from keras_bert.training.metrics import accuracy

LABELS = ["a\tb", "c\nd", "e\r\nf", '"g" h', 'i "j"', "\x00\x0b\x85\u2028", " k ", "\\t"]


@pytest.mark.parametrize("labels", [LABELS, np.array(LABELS), ["no", "yes"]])
def test_labels_of_any_kind_read_back(labels):
    logits = np.log(np.eye(len(labels)) * 0.5 + 0.5 / len(labels))
    lines = predictions_table(logits, labels)
    header, *rows = csv.reader(io.StringIO("\n".join(lines) + "\n", newline=""), "excel-tab")
    assert header == ["label", *labels]
    assert [row[0] for row in rows] == list(labels)
    np.testing.assert_allclose([[float(cell) for cell in row[1:]] for row in rows], np.exp(logits), atol=5e-5)
    assert (lines[0] == "label\tno\tyes") == (len(labels) == 2)  # What needs no quotes has none.


def test_classes_as_an_array():
    task = Task("own", "Own", "text", None, "label", np.array(["no", "yes"]), (accuracy,))
    assert (task.labels, task.num_classes) == (("no", "yes"), 2)
    assert score(task, np.array([0, 1]), np.array([[1.0, 0.0], [2.0, 0.0]])) == {"accuracy": 0.5}

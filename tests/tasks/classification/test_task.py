"""The data of the GLUE tasks: from the official files to scores and submissions, without training."""

import dataclasses
import functools
from unittest import mock

import numpy as np
import pytest

import keras_bert
from keras_bert.reports import comparisons
from keras_bert.tasks.base import Start
from keras_bert.tasks.classification import glue
from keras_bert.tasks.classification.settings import ClassificationSettings
from keras_bert.tasks.classification.task import ClassificationTask
from tests.tasks.classification.glue_files import WORDS, write_diagnostics, write_task

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
TASKS = ["cola", "mnli", "stsb", "wnli"]  # Each kind of files; test_glue.py reads those of all tasks.


@pytest.fixture(scope="module")
def bert(checkpoint):
    bert = keras_bert.load(checkpoint)
    with mock.patch.object(bert, "preprocessor", functools.cache(bert.preprocessor)):  # Trace it once.
        yield bert


def right(part, classes):
    """Returns logits of correct predictions."""
    return np.eye(classes)[part.labels] * 9 if classes > 1 else np.array(part.labels)[:, None]


@pytest.mark.parametrize("name", TASKS)
def test_official_files_to_submission(bert, tmp_path, name):
    for task in [glue.TASKS[name], *([glue.TASKS["mnli_mismatched"], glue.TASKS["ax"]] if name == "mnli" else [])]:
        write_task(tmp_path, task)
    write_diagnostics(tmp_path / "diagnostic-full.tsv")
    data = glue.read_all(glue.TASKS[name], tmp_path, diagnostics=tmp_path / "diagnostic-full.tsv")
    data = dataclasses.replace(data, submissions=tmp_path / "submission")
    task = ClassificationTask(data, Start("start", bert), ClassificationSettings(sequence_length=16))

    (stage,) = task.training.stages({})
    inputs, labels = stage.examples()
    assert inputs["token_ids"].shape[0] == len(labels) == len(WORDS)
    assert any(map(any, inputs["segment_ids"].to_list())) == (data.task.pair is not None)
    classes = len(data.task.labels)
    assert labels.tolist() == [row % classes if classes else row % 6 + 0.5 for row in range(len(WORDS))]
    assert task.training.build(bert).output["logits"].shape == (None, classes or 1)
    names = "task model labels sequence_length class_weight train dev test content"
    assert set(task.run_settings) == set(names.split())

    dev = {part: right(examples, classes or 1) for part, examples in data.dev.items()}
    test = {part: np.roll(np.eye(classes or 1), 1, 0)[np.arange(12) % (classes or 1)] for part in data.test}
    findings = task.report.conclude(dev, test, tmp_path)
    scores = findings.results["scores"]
    assert list(scores) == ([name] if name != "mnli" else ["mnli", "mnli_mismatched", "ax"])
    assert {round(value, 6) for values in scores.values() for value in values.values()} == {1.0}
    assert ("diagnostics" in findings.results) == (name == "mnli")
    with mock.patch.object(comparisons, "_REGISTERED", [lambda *given: ({"Tiny": list(given[1])}, ["| a table |"])]):
        compared = task.report.conclude(dev, test, tmp_path)
        assert (compared.facts["Tiny"], compared.tables[0]) == (list(scores), "| a table |")
    for part in data.test:
        task = glue.TASKS[part]
        lines = (tmp_path / "submission" / task.server_file).read_text().splitlines()
        predicted = [task.strings[(row - 1) % classes] for row in range(12)] if classes else ["1.000"] * 12
        assert lines == ["index\tprediction", *(f"{row}\t{label}" for row, label in enumerate(predicted))]

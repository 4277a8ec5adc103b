"""The data of the GLUE tasks: from the official files to scores and submissions, without training."""

import dataclasses
import functools
import types
from unittest import mock

import numpy as np
import pytest

import keras_bert
from keras_bert.reports.comparisons import register_comparison
from keras_bert.tasks.base import Start
from keras_bert.tasks.classification import glue
from keras_bert.tasks.classification.examples import TaskSpec
from keras_bert.tasks.classification.settings import ClassificationSettings
from keras_bert.tasks.classification.task import ClassificationTask, check_teacher
from keras_bert.training.metrics import accuracy
from tests.tasks.classification.glue_files import WORDS, write_diagnostics, write_task

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
# Each kind of files, and the dev sets of each task; test_glue.py reads those of all tasks.
DEV_SETS = {
    "cola": ["cola"],
    "mnli": ["mnli", "mnli_mismatched", "ax"],
    "stsb": ["stsb"],
    "wnli": ["wnli"],
}
SETTINGS = ["task", "model", "labels", "sequence_length", "class_weight"]
SETTINGS += ["train", "dev", "test", "content"]
ROWS = np.arange(len(WORDS))


@pytest.fixture(scope="module")
def bert(checkpoint):
    bert = keras_bert.load(checkpoint)
    with mock.patch.object(bert, "preprocessor", functools.cache(bert.preprocessor)):  # Trace it once.
        yield bert


@pytest.fixture
def make_task(bert, tmp_path):
    """Returns a function that makes one of GLUE's tasks, from files in the official layout."""

    def make(name):
        for dev_set in DEV_SETS[name]:
            write_task(tmp_path, glue.TASKS[dev_set])
        diagnostics = tmp_path / "diagnostic-full.tsv"
        write_diagnostics(diagnostics)
        data = glue.read_all(glue.TASKS[name], tmp_path, diagnostics=diagnostics)
        data = dataclasses.replace(data, submissions=tmp_path / "submission")
        settings = ClassificationSettings(sequence_length=16)
        return ClassificationTask(data, Start("start", bert), settings)

    return make


def right(labels, classes):
    """Returns logits of correct predictions."""
    if classes:
        return np.eye(classes)[labels] * 9
    return np.array(labels)[:, None]


def written_labels(task):
    """Returns the labels of the rows of `write_task` and, of predictions of the class after each one, their lines."""
    classes = len(task.labels)
    if not classes:
        return ROWS % 6 + 0.5, ["1.000"] * len(ROWS)
    labels = ROWS % classes
    return labels, [task.strings[label - 1] for label in labels]


@pytest.mark.parametrize("name", DEV_SETS)
def test_official_files_to_submission(make_task, tmp_path, name):
    task = make_task(name)
    spec = task.data.task
    classes = len(spec.labels)
    (stage,) = task.training.stages({})
    inputs, labels = stage.examples()
    assert inputs["token_ids"].shape[0] == len(WORDS)
    has_pairs = any(map(any, inputs["segment_ids"].to_list()))
    assert has_pairs == (spec.pair is not None)
    expected, _ = written_labels(spec)
    np.testing.assert_array_equal(labels, expected)
    assert task.training.build(task.bert).output["logits"].shape == (None, classes or 1)
    assert set(task.run_settings) == set(SETTINGS)

    dev = {}
    for part, examples in task.data.dev.items():
        dev[part] = right(examples.labels, classes)
    test = {}
    for part in task.data.test:  # Each row has the class before its own.
        test[part] = np.roll(np.eye(classes or 1), 1, 0)[ROWS % (classes or 1)]
    findings = task.report.conclude(dev, test, tmp_path)
    scores = findings.results["scores"]
    assert list(scores) == DEV_SETS[name]
    for values in scores.values():
        assert values == pytest.approx(dict.fromkeys(values, 1.0))
    assert ("diagnostics" in findings.results) == (name == "mnli")
    for part in task.data.test:
        official = glue.TASKS[part]
        _, predicted = written_labels(official)
        lines = [f"{row}\t{label}" for row, label in enumerate(predicted)]
        submitted = tmp_path / "submission" / official.server_file
        assert submitted.read_text().splitlines() == ["index\tprediction", *lines]


def test_comparisons_get_the_scores(make_task, tmp_path):
    def compare(task, scores, test_scores):
        return {"Tiny": list(scores)}, ["| a table |"]

    register_comparison(compare)
    task = make_task("wnli")
    dev = {"wnli": right(task.data.dev["wnli"].labels, 2)}
    findings = task.report.conclude(dev, {"wnli": dev["wnli"]}, tmp_path)
    assert findings.facts["Tiny"] == ["wnli"]
    assert "| a table |" in findings.tables


@pytest.fixture(scope="module")
def classifier(tmp_path_factory, config, pieces):
    """A classifier of two classes without any training."""
    folder = tmp_path_factory.mktemp("classifier")
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 2)
    keras_bert.save(model, folder, pieces)
    return keras_bert.load(folder)


def test_a_pair_that_fits_is_read_whole_among_windows(classifier):
    """However the tokens are divided between its texts."""
    pairs = [("a b c d e f g", "h i"), ("a", "b c d e f g h i")]
    longer = ("a b c d e f g h i", "j k l m n")
    options = {"sequence_length": 12, "logits": True}
    whole = classifier.predict(pairs, **options)
    *found, cut = classifier.predict([*pairs, longer], long_texts="windows", overlap=2, **options)
    for answer, expected in zip(found, whole, strict=True):
        np.testing.assert_allclose(answer["logits"], expected["logits"], atol=1e-6)
    # Of a first text that is cut, answers tell it.
    assert cut["tokens"] == 17
    assert cut["tokens_read"] == 12


SPEC = TaskSpec("t", "T", "text", None, "label", ("x", "y"), (accuracy,))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"head": "question_answering"}, "a model with the head 'question_answering'. Expected a classifier"),
        ({"score_activation": "sigmoid"}, "its scores are sigmoids of the logits that a student learns"),
        ({"multi_label": True}, "a classifier with several labels per text. Expected a classifier for T"),
        ({"labels": ["y", "x"]}, "labels y, x. Expected a classifier for T"),
    ],
)
def test_wrong_teachers(facts, message):
    known = {"head": "classification", "multi_label": False, "labels": ["x", "y"], "pair": None}
    graph = types.SimpleNamespace(output={"logits": np.zeros([1, 2])})
    teacher = types.SimpleNamespace(model=lambda: graph, **(known | facts))
    with pytest.raises(ValueError, match="`teacher=it`: .*Expected") as error:
        check_teacher(teacher, "it", SPEC)
    assert str(error.value).startswith(f"`teacher=it`: {message}")

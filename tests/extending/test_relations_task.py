"""A task in a user's own file keeps the promises of the built-in ones, by public names alone."""

import json

import numpy as np
import pytest
import scipy.special

import keras_bert
from tests.conftest import eagerly
from tests.extending.conftest import FOLDER, registered
from tests.pipelines.programs import call, run

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

ROWS = [
    {"text": "a b c d", "subject": [0, 1], "object": [4, 5]},
    {"text": "c é d e f", "subject": [8, 9], "object": [2, 3]},
    {"text": "g h i", "subject": [4, 5], "object": [0, 1]},
    {"text": "i j k l m", "subject": [0, 3], "object": [8, 9]},
]
LABELS = ["owns", "founded", "owns", "founded"]
MARKED = ["! a ! b ? c ? d", "c ? é ? d e ! f !", "? g ? h ! i !", "! i j ! k l ? m ?"]
LABELED_ROWS = [{**row, "label": label} for row, label in zip(ROWS, LABELS, strict=True)]
OPTIONS = {"epochs": 1, "markers": "!?", "sequence_length": 24, "verbose": False}


@pytest.fixture(scope="module", autouse=True)
def user():
    """The module with the task, which is registered during these tests alone."""
    with registered("relations_task") as module:
        yield module


@pytest.fixture(scope="module")
def bert(user, checkpoint):
    """A model after one epoch."""
    with eagerly():
        return keras_bert.load(checkpoint).fit(ROWS, LABELS, **OPTIONS)


@pytest.fixture(scope="module")
def folder(bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("relations") / "model"
    bert.save(folder)
    return folder


@pytest.fixture(scope="module")
def expected(bert):
    """The probabilities of a classifier of the marked texts."""
    logits = bert.model()(bert.preprocessor(24)(MARKED))["logits"].numpy()
    return scipy.special.softmax(logits, -1)


def test_fit(bert):
    assert bert.task == "relations"
    assert bert.task_settings == {"markers": "!?"}
    assert bert.labels == ["founded", "owns"]


def test_predict_after_loading(folder, expected):
    """The spans of rows are marked before they are read."""
    bert = keras_bert.load(folder)
    answers = bert.predict(ROWS)
    for answer, probabilities in zip(answers, expected, strict=True):
        scores = [answer["scores"][label] for label in bert.labels]
        np.testing.assert_allclose(scores, probabilities, atol=1e-5)
    assert bert.predict(ROWS[0])["label"] == answers[0]["label"]
    assert bert.predict(iter(ROWS)) == answers


def test_evaluate_after_loading(folder, expected):
    bert = keras_bert.load(folder)
    best = [bert.labels[number] for number in expected.argmax(-1)]
    assert bert.evaluate(ROWS, best, verbose=False)["accuracy"] == 1

    targets = [bert.labels.index(label) for label in LABELS]
    losses = -np.log(expected[range(len(ROWS)), targets])
    assert bert.evaluate(ROWS, LABELS, verbose=False)["loss"] == pytest.approx(losses.mean(), abs=1e-5)


def test_export(folder, expected, tmp_path):
    """The signature of the task takes texts and their spans."""
    keras_bert.load(folder).export(tmp_path / "export")
    signature = tf.saved_model.load(tmp_path / "export").signatures["relations"]
    outputs = signature(
        text=tf.constant([row["text"] for row in ROWS]),
        subject=tf.constant([row["subject"] for row in ROWS]),
        object=tf.constant([row["object"] for row in ROWS]),
    )
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)


def test_export_at_the_shell(folder, tmp_path, monkeypatch):
    """The command adds the signature with the settings of the model, too."""
    given = {}
    monkeypatch.setitem(vars(keras_bert), "export", lambda *_, **options: given.update(options))
    call("pipelines.export_saved_model", f"--model={folder}", f"--output_dir={tmp_path}/served")
    assert given["add_signatures"].keywords["settings"].markers == "!?"
    assert "relations" in given["add_signatures"]({"serving_default": None})


def test_a_row_without_a_span(bert):
    with pytest.raises(ValueError, match=r"texts\[1\]: `object` must be \[start, end\].*Received: None"):
        bert.predict([ROWS[0], {"text": "a", "subject": [0, 1]}])


def test_spans_that_overlap(checkpoint):
    row = {"text": "a b", "subject": [0, 2], "object": [1, 3]}
    with pytest.raises(ValueError, match=r"texts\[0\]: `subject` and `object` overlap"):
        keras_bert.load(checkpoint).fit([row, row], LABELS[:2], verbose=False)


def test_a_model_whose_task_is_not_registered(folder, monkeypatch):
    """Its rows cannot be read without their settings; its encoder can be used."""
    monkeypatch.setattr("keras_bert.tasks.registry.TASKS", [])
    with pytest.raises(ValueError, match="the task 'relations' of .*not registered.*markers"):
        keras_bert.load(folder).predict(ROWS)
    assert keras_bert.load(folder, head="encoder").encode("a b").shape == (32,)


def test_frames_and_named_columns(user, checkpoint):
    """The columns of the task are read whatever else a data frame may look like, and also those of predictions."""
    pandas = pytest.importorskip("pandas")
    rows = [{**row, "author": "a"} for row in LABELED_ROWS]
    frame = pandas.DataFrame(rows)
    bert = keras_bert.load(checkpoint).fit(frame, "label", **OPTIONS)
    assert bert.task == "relations"
    answers = bert.predict(frame[["text", "subject", "object"]])
    assert answers == bert.predict(ROWS)
    scores = bert.evaluate(ROWS, LABELS, verbose=False)
    assert bert.evaluate(frame, "label", verbose=False) == scores
    assert bert.evaluate(rows, "label", verbose=False) == scores


@pytest.mark.slow
def test_the_command(checkpoint, tmp_path):
    lines = "".join(json.dumps(row) + "\n" for row in LABELED_ROWS)
    (tmp_path / "train.jsonl").write_text(lines)
    (tmp_path / "dev.jsonl").write_text(lines)
    flags = [
        "--task=relations",
        f"--train_file={tmp_path}/train.jsonl",
        f"--dev_file={tmp_path}/dev.jsonl",
        f"--model={checkpoint}",
        f"--output_dir={tmp_path}/run",
        "--epochs=1",
        "--sequence_length=24",
        "--markers=!?",
    ]
    plugins = "--plugins=relations_task"
    before = f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n"
    out, _ = run("pipelines.run_task", plugins, *flags, before=before)
    assert "next:" in out

    bert = keras_bert.load(tmp_path / "run" / "model")
    assert bert.task_settings == {"markers": "!?"}
    made = {path.name for path in (tmp_path / "run").iterdir()}
    assert made >= {"flags.txt", "runs", "results.json", "results.md", "report.html", "saved_model", "errors.tsv"}
    report = (tmp_path / "run" / "report.html").read_text()
    for name in ("Confusion matrix", "Classes", "Calibration", "Errors by length", "Hardest examples of dev"):
        assert f"<h2>{name}</h2>" in report
    errors = (tmp_path / "run" / "errors.tsv").read_text()
    assert errors.startswith('"row"\t"true"\t"predicted"\t"probability"')
    assert "relations" in tf.saved_model.load(tmp_path / "run" / "saved_model" / "1").signatures
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "train.jsonl" in card
    assert "print(bert.predict([{'text': ..., 'subject': ..., 'object': ...}]))" in card

    model_flag = f"--model={tmp_path}/run/model"
    out, _ = run("pipelines.predict", plugins, model_flag, f"--input={tmp_path}/dev.jsonl", before=before)
    _, *lines = out.splitlines()
    chosen = [line.split("\t")[0] for line in lines]
    assert chosen == [answer["label"] for answer in bert.predict(ROWS)]
    _, error = run("pipelines.predict", plugins, model_flag, "a text", before=before, status=2)
    assert "Expected --input" in error

    again, _ = run("pipelines.run_task", f"--flagfile={tmp_path}/run/flags.txt", before=before)
    assert "next:" in again
    _, error = run("pipelines.run_task", plugins, *flags, "--markers=!", before=before, status=2)
    assert error.splitlines()[-1].startswith("error: --markers must be two signs")


@pytest.mark.parametrize("markers", [{"@", "#"}, ["@", float("nan")], {1: 2, 3: 4}, np.array(["@", "#"])])
def test_settings_that_no_checkpoint_keeps(user, checkpoint, markers):
    """The message comes before the training, which would end without a model."""
    with pytest.raises(ValueError, match="the setting `markers` is stored with the model"):
        keras_bert.load(checkpoint).fit(ROWS, LABELS, markers=markers, verbose=False)

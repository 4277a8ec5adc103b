"""A task in a user's own file keeps the promises of the built-in ones, by public names alone."""

import json
import pathlib

import numpy as np
import pytest

import keras_bert
from tests.extending.conftest import registered
from tests.pipelines.programs import call, run

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

from keras_bert.tasks.registry import TASKS  # noqa: E402

FILE = pathlib.Path(__file__).with_name("relations_task.py")
ROWS = [
    {"text": "a b c d", "subject": [0, 1], "object": [4, 5]},
    {"text": "c é d e f", "subject": [8, 9], "object": [2, 3]},
    {"text": "g h i", "subject": [4, 5], "object": [0, 1]},
    {"text": "i j k l m", "subject": [0, 3], "object": [8, 9]},
]
LABELS = ["owns", "founded", "owns", "founded"]
MARKED = ["! a ! b ? c ? d", "c ? é ? d e ! f !", "? g ? h ! i !", "! i j ! k l ? m ?"]


@pytest.fixture(scope="module", autouse=True)
def user():
    """The module with the task, which is registered during these tests alone."""
    with registered("relations_task") as module:
        yield module


@pytest.fixture(scope="module")
def start(config, pieces, tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    keras_bert.save(keras_bert.build_encoder(config), folder, [*pieces, "!", "?", "@", "#"][: config.vocab_size])
    return folder


def test_fit_evaluate_save_and_export(user, checkpoint, tmp_path, monkeypatch):
    """What `predict` and the signature answer is what a classifier of the marked texts does."""
    options = {"epochs": 1, "markers": "!?", "sequence_length": 24, "verbose": False}
    bert = keras_bert.load(checkpoint).fit(ROWS, LABELS, **options)
    assert (bert.task, bert.task_settings, bert.labels) == ("relations", {"markers": "!?"}, ["founded", "owns"])
    bert.save(tmp_path / "model")
    again = keras_bert.load(tmp_path / "model")
    answers = again.predict(ROWS)
    expected = bert.model()(bert.preprocessor(24)(MARKED))["logits"].numpy()
    expected = np.exp(expected) / np.exp(expected).sum(-1, keepdims=True)
    found = [[answer["scores"][label] for label in again.labels] for answer in answers]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert again.predict(ROWS[0])["label"] == answers[0]["label"]
    assert again.predict(iter(ROWS)) == answers
    predicted = [answer["label"] for answer in answers]
    assert again.evaluate(ROWS, predicted, verbose=False)["accuracy"] == 1
    losses = -np.log([row[again.labels.index(label)] for row, label in zip(expected, LABELS, strict=True)])
    assert again.evaluate(ROWS, LABELS, verbose=False)["loss"] == pytest.approx(losses.mean(), abs=1e-5)
    again.export(tmp_path / "export")
    signature = tf.saved_model.load(tmp_path / "export").signatures["relations"]
    spans = {name: tf.constant([row[name] for row in ROWS]) for name in ("subject", "object")}
    outputs = signature(text=tf.constant([row["text"] for row in ROWS]), **spans)
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
    given = {}  # By the command, too.
    monkeypatch.setitem(vars(keras_bert), "export", lambda *_, **options: given.update(options))
    call("pipelines.export_saved_model", f"--model={tmp_path}/model", f"--output_dir={tmp_path}/served")
    assert given["add_signatures"].keywords["settings"].markers == "!?"
    assert "relations" in given["add_signatures"]({"serving_default": None})
    with pytest.raises(ValueError, match=r"texts\[1\]: `object` must be \[start, end\], a span .* Received: None"):
        again.predict([ROWS[0], {"text": "a", "subject": [0, 1]}])
    with pytest.raises(ValueError, match=r"texts\[0\]: `subject` and `object` overlap"):
        bert.fit([{"text": "a b", "subject": [0, 2], "object": [1, 3]}] * 2, LABELS[:2], verbose=False)
    TASKS.remove(user.Relations)
    try:
        with pytest.raises(ValueError, match="the task 'relations' of .* is not registered, .* markers. Import the"):
            keras_bert.load(tmp_path / "model").predict(ROWS)
        assert keras_bert.load(tmp_path / "model", head="encoder").encode("a b").shape == (32,)
    finally:
        keras_bert.register_task(user.Relations)


def test_frames_and_named_columns(user, checkpoint):
    """The columns of the task are read whatever else a data frame may look like, and also those of predictions."""
    pandas = pytest.importorskip("pandas")
    rows = [{**row, "label": label, "author": "a"} for row, label in zip(ROWS, LABELS, strict=True)]
    frame = pandas.DataFrame(rows)
    options = {"epochs": 1, "markers": "!?", "sequence_length": 24, "verbose": False}
    start = keras_bert.load(checkpoint)
    bert = start.fit(frame, "label", **options)
    assert bert.task == "relations"
    answers = bert.predict(frame[["text", "subject", "object"]])
    assert answers == bert.predict(ROWS)
    scores = bert.evaluate(ROWS, LABELS, verbose=False)
    assert bert.evaluate(frame, "label", verbose=False) == scores
    assert bert.evaluate(rows, "label", verbose=False) == scores


@pytest.mark.slow
def test_the_command(checkpoint, tmp_path):
    for name in ("train", "dev"):
        rows = [{**row, "label": label} for row, label in zip(ROWS, LABELS, strict=True)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = [f"--train_file={tmp_path}/train.jsonl", f"--dev_file={tmp_path}/dev.jsonl", f"--model={checkpoint}"]
    flags += [f"--output_dir={tmp_path}/run", "--epochs=1", "--sequence_length=24", "--markers=!?"]
    flags += ["--task=relations"]
    plugins, before = "--plugins=relations_task", f"import sys; sys.path.insert(0, {str(FILE.parent)!r})\n"
    out, _ = run("pipelines.run_task", plugins, *flags, before=before)
    assert "next:" in out
    bert = keras_bert.load(tmp_path / "run" / "model")
    assert bert.task_settings == {"markers": "!?"}
    made = {path.name for path in (tmp_path / "run").iterdir()}
    assert made >= {"flags.txt", "runs", "results.json", "results.md", "report.html", "saved_model", "errors.tsv"}
    report = (tmp_path / "run" / "report.html").read_text()
    for name in ("Confusion matrix", "Classes", "Calibration", "Errors by length", "Hardest examples of dev"):
        assert f"<h2>{name}</h2>" in report
    assert (tmp_path / "run" / "errors.tsv").read_text().startswith('"row"\t"true"\t"predicted"\t"probability"')
    assert "relations" in tf.saved_model.load(tmp_path / "run" / "saved_model" / "1").signatures
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "train.jsonl" in card
    assert f"print(bert.predict([{{{', '.join(f'{name!r}: ...' for name in ROWS[0])}}}]))" in card
    asked = ["--model=" + str(tmp_path / "run" / "model"), f"--input={tmp_path}/dev.jsonl"]
    lines, _ = run("pipelines.predict", plugins, *asked, before=before)
    chosen = [line.split("\t")[0] for line in lines.splitlines()[1:]]
    assert chosen == [answer["label"] for answer in bert.predict(ROWS)]
    _, error = run("pipelines.predict", plugins, asked[0], "a text", before=before, status=2)
    assert "takes rows of its task. Expected --input with" in error
    again, _ = run("pipelines.run_task", f"--flagfile={tmp_path}/run/flags.txt", before=before)
    assert "next:" in again
    _, error = run("pipelines.run_task", plugins, *flags, "--markers=!", before=before, status=2)
    assert error.splitlines()[-1] == "error: --markers must be two signs, such as @#. Received: markers='!'"


@pytest.mark.parametrize("markers", [{"@", "#"}, ["@", float("nan")], {1: 2, 3: 4}, np.array(["@", "#"])])
def test_settings_that_no_checkpoint_keeps(user, checkpoint, markers):
    """The message comes before the training, which would end without a model."""
    with pytest.raises(ValueError, match="the setting `markers` is stored with the model. Expected a value that JSON"):
        keras_bert.load(checkpoint).fit(ROWS, LABELS, markers=markers, verbose=False)

"""The smallest task of a user's own file: conversations as rows, whose targets have a name of their own."""

import json
import re
import types

import numpy as np
import pytest

import keras_bert
from keras_bert.files import MODEL_FACTS, read_json
from tests.extending.conftest import registered
from tests.pipelines.programs import call, mistake

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

from keras_bert.runs.saved_model_scores import compare  # noqa: E402
from keras_bert.tasks.registry import TASKS, recognized  # noqa: E402

ROWS = [
    {"turns": ["a b", "c d"], "intent": "lost"},
    {"turns": ["e f g"], "intent": "found"},
    {"turns": ["a", "b", "h i"], "intent": "lost"},
    {"turns": ["j", "e f"], "intent": "found"},
]
CONVERTED = ["c d | a b", "e f g", "h i | b | a", "e f | j"]
OPTIONS = {"epochs": 1, "sequence_length": 12, "verbose": False}


@pytest.fixture(scope="module", autouse=True)
def user():
    """The module with the task, which is registered during these tests alone."""
    with registered("intents_task") as module:
        yield module


@pytest.fixture(scope="module")
def bert(user, checkpoint):
    return keras_bert.load(checkpoint).fit(ROWS, **OPTIONS)


def turns(rows):
    return [{"turns": row["turns"]} for row in rows]


def test_the_newest_turn_is_read_first(bert, tmp_path):
    """The answers are those of a classifier of the turns from the newest to the oldest one."""
    assert (bert.task, bert.labels) == ("intents", ["found", "lost"])
    bert.save(tmp_path / "model")
    answers = keras_bert.load(tmp_path / "model").predict(turns(ROWS))
    expected = bert.model()(bert.preprocessor(12)(CONVERTED))["logits"].numpy()
    expected = np.exp(expected) / np.exp(expected).sum(-1, keepdims=True)
    np.testing.assert_allclose([[*answer["scores"].values()] for answer in answers], expected, atol=1e-5)
    cut = {"turns": ["c"] * 20 + ["a", "b"]}
    assert bert.predict({"turns": ["e", *cut["turns"]]})["scores"] == bert.predict(cut)["scores"]
    assert bert.predict({"turns": [*cut["turns"], "e"]})["scores"] != bert.predict(cut)["scores"]


class Served:
    """A client of a server of the SavedModel, which tells what it stores, `about`."""

    about_model = types.MappingProxyType({})

    def __init__(self, *_):
        pass

    def metadata(self, model):
        outputs = {"label": {}, "labels": {}, "probabilities": {}}
        return {"signatures": {"serving_default": {"inputs": {"text": {}}, "outputs": outputs}}}

    def about(self, model):
        return self.about_model

    def predict(self, model, inputs, signature):
        assert inputs["text"] == CONVERTED
        rows = len(CONVERTED)
        labels, shares = np.array([["found", "lost"]] * rows), np.array([[0.25, 0.75]] * rows)
        return {"label": labels[:, 1], "labels": labels, "probabilities": shares}


@pytest.fixture
def served(monkeypatch):
    monkeypatch.setattr("pipelines.answering_models.Client", Served)
    return Served


def test_a_model_without_its_task(user, bert, served, monkeypatch, tmp_path):
    """Answers to rows need the task that converts them, also of a model without settings; vectors do not."""
    bert.save(tmp_path / "model")
    bert.export(tmp_path / "1")
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    facts = read_json(tmp_path / "1" / MODEL_FACTS)
    assert facts["task"] == {"name": "intents", "settings": {}, "converts": True}
    monkeypatch.setattr(served, "about_model", facts)
    flags = ["--server=localhost:1", "--model=intents", f"--input={path}"]
    assert call("pipelines.predict", "--plugins=intents_task", *flags).split()[-3:] == ["lost", "0.2500", "0.7500"]
    message = "the task 'intents' of .* is not registered, but it makes the texts of the rows. Import the module"
    assert re.match(message, mistake("pipelines.predict", *flags))
    monkeypatch.setattr("keras_bert.tasks.registry.TASKS", [task for task in TASKS if task is not user.Intents])
    monkeypatch.setattr("keras_bert.runs.saved_model_scores.TASKS", [])
    loaded = keras_bert.load(tmp_path / "model")
    with pytest.raises(ValueError, match=message):
        loaded.predict("a b")
    with pytest.raises(ValueError, match=message):
        compare(tmp_path / "1", path, label="intent")
    assert re.match(message, mistake("pipelines.predict", f"--model={tmp_path}/model", "a b"))
    encoder = keras_bert.load(tmp_path / "model", head="encoder")
    assert loaded.encode("a b").shape == encoder.encode("a b").shape
    encoder.export(tmp_path / "encoder")
    before = read_json(tmp_path / "model" / "config.json")  # As an earlier version has saved it.
    del before["keras_bert"]["task_settings"]
    (tmp_path / "model" / "config.json").write_text(json.dumps(before))
    assert keras_bert.load(tmp_path / "model").predict("a b")["label"] in bert.labels


def test_rows_for_a_server_that_does_not_tell_the_task(served, tmp_path):
    """TensorFlow Serving, and any server over gRPC: rows would be answered as they are."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({**row, "text": "a"}) + "\n" for row in ROWS))
    flags = ["--server=localhost:1", "--protocol=grpc", "--model=intents"]
    message = mistake("pipelines.predict", "--plugins=intents_task", *flags, f"--input={path}")
    assert message.startswith(f"{path} has rows of the task intents, whose texts depend on the settings of the model")
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in CONVERTED))
    lines = call("pipelines.predict", "--plugins=intents_task", *flags, f"--input={path}").splitlines()
    assert lines[1].split() == ["lost", "0.2500", "0.7500"]


@pytest.mark.parametrize("flags", [["--server=localhost:1", "--model=intents"], ["--model={}/model"]])
def test_a_row_of_a_file_that_is_no_conversation(bert, served, monkeypatch, tmp_path, flags):
    """The message names the file and the line, also of a later part of the file."""
    bert.save(tmp_path / "model")
    monkeypatch.setattr(served, "about_model", {"task": {"name": "intents", "settings": {}, "converts": True}})
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*ROWS, {"turns": None}]))
    flags = [flag.format(tmp_path) for flag in flags]
    message = mistake("pipelines.predict", "--plugins=intents_task", *flags, f"--input={path}", "--batch_size=4")
    assert message == f"{path}:5: `turns` must be a list of strings. Received: None"


def test_targets_in_a_column_of_their_own(bert, checkpoint, tmp_path):
    """They are in the rows, in a list, or in a column that is named, for training, scores and the SavedModel."""
    lists = turns(ROWS), [row["intent"] for row in ROWS]
    named = [{"turns": row["turns"], "wanted": row["intent"]} for row in ROWS]
    scores = bert.evaluate(ROWS, verbose=False)
    assert bert.evaluate(*lists, verbose=False) == scores
    assert bert.evaluate(named, "wanted", verbose=False) == scores
    start = keras_bert.load(checkpoint)
    trained = [start.fit(*given, **OPTIONS) for given in ((ROWS,), lists, (named, "wanted"))]
    assert {other.task for other in trained} == {"intents"}
    first, *others = [other.evaluate(ROWS, verbose=False) for other in trained]
    assert others == [pytest.approx(first, abs=1e-6)] * 2
    bert.export(tmp_path / "served" / "1")
    for rows, label in ((ROWS, "label"), (ROWS, "intent"), (named, "wanted")):
        path = tmp_path / f"{label}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        found = compare(tmp_path / "served" / "1", path, label=label).scores
        assert found["accuracy"] == pytest.approx(100 * scores["accuracy"])
    mistakes = (
        (ROWS, "other", "`other`. It has: 'turns', 'intent'"),
        (named, "label", "`intent`. It has: 'turns', 'w"),
    )
    for rows, label, message in mistakes:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        with pytest.raises(ValueError, match=f"wanted.jsonl:1: no column {message}"):
            compare(tmp_path / "served" / "1", path, label=label)
    with pytest.raises(ValueError, match=r"texts\[0\]: no column `intent`. It has: 'turns'$"):
        bert.evaluate(pytest.importorskip("pandas").DataFrame(turns(ROWS)), verbose=False)


@pytest.mark.parametrize("kind", [tuple, iter, lambda rows: np.array(rows, object)])
def test_rows_that_are_no_list(bert, kind):
    """Their targets are found as those of a list."""
    assert bert.evaluate(kind(ROWS), verbose=False) == bert.evaluate(ROWS, verbose=False)


def test_targets_are_not_seen_by_convert(bert, monkeypatch, user):
    """What depends on a target would fail in `predict`, which has none."""
    seen = []
    convert = type(user.Intents.rows).convert

    def recorded(self, place, row, settings):
        seen.append(set(row))
        return convert(self, place, row, settings)

    monkeypatch.setattr(type(user.Intents.rows), "convert", recorded)
    bert.evaluate(ROWS, verbose=False)
    bert.evaluate(turns(ROWS), [row["intent"] for row in ROWS], verbose=False)
    bert.predict(ROWS)
    assert len(seen) >= 3 * len(ROWS)
    assert all(names == {"turns"} for names in seen)


def test_rows_that_are_their_own_validation(checkpoint):
    bert = keras_bert.load(checkpoint).fit(ROWS, validation=ROWS, **OPTIONS)
    (line,) = bert.results["history"]
    assert line["val_accuracy"] == bert.evaluate(ROWS, verbose=False)["accuracy"]


def test_what_is_no_conversation(bert, checkpoint):
    with pytest.raises(ValueError, match=r"texts\[1\]: `turns` must be a list of strings. Received: \[\]"):
        bert.predict([turns(ROWS)[0], {"turns": []}])
    with pytest.raises(ValueError, match="texts: `turns` must be a list of strings. Received: None"):
        bert.predict("a text")
    with pytest.raises(ValueError, match="3 must be a string, or a tuple of two. Received: 3|texts must be"):
        bert.predict(3)
    with pytest.raises(ValueError, match="intent"):
        keras_bert.load(checkpoint).fit([{"turns": ["a"]}, {"turns": ["b"]}], **OPTIONS)


@pytest.mark.parametrize(("made", "received"), [({"text": "a", "price": 2.5}, "price"), ("a", "'a'")])
def test_what_convert_returns(user, bert, checkpoint, monkeypatch, made, received):
    """A head reads texts alone: anything else would be lost."""
    monkeypatch.setattr(user.ConversationRows, "convert", lambda self, place, row, settings: made)
    message = rf"0\]: `convert` must return a dict of text and pair alone. Received: {received}"
    with pytest.raises(ValueError, match=message):
        keras_bert.load(checkpoint).fit(ROWS, **OPTIONS)
    with pytest.raises(ValueError, match=message):
        bert.predict(turns(ROWS))


@pytest.mark.parametrize("error", [KeyError("turns"), ValueError("turns"), TypeError("turns")])
def test_an_error_of_convert_names_the_row(user, bert, monkeypatch, error):
    def convert(self, place, row, settings):
        if row["turns"] == ["a"]:
            raise error
        return {"text": "a"}

    monkeypatch.setattr(user.ConversationRows, "convert", convert)
    message = rf"texts\[1\]: `convert` must take such a row. Received: .*'turns': \['a'\].*, {type(error).__name__}: "
    with pytest.raises(ValueError, match=message):
        bert.predict([{"turns": ["b"]}, {"turns": ["a"]}])


@pytest.mark.slow
def test_the_command(checkpoint, tmp_path):
    for name in ("train", "dev"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    flags = [f"--{name}_file={tmp_path}/{name}.jsonl" for name in ("train", "dev")]
    flags += ["--plugins=intents_task", "--task=intents", f"--model={checkpoint}", f"--output_dir={tmp_path}/run"]
    call("pipelines.run_task", *flags, "--method=probe", "--sequence_length=12")
    asked = [f"--model={tmp_path}/run/model", f"--input={tmp_path}/dev.jsonl", f"--output={tmp_path}/answers.jsonl"]
    call("pipelines.predict", "--plugins=intents_task", *asked)
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    expected = keras_bert.load(tmp_path / "run" / "model").predict(turns(ROWS))
    assert [line["label"] for line in lines] == [answer["label"] for answer in expected]
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "print(bert.predict([{'turns': ...}]))" in card
    assert read_json(tmp_path / "run" / "results.json")["best"]["setting"] == {"method": "probe", "seed": 1}
    error = mistake("pipelines.run_task", *flags, "--method=probe", "--epochs=2")
    assert "--epochs: the encoder is not trained with method='probe'" in error


@pytest.mark.parametrize(("text", "target"), [("a", "b"), (("a", "b"), 1)])
def test_texts_of_built_in_tasks_stay_theirs(text, target):
    """Rows that are a subclass of built-in ones have conversations: importing their file changes no other training."""
    assert recognized(text, [target]).name == "classification"
    assert recognized({"turns": ["a"]}, [target]).name == "intents"

"""The smallest task of a user's own file: conversations as rows, whose targets have a name of their own."""

import json
import re
import shutil
import types

import numpy as np
import pytest
import scipy.special

import keras_bert
from keras_bert.files import MODEL_FACTS, read_json
from tests.conftest import eagerly
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
    """A model after one epoch."""
    with eagerly():
        return keras_bert.load(checkpoint).fit(ROWS, **OPTIONS)


TURNS = [{"turns": row["turns"]} for row in ROWS]
INTENTS = [row["intent"] for row in ROWS]
PLUGIN = "--plugins=intents_task"


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_newest_turn_is_read_first(bert, tmp_path):
    """The answers are those of a classifier of the turns from the newest to the oldest one."""
    assert bert.task == "intents"
    assert bert.labels == ["found", "lost"]
    bert.save(tmp_path / "model")
    answers = keras_bert.load(tmp_path / "model").predict(TURNS)
    logits = bert.model()(bert.preprocessor(12)(CONVERTED))["logits"].numpy()
    expected = scipy.special.softmax(logits, -1)
    found = [list(answer["scores"].values()) for answer in answers]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_oldest_turns_are_cut(bert):
    long = ["c"] * 20 + ["a", "b"]
    scores = bert.predict({"turns": long})["scores"]
    assert bert.predict({"turns": ["e", *long]})["scores"] == scores
    assert bert.predict({"turns": [*long, "e"]})["scores"] != scores


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
        return {
            "label": np.array(["lost"] * rows),
            "labels": np.array([["found", "lost"]] * rows),
            "probabilities": np.array([[0.25, 0.75]] * rows),
        }


@pytest.fixture
def served(monkeypatch):
    monkeypatch.setattr("pipelines.answering_models.Client", Served)
    return Served


@pytest.fixture(scope="module")
def folder(bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("intents") / "model"
    bert.save(folder)
    return folder


@pytest.fixture(scope="module")
def exported(bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "1"
    bert.export(folder)
    return folder


@pytest.fixture
def unregistered(user, monkeypatch):
    """The task is not known, as in a program that does not import its module."""
    others = [task for task in TASKS if task is not user.Intents]
    monkeypatch.setattr("keras_bert.tasks.registry.TASKS", others)
    monkeypatch.setattr("keras_bert.runs.saved_model_scores.TASKS", [])


UNREGISTERED = "the task 'intents' of .* is not registered"


def test_rows_for_a_server(exported, served, monkeypatch, tmp_path):
    """They are converted by the task that the server tells, which a plugin registers."""
    write_rows(tmp_path / "rows.jsonl", ROWS)
    facts = read_json(exported / MODEL_FACTS)
    assert facts["task"] == {"name": "intents", "settings": {}, "converts": True}
    monkeypatch.setattr(served, "about_model", facts)
    flags = ["--server=localhost:1", "--model=intents", f"--input={tmp_path}/rows.jsonl"]
    printed = call("pipelines.predict", PLUGIN, *flags)
    assert printed.split()[-3:] == ["lost", "0.2500", "0.7500"]
    assert re.match(UNREGISTERED, mistake("pipelines.predict", *flags))


@pytest.mark.usefixtures("unregistered")
def test_a_model_without_its_task(folder, exported, tmp_path):
    """Answers to rows need the task that converts them, also of a model without settings."""
    message = UNREGISTERED + ", but it makes the texts of the rows. Import the module"
    with pytest.raises(ValueError, match=message):
        keras_bert.load(folder).predict("a b")
    write_rows(tmp_path / "rows.jsonl", ROWS)
    with pytest.raises(ValueError, match=UNREGISTERED):
        compare(exported, tmp_path / "rows.jsonl", label="intent")
    assert re.match(UNREGISTERED, mistake("pipelines.predict", f"--model={folder}", "a b"))


@pytest.mark.usefixtures("unregistered")
def test_vectors_without_the_task(folder, tmp_path):
    encoder = keras_bert.load(folder, head="encoder")
    assert keras_bert.load(folder).encode("a b").shape == encoder.encode("a b").shape
    encoder.export(tmp_path / "encoder")


@pytest.mark.usefixtures("unregistered")
def test_a_model_of_an_earlier_version(bert, folder, tmp_path):
    """It was stored without settings, and answers texts."""
    shutil.copytree(folder, tmp_path / "model")
    config = read_json(folder / "config.json")
    del config["keras_bert"]["task_settings"]
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    assert keras_bert.load(tmp_path / "model").predict("a b")["label"] in bert.labels


def test_rows_for_a_server_that_does_not_tell_the_task(served, tmp_path):
    """TensorFlow Serving, and any server over gRPC: rows would be answered as they are."""
    path = tmp_path / "rows.jsonl"
    flags = [PLUGIN, "--server=localhost:1", "--protocol=grpc", "--model=intents", f"--input={path}"]
    write_rows(path, [{**row, "text": "a"} for row in ROWS])
    message = mistake("pipelines.predict", *flags)
    assert message.startswith(f"{path} has rows of the task intents")

    write_rows(path, [{"text": text} for text in CONVERTED])
    lines = call("pipelines.predict", *flags).splitlines()
    assert lines[1].split() == ["lost", "0.2500", "0.7500"]


@pytest.mark.parametrize("is_served", [True, False])
def test_a_row_of_a_file_that_is_no_conversation(folder, served, monkeypatch, tmp_path, is_served):
    """The message names the file and the line, also of a later part of the file."""
    facts = {"task": {"name": "intents", "settings": {}, "converts": True}}
    monkeypatch.setattr(served, "about_model", facts)
    path = tmp_path / "rows.jsonl"
    write_rows(path, [*ROWS, {"turns": None}])
    flags = [PLUGIN, f"--input={path}", "--batch_size=4"]
    if is_served:
        flags += ["--server=localhost:1", "--model=intents"]
    else:
        flags.append(f"--model={folder}")
    message = mistake("pipelines.predict", *flags)
    assert message == f"{path}:5: `turns` must be a list of strings. Received: None"


NAMED = [{"turns": row["turns"], "wanted": row["intent"]} for row in ROWS]


def test_where_targets_are(bert, checkpoint):
    """They are in the rows, in a list, or in a column that is named, for training and scores."""
    scores = bert.evaluate(ROWS, verbose=False)
    assert bert.evaluate(TURNS, INTENTS, verbose=False) == scores
    assert bert.evaluate(NAMED, "wanted", verbose=False) == scores

    start = keras_bert.load(checkpoint)
    by_rows = start.fit(ROWS, **OPTIONS)
    expected = by_rows.evaluate(ROWS, verbose=False)
    by_list = start.fit(TURNS, INTENTS, **OPTIONS)
    by_name = start.fit(NAMED, "wanted", **OPTIONS)
    for trained in (by_list, by_name):
        assert trained.task == "intents"
        assert trained.evaluate(ROWS, verbose=False) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("rows", "label"), [(ROWS, "label"), (ROWS, "intent"), (NAMED, "wanted")])
def test_targets_for_a_saved_model(bert, exported, tmp_path, rows, label):
    """They are in the column of the task, or in one that is named."""
    write_rows(tmp_path / "rows.jsonl", rows)
    found = compare(exported, tmp_path / "rows.jsonl", label=label).scores
    scores = bert.evaluate(ROWS, verbose=False)
    assert found["accuracy"] == pytest.approx(100 * scores["accuracy"])


@pytest.mark.parametrize(
    ("rows", "label", "missing"),
    [(ROWS, "other", "`other`. It has: 'turns', 'intent'"), (NAMED, "label", "`intent`. It has")],
)
def test_a_file_without_targets(exported, tmp_path, rows, label, missing):
    write_rows(tmp_path / "rows.jsonl", rows)
    with pytest.raises(ValueError, match=f"rows.jsonl:1: no column {missing}"):
        compare(exported, tmp_path / "rows.jsonl", label=label)


def test_a_frame_without_targets(bert):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"texts\[0\]: no column `intent`. It has: 'turns'$"):
        bert.evaluate(pandas.DataFrame(TURNS), verbose=False)


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
    bert.evaluate(TURNS, INTENTS, verbose=False)
    bert.predict(ROWS)
    assert len(seen) >= 3 * len(ROWS)
    assert all(names == {"turns"} for names in seen)


def test_rows_that_are_their_own_validation(checkpoint):
    bert = keras_bert.load(checkpoint).fit(ROWS, validation=ROWS, **OPTIONS)
    (line,) = bert.results["history"]
    assert line["val_accuracy"] == bert.evaluate(ROWS, verbose=False)["accuracy"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([TURNS[0], {"turns": []}], r"texts\[1\]: `turns` .*Received: \[\]"),
        ("a text", "texts: `turns` .*Received: None"),
        (3, "Received: 3"),
    ],
)
def test_what_is_no_conversation(bert, texts, message):
    with pytest.raises(ValueError, match=message):
        bert.predict(texts)


def test_rows_without_targets(checkpoint):
    with pytest.raises(ValueError, match="intent"):
        keras_bert.load(checkpoint).fit([{"turns": ["a"]}, {"turns": ["b"]}], **OPTIONS)


@pytest.mark.parametrize(("made", "received"), [({"text": "a", "price": 2.5}, "price"), ("a", "'a'")])
def test_what_convert_returns(user, bert, checkpoint, monkeypatch, made, received):
    """A head reads texts alone: anything else would be lost."""
    monkeypatch.setattr(user.ConversationRows, "convert", lambda self, place, row, settings: made)
    message = rf"0\]: `convert` must return a dict of text and pair alone. Received: {received}"
    with pytest.raises(ValueError, match=message):
        keras_bert.load(checkpoint).fit(ROWS, **OPTIONS)
    with pytest.raises(ValueError, match="`convert`"):
        bert.predict(TURNS)


@pytest.mark.parametrize("error", [KeyError("turns"), ValueError("turns"), TypeError("turns")])
def test_an_error_of_convert_names_the_row(user, bert, monkeypatch, error):
    def convert(self, place, row, settings):
        if row["turns"] == ["a"]:
            raise error
        return {"text": "a"}

    monkeypatch.setattr(user.ConversationRows, "convert", convert)
    message = rf"texts\[1\]: `convert` .*'turns': \['a'\].*, {type(error).__name__}: "
    with pytest.raises(ValueError, match=message):
        bert.predict([{"turns": ["b"]}, {"turns": ["a"]}])


@pytest.mark.slow
def test_the_command(checkpoint, tmp_path):
    write_rows(tmp_path / "train.jsonl", ROWS)
    write_rows(tmp_path / "dev.jsonl", ROWS)
    flags = [
        PLUGIN,
        "--task=intents",
        f"--train_file={tmp_path}/train.jsonl",
        f"--dev_file={tmp_path}/dev.jsonl",
        f"--model={checkpoint}",
        f"--output_dir={tmp_path}/run",
    ]
    call("pipelines.run_task", *flags, "--method=probe", "--sequence_length=12")
    results = read_json(tmp_path / "run" / "results.json")
    assert results["best"]["setting"] == {"method": "probe", "seed": 1}
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "print(bert.predict([{'turns': ...}]))" in card

    input_flag = f"--input={tmp_path}/dev.jsonl"
    output_flag = f"--output={tmp_path}/answers.jsonl"
    call("pipelines.predict", PLUGIN, f"--model={tmp_path}/run/model", input_flag, output_flag)
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    labels = [json.loads(line)["label"] for line in lines]
    expected = keras_bert.load(tmp_path / "run" / "model").predict(TURNS)
    assert labels == [answer["label"] for answer in expected]

    error = mistake("pipelines.run_task", *flags, "--method=probe", "--epochs=2")
    assert "--epochs: the encoder is not trained with method='probe'" in error


@pytest.mark.parametrize(("text", "target"), [("a", "b"), (("a", "b"), 1)])
def test_texts_of_built_in_tasks_stay_theirs(text, target):
    """Rows that are a subclass of built-in ones have conversations: importing their file changes no other training."""
    assert recognized(text, [target]).name == "classification"
    assert recognized({"turns": ["a"]}, [target]).name == "intents"

"""The command for the paper's studies, with a model of 8 units on an artificial language."""

import contextlib
import dataclasses
import io
import itertools
import json
import logging
import pathlib
import re
import shutil
from functools import partial
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import keras_bert
from keras_bert.tasks.classification.glue import TASKS
from research.feature_tagging import task
from research.studies import cost, pretrained
from research.studies.scales import SCALES
from tests.conftest import eagerly
from tests.documents import ROOT
from tests.pipelines.programs import call, cut_if, flags_of, mistake, read_json
from tests.tasks.classification.glue_files import write_task

pytestmark = pytest.mark.tensorflow

PROGRAM = "research.run_study"
LETTERS = "abcdefgh"
CONFIG = {
    "vocab_size": 100,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "hidden_act": "gelu",
    "max_position_embeddings": 64,
}
ONE_STEP = "length:16,steps:1,batch:8"
STEPS = {"study": "steps", "rows": "ltr_100,ltr_20", "tasks": "mrpc", "learning_rate": "1e-2"}


@pytest.fixture(scope="module", autouse=True)
def _few_steps_of_small_models():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "TIMED_STEPS", 1)
        patch.setattr(pretrained, "SNAPSHOTS", 5)  # Each with an evaluation.
        sizes = {"bilm": "bilm_H-8", "bilstm": "bilstm_H-8_E-8", "eval_examples": 32}
        small = dataclasses.replace(SCALES["demo"], **sizes)
        patch.setitem(SCALES, "demo", small)
        yield


def document(rng, sentences):
    """Returns sentences of six letters."""
    lines = [" ".join(rng.choice(list(LETTERS), 6)) for _ in range(sentences)]
    return "\n".join(lines)


def write_files(folder):
    """Writes text, a config and the files of two GLUE tasks."""
    rng = np.random.default_rng(0)
    for name, sentences in (("1", 30), ("2", 4)):  # The last one is held out.
        documents = [document(rng, sentences) for _ in range(2)]
        (folder / f"text-{name}.txt").write_text("\n\n".join(documents) + "\n")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "ner.txt").write_text("a B-PER\nb O\n\nc O\n")
    for name in ("mrpc", "sst2"):
        write_task(folder / "glue", TASKS[name])


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A working directory with the files."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)


@pytest.fixture
def whole(shared_folder, tmp_path, monkeypatch):
    """A working directory with the files and a study that was not interrupted; returns what it printed."""

    def fill(folder):
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            write_files(folder)
            patch.setattr(cost, "estimate", lambda *_: (60.0, 7200.0))  # See `test_rivals`.
            (folder / "printed.json").write_text(json.dumps(study("whole", seed=1, **STEPS)))

    folder = shutil.copytree(shared_folder("study", fill), tmp_path / "study")
    monkeypatch.chdir(folder)
    return json.loads((folder / "printed.json").read_text())


def flags(output, **changes):
    values = {
        "study": "positions",
        "scale": "demo",
        "data": "text-*.txt",
        "config": "config.json",
        "glue_dir": "glue",
        "phases": "length:16,steps:5,batch:8",
        "output_dir": output,
    }
    return flags_of(values, **changes)


def study(output, **changes):
    """Runs a study eagerly in this process; returns what it prints and its messages."""
    log = logging.getLogger("keras_bert")
    messages = io.StringIO()
    handler = logging.StreamHandler(messages)
    level = log.level
    with contextlib.ExitStack() as stack:
        log.addHandler(handler)
        stack.callback(log.removeHandler, handler)
        log.setLevel(logging.INFO)
        stack.callback(log.setLevel, level)
        stack.enter_context(eagerly())
        return call(PROGRAM, *flags(output, **changes)), messages.getvalue()


def results(name):
    return read_json(pathlib.Path(name, "results.json"))


def test_the_cost(whole):
    out, messages = whole
    assert "1 pre-training run of 5 steps and 2 fine-tuning runs on MRPC" in messages
    assert "estimate: less than 2 minutes of pre-training and 2.0 hours of fine-tuning" in messages
    assert "Left to right, 20 % of the steps" in out


@pytest.mark.usefixtures("whole")
def test_the_models_after_shares_of_the_steps():
    """The model of 20 % of the steps is not that of the end of its pre-training."""
    folder = pathlib.Path("whole/pretraining/ltr")
    early = keras_bert.load(folder / "model-1").encoder
    last = keras_bert.load(folder / "model").encoder
    assert keras_bert.describe(early).causal
    assert keras_bert.describe(last).causal
    difference = np.array(early.weights[0]) - np.array(last.weights[0])
    assert np.abs(difference).max() > 1e-5


@pytest.mark.usefixtures("whole")
def test_the_results():
    found = results("whole")
    runs = {key: row["mrpc"]["runs"] for key, row in found["scores"].items()}
    assert runs == {"ltr_100": 1, "ltr_20": 1}
    pretraining = read_json(pathlib.Path("whole/pretraining/ltr/result.json"))
    assert found["perplexities"] == {"ltr_100": pytest.approx(np.exp(pretraining["mlm_loss"]))}
    page = pathlib.Path("whole/report.html").read_text()
    assert page.count("<svg") >= 2
    assert "pre-training steps" in page


OTHER_SETTINGS = "has a study with other settings"


@pytest.mark.usefixtures("whole")
def test_other_phases_are_refused():
    other = STEPS | {"phases": "length:16,steps:20,batch:4"}
    assert OTHER_SETTINGS in mistake(PROGRAM, *flags("whole", **other))


@pytest.mark.usefixtures("whole")
def test_other_text_is_refused():
    text = pathlib.Path("text-1.txt")
    text.write_text(text.read_text().replace("a", "b"))  # Of the same size.
    message = mistake(PROGRAM, *flags("whole", **STEPS))
    assert f"{OTHER_SETTINGS}: the content of `/text-1.txt` has changed" in message


@pytest.mark.usefixtures("whole")
def test_other_pre_trained_models_are_refused():
    folder = pathlib.Path("whole/pretraining/ltr")
    shutil.copy(folder / "model" / "model.safetensors", folder / "model-1")
    message = mistake(PROGRAM, *flags("whole", **STEPS))
    assert f"{folder} contains runs that started from another version of ltr/model-1" in message


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_only_the_settings_asked_for_count():
    """A diverged setting is shown, other limits of the examples have their own runs."""
    before = results("whole")["scores"]
    diverging = STEPS | {"learning_rate": "1e20"}
    first_row = STEPS | {"rows": "ltr_100"}
    with mock.patch.object(cost, "estimate", return_value=(60.0, 60.0)):
        _, messages = study("whole", **diverging, seed=1)
        assert "diverged" in messages
        assert results("whole")["scores"]["ltr_100"]["mrpc"]["mean"] is None
        assert "diverged" in pathlib.Path("whole/results.md").read_text()
        out, _ = study("whole", **first_row, max_train_examples=6, seed=1)
        assert "at most 6 training examples" in out
        study("whole", **STEPS, seed=1)
    assert results("whole")["scores"] == before


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_rivals():
    rows = {"study": "rivals", "rows": "gpt,bilstm,elmo", "tasks": "mrpc"}
    out, messages = study("rivals", **rows, seed=1, phases=ONE_STEP)
    assert "2 pre-training runs of 1 steps and 3 fine-tuning runs on MRPC" in messages
    minutes = r"(less than )?\d+ minutes of"
    assert re.search(rf"estimate: {minutes} pre-training and {minutes} fine-tuning", messages)
    found = results("rivals")
    assert list(found["scores"]) == ["gpt", "bilstm", "elmo"]
    assert list(found["perplexities"]) == ["gpt", "elmo"]
    assert "| Pre-OpenAI SOTA, published, not rebuilt |" in out
    assert "MRPC (f1)" in out


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_an_interrupted_study_resumes_to_the_same_table(monkeypatch):
    monkeypatch.setattr(cost, "estimate", lambda *_: (60.0, 60.0))
    study("whole", seed="1,2", **STEPS)  # Adds a seed.
    with cut_if(lambda name, step: name == "ltr" and step == 3):
        study("cut", seed="1,2", **STEPS)
    with cut_if(lambda name, step: "seed=2" in name):
        study("cut", seed="1,2", **STEPS)
    study("cut", seed="1,2", **STEPS)
    assert results("cut") == results("whole")
    assert results("cut")["scores"]["ltr_20"]["mrpc"]["runs"] == 2
    assert "nothing: all runs are finished" in study("cut", seed="1,2", **STEPS)[1]


NUMBER_OF_STEPS = "rows with a share of the steps need a number of steps that 5 divides. Received: 19"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "text-1.txt"}, "a single file. Expected several files, of which the last one"),
        (
            {"rows": "learned,other"},
            "--rows must be some of learned, sinusoid, none. Received: other",
        ),
        ({"rows": ""}, "--rows must be a list without duplicates. Received:"),
        ({"tasks": "squad"}, "the task squad needs --squad_train and --squad_dev"),
        ({"tasks": "cola,pos"}, "--tasks must be some of cola"),
        (
            {"study": "steps", "scale": "mini"},
            "--config=config.json: the task sst2 needs 128 positions.",
        ),
        (
            {"study": "rivals", "rows": "bilstm", "tasks": "ner"},
            "--tasks: the row bilstm serves the tasks of GLUE and squad. Received: ner",
        ),
        ({"seed": "1,1"}, "--seed must be a list without duplicates. Received: 1,1"),
        ({"seed": "-1"}, "--seed must be from 0 to 4294967295. Received: -1"),
        ({"learning_rate": "-1"}, "--learning_rate must be a positive number. Received: -1.0"),
        ({"pretraining_learning_rate": 0}, "--pretraining_learning_rate must be a positive number"),
        (
            {"study": "steps", "tasks": "mrpc", "phases": "length:16,steps:19,batch:4"},
            NUMBER_OF_STEPS,
        ),
    ],
)
def test_mistakes(changes, message):
    ner = {"ner_train": "ner.txt", "ner_dev": "ner.txt"}
    assert message in mistake(PROGRAM, *flags("mistakes", **ner, **changes))


def copy_lines(source, target, count):
    """Copies the first lines of a file."""
    with open(source) as file:
        target.write_text("".join(itertools.islice(file, count)))


@pytest.mark.slow
def test_real_data(data, tmp_path, monkeypatch):
    """The rows of table 8 that differ most, on features of a frozen encoder."""

    books = sorted((data / "corpus" / "books").glob("*.txt"))
    copy_lines(books[0], tmp_path / "0.txt", 400)
    copy_lines(books[1], tmp_path / "1.txt", 400)
    sentences = data / "ner" / "conll2003_iob1"
    copy_lines(sentences / "eng.train", tmp_path / "train.conll", 40)
    copy_lines(sentences / "eng.testa", tmp_path / "dev.conll", 40)
    vocabulary = ROOT / "saved_models" / "bert_tiny_books" / "vocab.txt"
    chance = len(vocabulary.read_text().splitlines())
    config = CONFIG | {"vocab_size": chance, "num_hidden_layers": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    values = {
        "study": "masking",
        "data": f"{tmp_path}/*.txt",
        "vocabulary": vocabulary,
        "config": tmp_path / "config.json",
        "glue_dir": None,
        "ner_train": tmp_path / "train.conll",
        "ner_dev": tmp_path / "dev.conll",
        "rows": "80-10-10,0-0-100",
        "tasks": "ner_features",
        "pretraining_learning_rate": 0.01,
        "epochs": 1,
        "seed": 1,
    }
    monkeypatch.setattr(task, "BiLSTMSettings", partial(task.BiLSTMSettings, width=8))
    monkeypatch.setattr(cost, "estimate", lambda *_: (60.0, 60.0))
    study(tmp_path / "out", **values)
    found = results(tmp_path / "out")
    assert list(found["scores"]) == ["80-10-10", "0-0-100"]
    for scores in found["scores"].values():
        assert list(scores) == ["ner_features"]
    first, second = found["perplexities"].values()
    assert 1 < first < chance
    assert 1 < second < chance
    assert round(first, 3) != round(second, 3)  # Each mixture has masks of its own.

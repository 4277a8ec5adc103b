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
from tests.pipelines.programs import call, cut_if, flags_of, mistake
from tests.tasks.classification.glue_files import write_task

pytestmark = pytest.mark.tensorflow

PROGRAM = "research.run_study"
LETTERS = "abcdefgh"
CONFIG = {"vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
CONFIG |= {"intermediate_size": 8, "hidden_act": "gelu", "max_position_embeddings": 64}
ONE_STEP = "length:16,steps:1,batch:8"
STEPS = {"study": "steps", "rows": "ltr_100,ltr_20", "tasks": "mrpc", "learning_rate": "1e-2"}


@pytest.fixture(scope="module", autouse=True)
def _few_steps_of_small_models():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "_STEPS", 1)
        patch.setattr(pretrained, "_PARTS", 5)  # Snapshots, each with an evaluation.
        small = dataclasses.replace(SCALES["demo"], bilm="bilm_H-8", bilstm="bilstm_H-8_E-8", eval_examples=32)
        patch.setitem(SCALES, "demo", small)
        yield


def write_files(folder):
    """Writes text, a config and the files of two GLUE tasks."""
    rng = np.random.default_rng(0)
    for name, sentences in (("1", 30), ("2", 4)):  # The last one is held out.
        documents = ["\n".join(" ".join(rng.choice(list(LETTERS), 6)) for _ in range(sentences)) for _ in range(2)]
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
    values = {"study": "positions", "scale": "demo", "data": "text-*.txt", "config": "config.json", "glue_dir": "glue"}
    return flags_of(values, **{"phases": "length:16,steps:5,batch:8", "output_dir": output, **changes})


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
    return json.loads(pathlib.Path(name, "results.json").read_text())


def test_the_table_the_cost_and_the_settings(whole):
    out, messages = whole
    assert "1 pre-training run of 5 steps and 2 fine-tuning runs on MRPC" in messages
    assert "estimate: less than 2 minutes of pre-training and 2.0 hours of fine-tuning" in messages
    assert "Left to right, 20 % of the steps" in out
    found = results("whole")
    assert {key: row["mrpc"]["runs"] for key, row in found["scores"].items()} == {"ltr_100": 1, "ltr_20": 1}
    folder = pathlib.Path("whole/pretraining")
    # The model of 20 % of the steps is not that of the end of its pre-training.
    models = [keras_bert.load(folder / "ltr" / name).encoder for name in ("model-1", "model")]
    assert all(keras_bert.describe(model).causal for model in models)
    assert np.abs(np.array(models[0].weights[0]) - np.array(models[1].weights[0])).max() > 1e-5
    loss = json.loads((folder / "ltr" / "result.json").read_text())["mlm_loss"]
    assert found["perplexities"] == {"ltr_100": pytest.approx(np.exp(loss))}
    page = pathlib.Path("whole/report.html").read_text()
    assert page.count("<svg") >= 2
    assert "pre-training steps" in page
    # Other settings are refused.
    arguments = {**STEPS, "phases": "length:16,steps:20,batch:4"}
    assert "has a study with other settings" in mistake(PROGRAM, *flags("whole", **arguments))
    text = pathlib.Path("text-1.txt")
    before = text.read_text()
    text.write_text(before.replace("a", "b"))  # Of the same size.
    message = mistake(PROGRAM, *flags("whole", **STEPS))
    assert "has a study with other settings: the content of `/text-1.txt` has changed" in message
    text.write_text(before)
    file = folder / "ltr" / "model-1" / "model.safetensors"
    file.write_bytes((folder / "ltr" / "model" / file.name).read_bytes())
    message = mistake(PROGRAM, *flags("whole", **STEPS))
    assert f"{folder}/ltr contains runs that started from another version of ltr/model-1" in message


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_only_the_settings_asked_for_count():
    """A diverged setting is shown, other limits of the examples have their own runs."""
    before = results("whole")["scores"]
    with mock.patch.object(cost, "estimate", return_value=(60.0, 60.0)):
        messages = study("whole", **{**STEPS, "learning_rate": "1e20"}, seed=1)[1]
        assert "diverged" in messages
        assert results("whole")["scores"]["ltr_100"]["mrpc"]["mean"] is None
        assert "diverged" in pathlib.Path("whole/results.md").read_text()
        out = study("whole", **{**STEPS, "rows": "ltr_100"}, max_train_examples=6, seed=1)[0]
        assert "at most 6 training examples" in out
        study("whole", **STEPS, seed=1)
    assert results("whole")["scores"] == before


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_rivals():
    out, messages = study("rivals", study="rivals", seed=1, rows="gpt,bilstm,elmo", tasks="mrpc", phases=ONE_STEP)
    assert "2 pre-training runs of 1 steps and 3 fine-tuning runs on MRPC" in messages
    assert re.search(r"estimate: (less than )?\d+ minutes of pre-training and (less than )?\d+ minutes of fi", messages)
    found = results("rivals")
    assert list(found["scores"]) == ["gpt", "bilstm", "elmo"]
    assert list(found["perplexities"]) == ["gpt", "elmo"]
    assert "| Pre-OpenAI SOTA, published, not rebuilt |" in out
    assert "MRPC (f1)" in out
    ner = {f"ner_{part}": "ner.txt" for part in ("train", "dev")}
    assert "--tasks: the row bilstm serves the tasks of GLUE and squad. Received: ner" in mistake(
        PROGRAM, *flags("rivals", study="rivals", rows="bilstm", tasks="ner", **ner)
    )


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_an_interrupted_study_resumes_to_the_same_table(monkeypatch):
    monkeypatch.setattr(cost, "estimate", lambda *_: (60.0, 60.0))
    study("whole", seed="1,2", **STEPS)  # Adds a seed.
    for condition in (lambda name, step: name == "ltr" and step == 3, lambda name, step: "seed=2" in name):
        with cut_if(condition):
            study("cut", seed="1,2", **STEPS)
    study("cut", seed="1,2", **STEPS)
    assert results("cut") == results("whole")
    assert results("cut")["scores"]["ltr_20"]["mrpc"]["runs"] == 2
    assert "nothing: all runs are finished" in study("cut", seed="1,2", **STEPS)[1]


@pytest.mark.usefixtures("files")
def test_mistakes():
    for changes, message in (
        ({"data": "text-1.txt"}, "a single file. Expected several files, of which the last one is held out"),
        ({"rows": "learned,other"}, "--rows must be some of learned, sinusoid, none. Received: other"),
        ({"tasks": "squad"}, "the task squad needs --squad_train and --squad_dev. Received: no --squad_train"),
        ({"tasks": "cola,pos"}, "--tasks must be some of cola"),
        ({"study": "steps", "scale": "mini"}, "--config=config.json: the task sst2 needs 128 positions."),
        ({"seed": "1,1"}, "--seed must be a list without duplicates. Received: 1,1"),
        ({"seed": "-1"}, "--seed must be from 0 to 4294967295. Received: -1"),
        ({"rows": ""}, "--rows must be a list without duplicates. Received:"),
        ({"learning_rate": "-1"}, "--learning_rate must be a positive number. Received: -1.0"),
        ({"pretraining_learning_rate": 0}, "--pretraining_learning_rate must be a positive number. Received: 0.0"),
        (
            {"study": "steps", "tasks": "mrpc", "phases": "length:16,steps:19,batch:4"},
            "rows with a share of the steps need a number of steps that 5 divides. Received: 19",
        ),
    ):
        assert message in mistake(PROGRAM, *flags("mistakes", **changes)), message


@pytest.mark.slow
def test_real_data(data, tmp_path, monkeypatch):
    """The rows of table 8 that differ most, on features of a frozen encoder."""

    def first_lines(source, target, count):
        with open(source) as file:
            (tmp_path / target).write_text("".join(itertools.islice(file, count)))

    for number, book in enumerate(sorted((data / "corpus" / "books").glob("*.txt"))[:2]):
        first_lines(book, f"{number}.txt", 400)
    for part, end in (("train", "train"), ("dev", "testa")):
        first_lines(data / "ner" / "conll2003_iob1" / f"eng.{end}", f"{part}.conll", 40)
    vocabulary = ROOT / "saved_models" / "bert_tiny_books" / "vocab.txt"
    chance = len(vocabulary.read_text().splitlines())
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": chance, "num_hidden_layers": 4}))
    values = {"data": f"{tmp_path}/*.txt", "vocabulary": vocabulary, "config": tmp_path / "config.json"}
    values["glue_dir"] = None
    values |= {"rows": "80-10-10,0-0-100", "tasks": "ner_features", "pretraining_learning_rate": 0.01, "epochs": 1}
    values |= {f"ner_{part}": tmp_path / f"{part}.conll" for part in ("train", "dev")}
    monkeypatch.setattr(task, "BiLSTMSettings", partial(task.BiLSTMSettings, width=8))
    monkeypatch.setattr(cost, "estimate", lambda *_: (60.0, 60.0))
    study(tmp_path / "out", study="masking", seed=1, **values)
    found = results(tmp_path / "out")
    assert [(row, list(scores)) for row, scores in found["scores"].items()] == [
        ("80-10-10", ["ner_features"]),
        ("0-0-100", ["ner_features"]),
    ]
    perplexities = found["perplexities"].values()
    assert all(1 < perplexity < chance for perplexity in perplexities)
    assert len({round(perplexity, 3) for perplexity in perplexities}) == 2  # Each mixture has masks of its own.

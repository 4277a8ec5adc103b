"""The command for the paper's studies, with a model of 8 units on an artificial language."""

import contextlib
import io
import itertools
import json
import logging
import re
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import keras_bert
from keras_bert.experiments.studies import cost
from keras_bert.tasks.classification.glue_tasks import TASKS
from tests.conftest import eagerly
from tests.pipelines.programs import EAGERLY, call, flags_of, killed_if, mistake, run
from tests.tasks.classification.glue_files import write_task

pytestmark = pytest.mark.tensorflow

PROGRAM = "pipelines.run_study"
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


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with text, a config and the files of two GLUE tasks."""
    made, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(0)
    for name, sentences in (("1", 30), ("2", 4)):  # The last one is held out.
        documents = ["\n".join(" ".join(rng.choice(list(LETTERS), 6)) for _ in range(sentences)) for _ in range(2)]
        (made / f"text-{name}.txt").write_text("\n\n".join(documents) + "\n")
    (made / "config.json").write_text(json.dumps(CONFIG))
    (made / "ner.txt").write_text("a B-PER\nb O\n\nc O\n")
    for name in ("mrpc", "sst2"):
        write_task(made / "glue", TASKS[name])
    return made


def flags(made, output, **changes):
    values = {
        "study": "positions",
        "scale": "demo",
        "data": f"{made}/text-*.txt",
        "config": made / "config.json",
        "phase": "length:16,steps:10,batch:8",
        "glue_dir": made / "glue",
        "output_dir": made / output,
        **changes,
    }
    return flags_of(values)


def study(made, output, **changes):
    """Runs a study eagerly in this process; returns what it prints and its messages."""
    log, messages = logging.getLogger("keras_bert"), io.StringIO()
    handler, level = logging.StreamHandler(messages), log.level
    with contextlib.ExitStack() as stack:
        log.addHandler(handler)
        stack.callback(log.removeHandler, handler)
        log.setLevel(logging.INFO)
        stack.callback(log.setLevel, level)
        stack.enter_context(mock.patch.object(cost, "_STEPS", 1))
        stack.enter_context(eagerly())
        return call(PROGRAM, *flags(made, output, **changes)), messages.getvalue()


STEPS = {"study": "steps", "rows": "mlm_100,ltr_20", "tasks": "mrpc", "learning_rate": "1e-2"}


@pytest.fixture(scope="module")
def whole(made):
    """The output of a study that was not interrupted."""
    return study(made, "whole", seed=1, **STEPS)


def results(made, name):
    return json.loads((made / name / "results.json").read_text())


def test_the_table_the_cost_and_the_settings(made, whole):
    out, messages = whole
    assert "2 pre-training runs of 10 steps and 2 fine-tuning runs on MRPC" in messages
    assert re.search(r"estimate: (less than )?\d+ minutes of pre-training and (less than )?\d+ minutes of fi", messages)
    assert out.count("Masked LM, 100 % of the steps") == 2
    found = results(made, "whole")
    assert {key: row["mrpc"]["runs"] for key, row in found["scores"].items()} == {"mlm_100": 1, "ltr_20": 1}
    folder = made / "whole" / "pretraining"
    # The model of 20 % of the steps is not that of the end of its pre-training.
    models = [keras_bert.load(folder / "ltr" / name).encoder for name in ("model-2", "model")]
    assert all(keras_bert.describe(model).causal for model in models)
    assert np.abs(np.array(models[0].weights[0]) - np.array(models[1].weights[0])).max() > 1e-5
    loss = json.loads((folder / "bert" / "result.json").read_text())["mlm_loss"]
    assert found["perplexities"] == {"mlm_100": pytest.approx(np.exp(loss))}
    page = (made / "whole" / "report.html").read_text()
    assert page.count("<svg") >= 2
    assert "pre-training steps" in page
    # Other settings are refused.
    arguments = {**STEPS, "phase": "length:16,steps:20,batch:4"}
    assert "has a study with other settings" in mistake(PROGRAM, *flags(made, "whole", **arguments))
    text = (made / "text-1.txt").read_text()
    (made / "text-1.txt").write_text(text.replace("a", "b"))  # Of the same size.
    try:
        message = mistake(PROGRAM, *flags(made, "whole", **STEPS))
        assert f"has a study with other settings: `content.{made.name}/text-1.txt` was" in message
    finally:
        (made / "text-1.txt").write_text(text)
    file = folder / "ltr" / "model-2" / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes((folder / "ltr" / "model" / file.name).read_bytes())
    try:
        message = mistake(PROGRAM, *flags(made, "whole", **STEPS))
        assert f"{folder}/ltr contains runs that started from another version of ltr/model-2" in message
    finally:
        file.write_bytes(content)


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_only_the_settings_asked_for_count(made):
    first = {"study": "steps", "rows": "mlm_100", "tasks": "mrpc", "seed": "1,2", "learning_rate": "1e-2"}
    study(made, "whole", **first)
    scores = results(made, "whole")["scores"]["mlm_100"]["mrpc"]
    # A diverged setting is shown, other limits of the examples have their own runs.
    messages = study(made, "whole", **{**first, "learning_rate": "1e20", "seed": 1})[1]
    assert "diverged" in messages
    assert np.isnan(results(made, "whole")["scores"]["mlm_100"]["mrpc"]["mean"])
    assert "diverged" in (made / "whole" / "results.md").read_text()
    out = study(made, "whole", **{**first, "max_train_examples": 20, "seed": 1})[0]
    assert "at most 20 training examples" in out
    study(made, "whole", **first)
    assert results(made, "whole")["scores"]["mlm_100"]["mrpc"] == scores
    assert scores["runs"] == 2


@pytest.mark.slow
def test_rivals(made):
    out, messages = study(made, "rivals", study="rivals", seed=1, rows="gpt,bilstm,elmo", tasks="mrpc")
    assert "2 pre-training runs of 10 steps and 3 fine-tuning runs on MRPC" in messages
    found = results(made, "rivals")
    assert list(found["scores"]) == ["gpt", "bilstm", "elmo"]
    assert list(found["perplexities"]) == ["gpt", "elmo"]
    assert "| Pre-OpenAI SOTA, published, not rebuilt |" in out
    assert "MRPC (f1)" in out
    ner = {f"ner_{part}": made / "ner.txt" for part in ("train", "dev")}
    assert "--tasks: the row bilstm serves the tasks of GLUE and squad. Received: ner" in mistake(
        PROGRAM, *flags(made, "rivals", study="rivals", rows="bilstm", tasks="ner", **ner)
    )


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_a_killed_study_resumes_to_the_same_table(made):
    study(made, "whole", seed="1,2", **STEPS)  # Adds a seed.
    arguments = flags(made, "killed", seed="1,2", **STEPS)
    for condition in ("name == 'ltr' and step == 5", "'seed=2' in name"):
        run(PROGRAM, *arguments, before=EAGERLY + killed_if(condition), status=-9)
    study(made, "killed", seed="1,2", **STEPS)
    assert results(made, "killed") == results(made, "whole")
    assert results(made, "killed")["scores"]["ltr_20"]["mrpc"]["runs"] == 2
    assert "nothing: all runs are finished" in study(made, "killed", seed="1,2", **STEPS)[1]


def test_mistakes(made):
    for changes, message in (
        ({"data": f"{made}/text-1.txt"}, "a single file. Expected several files, of which the last one is held out"),
        ({"rows": "learned,other"}, "--rows must be some of learned, sinusoid, none. Received: other"),
        ({"tasks": "squad"}, "the task squad needs --squad_train and --squad_dev. Received: no --squad_train"),
        ({"tasks": "cola,pos"}, "--tasks must be some of cola"),
        ({"study": "steps", "scale": "mini"}, "--config={made}/config.json: the task sst2 needs 128 positions."),
        ({"phase": "length:16"}, "--phase must look like length:128,steps:90000,batch:256. Received: 'length:16'"),
        ({"seed": "1,1"}, "--seed must be a list without duplicates. Received: 1,1"),
        ({"seed": "-1"}, "--seed must be from 0 to 4294967295. Received: -1"),
        ({"rows": ""}, "--rows must be a list without duplicates. Received:"),
        ({"learning_rate": "-1"}, "--learning_rate must be a positive number. Received: -1.0"),
        ({"pretraining_learning_rate": 0}, "--pretraining_learning_rate must be a positive number. Received: 0.0"),
        (
            {"study": "steps", "tasks": "mrpc", "phase": "length:16,steps:19,batch:4"},
            "rows with a share of the steps need a number of steps that 10 divides. Received: 19",
        ),
        ({"squad_dev": made / "none.json"}, "none.json: no such file"),
    ):
        assert message.format(made=made) in mistake(PROGRAM, *flags(made, "mistakes", **changes)), message


@pytest.mark.slow
def test_demonstrations_on_real_data(data, tmp_path):
    for number, book in enumerate(sorted((data / "corpus" / "books").glob("*.txt"))[:2]):
        with open(book) as file:
            (tmp_path / f"{number}.txt").write_text("".join(itertools.islice(file, 6000)))
    texts = {"data": f"{tmp_path}/*.txt", "config": None, "phase": None, "seed": 1, "glue_dir": data / "glue"}
    names = {f"ner_{part}": data / "ner" / "conll2003_iob1" / f"eng.{end}" for part, end in PARTS.items()}
    for study, more in (
        ("masking", {**names, "rows": "80-10-10,0-0-100", "tasks": "sst2,ner_features"}),
        ("positions", {"rows": "sinusoid,none", "tasks": "mrpc", "vocab": tmp_path / "masking" / "vocab.txt"}),
    ):
        run(PROGRAM, *flags(tmp_path, study, **{**texts, "study": study, **more}))
        found = results(tmp_path, study)
        assert list(found["scores"]) == list(found["perplexities"]) == more["rows"].split(",")
        assert all(list(scores) == more["tasks"].split(",") for scores in found["scores"].values())
        assert all(1 < perplexity < 2000 for perplexity in found["perplexities"].values())  # Better than chance.
    # Each mixture has masks of its own.
    assert len({round(perplexity, 3) for perplexity in results(tmp_path, "masking")["perplexities"].values()}) == 2


PARTS = {"train": "train", "dev": "testa"}

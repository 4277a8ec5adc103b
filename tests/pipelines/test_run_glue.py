"""The command as a user runs it, on tiny data."""

import json
import subprocess
import sys

import numpy as np
import pytest

import keras_bert

pytestmark = pytest.mark.tensorflow


def slow(*values):
    """One more start of the program."""
    return pytest.param(*values, marks=pytest.mark.slow)


ROWS = ["a b c", "c d", "e f g h", "b", "g h a", "d e f"] * 3


@pytest.fixture
def start(build, pieces, tmp_path):
    """A model to start from, data of two tasks, and a function that runs the command."""
    keras_bert.save(build("encoder"), tmp_path / "bert", pieces)
    for split in ("train", "dev", "test"):
        label = {"train": "\t{}", "dev": "\t{}", "test": ""}[split]
        lines = [f"{text}{label.format(index % 2)}" for index, text in enumerate(ROWS)]
        header = "sentence\tlabel"
        if split == "test":
            header, lines = "index\tsentence", [f"{index}\t{line}" for index, line in enumerate(lines)]
        folder = tmp_path / "glue" / "SST-2"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{split}.tsv").write_text("\n".join([header, *lines]) + "\n")

    def run(*arguments, output="out"):
        command = [sys.executable, "-m", "pipelines.run_glue", "--task=sst2", f"--data_dir={tmp_path}/glue"]
        command += [f"--model={tmp_path}/bert", f"--output_dir={tmp_path}/{output}", "--sequence_length=16", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False), tmp_path / output

    return run


def test_a_grid_end_to_end(start):
    arguments = ("--epochs=1", "--batch_size=6", "--learning_rate=1e-3,1e-4", "--seed=1,2")
    done, output = start(*arguments)
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads((output / "results.json").read_text())
    assert [(run["setting"]["learning_rate"], run["setting"]["seed"]) for run in report["runs"]] == [
        (1e-3, 1),
        (1e-3, 2),
        (1e-4, 1),
        (1e-4, 2),
    ]
    assert report["best"]["scores"]["accuracy"] == max(run["scores"]["accuracy"] for run in report["runs"])
    assert {row["runs"] for row in report["summary"]} == {2}
    assert "| learning_rate=0.001, batch_size=6, epochs=1 | 2 |" in (output / "results.md").read_text()
    assert (output / "submission" / "SST-2.tsv").read_text().splitlines()[0] == "index\tprediction"
    assert len((output / "submission" / "SST-2.tsv").read_text().splitlines()) == 1 + len(ROWS)

    # What was kept gives what the best run gave.
    import tensorflow as tf

    bert = keras_bert.load(output / "model")
    assert bert.labels == ["negative", "positive"]
    inputs = bert.preprocessor(16)(ROWS)
    logits = bert.model()(inputs)["logits"].numpy()
    name = ",".join(f"{key}={value}" for key, value in report["best"]["setting"].items())
    np.testing.assert_allclose(logits, np.load(output / "runs" / name / "dev.npz")["logits"], atol=1e-4)
    served = tf.saved_model.load(output / "saved_model" / "1").signatures["serving_default"]
    answers = served(text=tf.constant(ROWS))["label"].numpy()
    assert [label.decode() for label in answers] == [bert.labels[index] for index in logits.argmax(-1)]

    # Finished runs are not run again; the flags can be given as a file.
    before = (output / "model" / "model.safetensors").stat().st_mtime_ns
    again, _ = start(f"--flagfile={output}/flags.txt")
    assert again.returncode == 0, again.stderr[-2000:]
    assert "evaluated" not in again.stderr
    assert json.loads((output / "results.json").read_text()) == report
    assert (output / "model" / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learning_rate=fast"], "error: --learning_rate must be numbers with commas between. Received: ['fast']"),
        slow(["--seed=1,1"], "error: `seed` must have values, each once. Received: seed=[1, 1]"),
        slow(["--task=rte"], "error: `data_dir` has no train.tsv of "),
    ],
)
def test_a_users_mistake_is_one_line_and_status_2(start, arguments, message):
    done, _ = start(*arguments)
    assert done.returncode == 2, done.stderr[-2000:]
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert line.startswith(message)

"""The command as a user runs it, on tiny data in the official layout."""

import dataclasses
import json
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

import keras_bert
from keras_bert.tasks.glue.data import TASKS
from keras_bert.training.metrics import accuracy
from tests.pipelines.programs import finish, start

pytestmark = pytest.mark.tensorflow


def slow(*values):
    """One more start of the program."""
    return pytest.param(*values, marks=pytest.mark.slow)


# Of one length, so that each function is traced once.
WORDS = ["a b c", "c d a", "e f g", "b c h", "g h a", "d e f"] * 2
SPLITS = {name: [split for split in ("train", "dev", "test") if split in task.files] for name, task in TASKS.items()}


def write_task(folder, task, test_rows=None):
    """Files of a task as GLUE has them."""
    folder = folder / task.title
    folder.mkdir(parents=True, exist_ok=True)
    sentences = [column for column in (task.text, task.pair) if column]
    for split in SPLITS[task.name]:
        columns = ["index", *sentences, *([task.label] if split != "test" else [])]
        header = None
        if task.header and split != "test":
            columns, header = task.header, ""
        rows = []
        for index, words in enumerate(WORDS if split != "test" else (WORDS * 50)[: test_rows or len(WORDS)]):
            label = task.strings[index % len(task.strings)] if task.strings else f"{index % 6}.5"
            cells = {"index": str(index), task.text: words, task.label: label}
            cells[task.pair] = WORDS[(index * 5) % len(WORDS)]
            rows.append("\t".join(cells.get(column, "-") for column in columns))
        lines = rows if header == "" else ["\t".join(columns), *rows]
        (folder / task.files[split][0]).write_text("\n".join(lines) + "\n")


@pytest.fixture
def glue(build, pieces, tmp_path):
    """A model to start from, and a function that starts the command."""
    keras_bert.save(build("encoder"), tmp_path / "bert", pieces)

    def started(*arguments, output="out", **options):
        flags = ["--sequence_length=16", *arguments, f"--output_dir={tmp_path}/{output}"]
        if not any(argument.startswith(("--model", "--flagfile")) for argument in arguments):
            flags.append(f"--model={tmp_path}/bert")
        return start("pipelines.run_glue", *flags, **options)

    return started


def test_all_tasks(glue, build, pieces, tmp_path):
    for task in TASKS.values():
        write_task(tmp_path, task)
    config = dataclasses.replace(keras_bert.describe(build("encoder")).config, num_hidden_layers=1)
    keras_bert.save(keras_bert.build_encoder(config), tmp_path / "small", pieces)
    columns = [
        "Lexical Semantics",
        "Predicate-Argument Structure",
        "Logic",
        "Knowledge",
        "Premise",
        "Hypothesis",
        "Label",
    ]
    rows = [
        ["", "", "Negation", "", words, words, label] for words, label in zip(WORDS, TASKS["ax"].labels, strict=False)
    ]
    (tmp_path / "diagnostic-full.tsv").write_text("\n".join("\t".join(row) for row in [columns, *rows]) + "\n")
    program = glue(
        "--task=all",
        f"--model={tmp_path}/small",
        f"--diagnostics={tmp_path}/diagnostic-full.tsv",
        f"--data_dir={tmp_path}",
        "--epochs=1",
        "--batch_size=6",
        "--learning_rate=1e-3",
        "--init_from=rte",
    )
    _, told = finish(program)
    output = tmp_path / "out"
    scores = json.loads((output / "results.json").read_text())
    names = ["rte", "cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli_mismatched", "ax", "qnli", "wnli"]
    assert list(scores) == names
    header, _, ours, base, _, _, average = (output / "results.md").read_text().splitlines()[2:]
    assert header.count("|") == ours.count("|") == 14
    assert average.startswith("As the leaderboard averages")
    diagnostics = json.loads((output / "mnli" / "results.json").read_text())["diagnostics"]
    assert diagnostics["all"] == diagnostics["Logic: Negation"] == scores["ax"]["matthews_correlation"]
    assert base.endswith("| 79.6 |")
    assert json.loads((output / "cola" / "results.json").read_text())["facts"]["start"].startswith(str(output / "rte"))
    for task in TASKS.values():
        lines = (output / "submission" / task.server_file).read_text().splitlines()
        assert len(lines) == 1 + len(WORDS)
        assert not task.strings or {line.split("\t")[1] for line in lines[1:]} <= set(task.strings)
    assert "no submission.zip" in told
    assert "CoLA.tsv: expected 1063 predictions, got 12" in told


@pytest.mark.slow
def test_a_users_own_table_on_two_devices(glue, tmp_path):
    labels = {"train": ["10", "9", "9", "9"], "dev": ["9", "10"], "test": ["10", "9"]}
    for split, column in labels.items():
        rows = [f'"{text}, well",{label}' for text, label in zip(WORDS, column * 3, strict=False)]
        rows.append("a row without stars\n" if split == "train" else "")
        (tmp_path / f"{split}.csv").write_text("\n".join(["review,stars", *rows]) + "\n")
    files = [f"--{split}_file={tmp_path}/{split}.csv" for split in labels]
    columns = ("--text_column=review", "--label_column=stars", "--skip_bad_rows=1")
    settings = ("--epochs=1", "--batch_size=4", "--learning_rate=1e-3", "--freeze_layers=1", "--layer_decay=0.9")
    grid = ("--seed=1,2", "--ensemble=2", "--strategy=mirrored", "--gradient_accumulation=2")
    said, told = finish(glue("--task=classification", *files, *columns, *settings, *grid, devices=2))
    output = tmp_path / "out"
    assert (
        "with devices ('/job:localhost/replica:0/task:0/device:CPU:0', '/job:localhost/replica:0/task:0/device:CPU:1')"
        in told
    )
    assert "(the 2 best runs together)" in (output / "results.md").read_text()
    assert "9: 9 (75.0%), 10: 3 (25.0%)" in told
    assert "train.csv: left out 1 rows that cannot be read, first line 14" in told
    assert "test: accuracy " in said
    # What is frozen is as it was.
    before, after = keras_bert.load(tmp_path / "bert").encoder, keras_bert.load(output / "model")
    assert after.labels == ["9", "10"]
    changed = [
        weight.path
        for weight, other in zip(before.weights, after.encoder.weights, strict=True)
        if not np.array_equal(weight, other)
    ]
    assert changed
    assert not [path for path in changed if path.startswith(("token_embedding", "embeddings", "block_0"))]
    header, *lines = (output / "predictions.tsv").read_text().splitlines()
    assert header == "label\t9\t10"
    assert len(lines) == 6
    probabilities = np.array([line.split("\t")[1:] for line in lines], float)
    np.testing.assert_allclose(probabilities.sum(-1), 1, atol=2e-4)


@pytest.mark.slow
def test_a_grid_end_to_end(glue, tmp_path):
    write_task(tmp_path, TASKS["wnli"], test_rows=146)
    arguments = ("--task=wnli", "--epochs=1", "--batch_size=6", "--learning_rate=1e-3,1e-4", "--seed=1,2")
    said, _ = finish(glue(*arguments, f"--data_dir={tmp_path}", "--ensemble=2"))
    output = tmp_path / "out"
    report = json.loads((output / "results.json").read_text())
    assert [(run["setting"]["learning_rate"], run["setting"]["seed"]) for run in report["runs"]] == [
        (1e-4, 1),
        (1e-4, 2),
        (1e-3, 1),
        (1e-3, 2),
    ]
    assert report["best"]["scores"]["accuracy"] == max(run["scores"]["accuracy"] for run in report["runs"])
    assert {row["runs"] for row in report["summary"]} == {2}
    results = (output / "results.md").read_text()
    assert "| learning_rate=0.001, batch_size=6, epochs=1 | 2 |" in results
    assert "not_entailment: 6 (50.0%)" in results
    assert "learning rate" in (output / "report.html").read_text()
    assert f"next: python -m pipelines.predict --model={output}/model " in said

    # What was kept gives what the best run gave.
    import tensorflow as tf

    bert = keras_bert.load(output / "model")
    assert (bert.labels, bert.pair, bert.sequence_length) == (["not_entailment", "entailment"], True, 16)
    others = [WORDS[(index * 5) % len(WORDS)] for index in range(len(WORDS))]
    logits = bert.model()(bert.preprocessor(16)((WORDS, others)))["logits"].numpy()
    saved = [
        np.load(output / "runs" / ",".join(f"{key}={value}" for key, value in setting.items()) / "dev.npz")["wnli"]
        for setting in report["ensemble"]
    ]
    np.testing.assert_allclose(logits, saved[0], atol=1e-4)
    served = tf.saved_model.load(output / "saved_model" / "1").signatures["serving_default"]
    answers = served(text=tf.constant(WORDS), pair=tf.constant(others))["label"].numpy()
    assert [label.decode() for label in answers] == [bert.labels[index] for index in logits.argmax(-1)]

    # The ensemble is the mean of the two best runs' probabilities; all eleven files are in the archive.
    mean = np.mean([np.exp(part) / np.exp(part).sum(-1, keepdims=True) for part in saved], 0)
    assert report["scores"]["wnli"] == {"accuracy": accuracy(np.arange(len(WORDS)) % 2, mean.argmax(-1))}
    with zipfile.ZipFile(output / "submission.zip") as archive:
        assert len(archive.namelist()) == 11
        assert archive.read("WNLI.tsv").count(b"\n") == 1 + 146

    # Finished runs are not run again, a larger grid adds to them; the flags can be given as a file.
    before = (output / "model" / "model.safetensors").stat().st_mtime_ns
    _, again = finish(glue(f"--flagfile={output}/flags.txt"))
    assert "evaluated" not in again
    assert json.loads((output / "results.json").read_text()) == report
    assert (output / "model" / "model.safetensors").stat().st_mtime_ns == before

    # Runs of other settings are not mixed with these.
    _, other = finish(glue(f"--flagfile={output}/flags.txt", "--warmup=0.5"), 2)
    assert "has runs of other settings: `warmup` was 0.1, is 0.5" in other


@pytest.mark.slow
def test_a_grid_that_is_terminated_goes_on(glue, tmp_path):
    write_task(tmp_path, TASKS["wnli"])
    arguments = ["--task=wnli", f"--data_dir={tmp_path}", "--batch_size=6", "--epochs=20", "--learning_rate=1e-3"]
    arguments += ["--seed=1,2"]
    whole, program = glue(*arguments, output="whole"), glue(*arguments, output="cut")
    expected, output = tmp_path / "whole", tmp_path / "cut"
    first, second = (output / "runs" / f"learning_rate=0.001,batch_size=6,epochs=20,seed={seed}" for seed in (1, 2))
    while not list(second.glob("snapshots/*")):
        assert program.poll() is None
        time.sleep(0.05)
    program.send_signal(signal.SIGTERM)
    finish(program, 143)
    before = (first / "metrics.jsonl").read_bytes()
    finish(glue(*arguments, output="cut"))
    finish(whole)
    assert (first / "metrics.jsonl").read_bytes() == before
    assert (
        json.loads((output / "results.json").read_text())["runs"]
        == json.loads((expected / "results.json").read_text())["runs"]
    )
    for seed in (1, 2):
        name = f"runs/learning_rate=0.001,batch_size=6,epochs=20,seed={seed}/dev.npz"
        np.testing.assert_array_equal(np.load(output / name)["wnli"], np.load(expected / name)["wnli"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        slow(["--learning_rate=fast"], "--learning_rate must be numbers with commas between. Received: ['fast']"),
        slow(["--seed=1,1"], "`seed` must have values, each once. Received: seed=[1, 1]"),
        slow(["--task=rte"], "`data_dir` has no train.tsv of "),
        slow(["--task=sst"], "--task must be of cola, sst2, "),
        slow(["--task=wnli,wnli"], "--task has a task twice"),
        slow(["--task=regression"], "--task=regression needs --train_file and --dev_file"),
        slow(["--train_file=a.csv"], "--train_file: for --task=classification or regression. Received: --task=wnli"),
        slow(["--init_from=mnli"], "--init_from=mnli must be a task of this run or a folder"),
        slow(["--model="], "--model is needed for wnli"),
        slow(["--freeze_layers=3"], "`count` must be from 0 to the 2 blocks of the model. Received: count=3"),
    ],
)
def test_a_users_mistake_is_one_line_and_status_2(glue, tmp_path, arguments, message):
    write_task(tmp_path, TASKS["wnli"])
    _, errors = finish(glue("--task=wnli", f"--data_dir={tmp_path}", *arguments), 2)
    (line,) = [line for line in errors.splitlines() if line.startswith("error:")]
    assert line.startswith(f"error: {message}")


@pytest.mark.slow
def test_recipes_name_flags_that_there_are():
    program = """
import pathlib, sys
from absl import flags
import pipelines.run_glue as run_glue
for path in sorted(pathlib.Path("pipelines/recipes").glob("*.txt")):
    if "pipelines.run_glue " not in path.read_text():
        continue
    flags.FLAGS.unparse_flags()
    flags.FLAGS(["run_glue", f"--flagfile={path}", "--output_dir=out"])
    print(path.name, run_glue._names())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "rte_after_mnli.txt ['mnli', 'rte', 'mrpc', 'stsb']" in done.stdout
    assert len(done.stdout.splitlines()) == 4, done.stdout


@pytest.mark.slow
def test_two_workers_write_once(glue, tmp_path, two_addresses):
    write_task(tmp_path, TASKS["wnli"])
    arguments = ["--task=wnli", f"--data_dir={tmp_path}", "--epochs=1", "--batch_size=6", "--learning_rate=1e-3"]
    tasks = [{"cluster": {"worker": two_addresses}, "task": {"type": "worker", "index": index}} for index in range(2)]
    workers = [glue(*arguments, output="both", TF_CONFIG=json.dumps(task)) for task in tasks]
    printed, output = [finish(worker)[0] for worker in workers], tmp_path / "both"
    assert ["next: " in out for out in printed] == [True, False]
    name = "runs/learning_rate=0.001,batch_size=6,epochs=1,seed=1/dev.npz"
    assert json.loads((output / "results.json").read_text())["scores"].keys() == {"wnli"}
    bert = keras_bert.load(output / "model")
    others = [WORDS[(index * 5) % len(WORDS)] for index in range(len(WORDS))]
    logits = bert.model()(bert.preprocessor(16)((WORDS, others)))["logits"]
    np.testing.assert_allclose(np.load(output / name)["wnli"], logits, atol=1e-4)

"""Mistakes that all commands find before TensorFlow starts."""

import json
import os
import subprocess
import sys

from keras_bert.files import one_writer
from pipelines.early_checks import is_first_worker

# Runs commands in one process in which TensorFlow cannot be imported.
RUN = """
import contextlib, io, json, runpy, sys
sys.modules["tensorflow"] = None
for name, *sys.argv[1:] in json.load(sys.stdin):
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.suppress(SystemExit):
        runpy.run_module(name if "." in name else f"pipelines.{name}", run_name="__main__", alter_sys=True)
    print(json.dumps(printed.getvalue()))
"""
OWN, BOOKS, OUTPUT = ["--train_file=t.csv", "--dev_file=t.csv"], "--model=bert_tiny_books", "--output_dir=o"
GLUE = ["run_glue", "--task=classification", *OWN]
PRETRAINING = ["run_pretraining", "--data=.", OUTPUT]
STUDY = ["research.run_study", "--study=masking", "--data=*.txt", OUTPUT]
TEXTS = ["--input=texts.txt", BOOKS]
CASES = [
    ([*GLUE, OUTPUT, "--model=bert_tiny_bookz"], "bert_tiny_bookz: no such checkpoint. Did you mean bert_tiny_books?"),
    (["predict", "--model=bert_tiny_bookz", "a"], "bert_tiny_bookz: no such checkpoint. Did you mean bert_tiny_books?"),
    (
        ["predict", "--plugins=no_module", BOOKS, "a"],
        "--plugins must be modules that Python finds. Received: --plugins=no_mo",
    ),
    (["convert_checkpoint", "--model=t5", OUTPUT], "t5/config.json: `model_type` must be one of bert, distilbert"),
    (["export_saved_model", BOOKS, "--output_dir=t.csv/1"], "--output_dir must be a folder to which files can be"),
    (["show_attention", BOOKS, "a", "--output=t.csv/a.html"], "--output must be in a folder to which files can be"),
    (
        ["extract_features", *TEXTS, "--output=o.npz", "--sequence_length=513"],
        "--sequence_length: expected at most 512",
    ),
    ([*GLUE, BOOKS, OUTPUT, "--freeze_layers=5"], "--freeze_layers: expected from 0 to 4, the number of blocks."),
    ([*GLUE, BOOKS, OUTPUT, "--report_to=wandbb"], "--report_to must be one of tensorboard, wandb, mlflow."),
    ([*GLUE, BOOKS, OUTPUT, "--strategy=mirored"], "--strategy must be one of auto, one, mirrored, "),
    ([*PRETRAINING, "--phase=length:8,steps:1,batch:1", "--config=tinny"], "unknown size name 'tinny'."),
    ([*PRETRAINING, "--phase=length:600,steps:1,batch:1", BOOKS], "--phase: expected at most 512, the number of"),
    ([*GLUE, "--model=none/at/all", OUTPUT, "--text_column=b"], "t.csv:1: no column `b`. It has: 'text', 'label'"),
    (["run_squad", "--train_file=t.csv", "--dev_file=b", "--model=bert", OUTPUT], "--dev_file=b: no such file"),
    ([*STUDY, "--rows=a"], "--rows must be some of"),
    ([*STUDY, "--tasks=a"], "--tasks must be some of cola"),
]
CASES += [  # Another run writes to the folder.
    ([*command, "--output_dir=held"], "another run writes to held: process ")
    for command in (
        [*GLUE, BOOKS],
        ["run_pretraining", "--data=.", BOOKS, "--phase=length:8,steps:1,batch:1"],
        ["research.run_study", "--study=masking", "--data=*.txt"],
    )
]


def test_mistakes_are_found_without_tensorflow(tmp_path):
    (tmp_path / "t5").mkdir()
    (tmp_path / "t5" / "config.json").write_text(json.dumps({"model_type": "t5", "vocab_size": 8}))
    (tmp_path / "t.csv").write_text("text,label\na,0\nb,1\n")
    (tmp_path / "texts.txt").write_text("a\n")
    commands = json.dumps([command for command, _ in CASES])
    with one_writer(tmp_path / "held"):
        done = subprocess.run(
            [sys.executable, "-c", RUN],
            input=commands,
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.getcwd(), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        )
    assert done.returncode == 0, done.stderr[-2000:]
    for (command, message), error in zip(CASES, map(json.loads, done.stdout.splitlines()), strict=True):
        assert error.startswith(f"error: {message}"), (command, error)
    assert not (tmp_path / "o").exists()
    assert [path.name for path in (tmp_path / "held").iterdir()] == [".lock"]


def test_one_of_several_workers_writes(monkeypatch):
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}}
    for text, expected in [("", True), ("{", True)] + [
        (json.dumps({**cluster, "task": {"type": "worker", "index": index}}), index == 0) for index in range(2)
    ]:
        monkeypatch.setenv("TF_CONFIG", text)
        assert is_first_worker() == expected, text

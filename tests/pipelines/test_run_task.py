"""The command for any task: its settings as flags, its data, and the next command.

tests/extending trains with it, on tasks of plugins.
"""

import json

import pytest

pytest.importorskip("tensorflow")

from pipelines import run_task
from pipelines.arguments import flag_fields, help_page
from tests.pipelines.programs import flags_of, parsed

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.run_task"


def arguments(folder, **changes):
    values = {
        "task": "tagging",
        "train_file": folder / "train.jsonl",
        "dev_file": folder / "dev.jsonl",
        "model": "bert_tiny_books",
        "output_dir": folder / "out",
    }
    _, found = parsed(PROGRAM, *flags_of(values, **changes))
    return found


def test_flags_without_a_task():
    assert run_task.Arguments.of([]) is run_task.Arguments
    assert run_task.Arguments.of(["--model=bert"]) is run_task.Arguments


def test_the_settings_of_the_task_are_flags():
    own = flag_fields(run_task.Arguments)
    fields = flag_fields(run_task.Arguments.of(["--task=tagging"]))
    assert "scheme" in fields
    assert "scheme" not in own
    assert set(own) <= set(fields)
    page = help_page(run_task.__doc__, run_task.Arguments.of(["--task=tagging"]), "")
    assert "\n  --scheme=" in page


def test_an_unknown_task():
    with pytest.raises(ValueError, match="`task` .* Did you mean 'tagging'"):
        run_task.Arguments.of(["--task=taging"])


def test_the_data_are_read_by_the_task(tmp_path):
    row = {"tokens": ["Ada", "runs"], "tags": ["B-PER", "O"]}
    (tmp_path / "train.jsonl").write_text(2 * (json.dumps(row) + "\n"))
    (tmp_path / "dev.jsonl").write_text(json.dumps(row) + "\n")
    data = arguments(tmp_path).data
    assert data.train.words == [["Ada", "runs"], ["Ada", "runs"]]
    assert data.dev.words == [["Ada", "runs"]]


def test_the_next_command_reads_the_file_of_dev(tmp_path):
    """Or, without one, that of training; names are quoted for the shell."""
    assert arguments(tmp_path).texts == f"--input={tmp_path}/dev.jsonl"
    without_dev = arguments(tmp_path, dev_file=None, folds=2, train_file="my rows.jsonl")
    assert without_dev.texts == "--input='my rows.jsonl'"


def test_the_next_command_imports_the_plugins(tmp_path):
    texts = arguments(tmp_path, plugins="json,string").texts
    assert texts == f"--plugins=json,string --input={tmp_path}/dev.jsonl"

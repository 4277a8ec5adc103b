"""What other processes need to import a user's classes, and answers in the form of JSON."""

import pathlib
import sys
import types

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import keras_bert
from keras_bert.testing import processes
from keras_bert.testing.promises import DifferenceError, SkippedError
from tests.tasks.files import write

FOLDER = pathlib.Path(__file__).resolve().parents[2]


class Mine:
    """A class of a module in a file."""


def test_the_modules_of_classes_and_where_they_are():
    assert processes.plugins_of(Mine, keras_bert.Head) == {Mine.__module__: FOLDER}
    assert processes.plugins_of(keras_bert.Head) == {}


@pytest.mark.parametrize("name", ["outer/inner/__init__.py", "outer/inner.py"])
def test_a_module_in_a_package_is_imported_from_above_it(tmp_path, monkeypatch, name):
    module = types.ModuleType("outer.inner")
    monkeypatch.setattr(module, "__file__", str(write(tmp_path / name, "")), raising=False)
    monkeypatch.setitem(sys.modules, "outer.inner", module)
    cls = type("Theirs", (), {"__module__": "outer.inner"})
    assert processes.plugins_of(cls) == {"outer.inner": tmp_path}


def local_class():
    class Local:
        """A class of a function."""

    return Local


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (type("Typed", (), {"__module__": "__main__"}), "in no file"),
        (type("Typed", (), {"__module__": "no.such.module"}), "in no file"),
        (local_class(), "made by a function"),
    ],
)
def test_classes_that_no_other_process_can_import(cls, reason):
    with pytest.raises(SkippedError, match=reason):
        processes.plugins_of(cls)


def test_answers_are_compared_in_the_form_of_json():
    expected = [{"label": "x", "scores": {"x": np.float32(0.5)}, "span": (1, 2)}]
    processes.expect_answers([{"label": "x", "scores": {"x": 0.5}, "span": [1, 2]}], expected, "the answers")
    with pytest.raises(DifferenceError, match="the answers .*'x'.*'y'"):
        processes.expect_answers([{"label": "y", "scores": {"x": 0.5}, "span": [1, 2]}], expected, "the answers")


def test_answers_at_the_shell(monkeypatch):
    """Columns of the rows are left out of the lines; an answer named like a column has another name there."""

    def run(command, **options):
        (output,) = [flag for flag in command if flag.startswith("--output=")]
        write(pathlib.Path(output.partition("=")[2]), '{"text": "a", "predicted_text": "b", "score": 0.5}\n')
        assert "--plugins=mine" in command
        assert options["env"]["PYTHONPATH"].split(":")[1] == "/elsewhere"
        return types.SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(processes.subprocess, "run", run)
    found = processes.predicted_at_the_shell("model", [{"text": "a"}], {"mine": "/elsewhere"})
    assert found == [{"text": "b", "score": 0.5}]


def test_a_command_that_fails_tells_its_last_lines(monkeypatch):
    def run(command, **options):
        return types.SimpleNamespace(returncode=2, stderr="one\ntwo\nthree\nValueError: wrong\n")

    monkeypatch.setattr(processes.subprocess, "run", run)
    with pytest.raises(DifferenceError, match="status 2: two three ValueError: wrong"):
        processes.predicted_at_the_shell("model", [{"text": "a"}], {})

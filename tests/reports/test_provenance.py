"""Date, machine, versions and command of a study."""

import platform
import re
import sys
import types

import pytest

from keras_bert.reports import provenance


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (187, "3 min 07 s"),
        (3600, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_duration(seconds, text):
    assert provenance.duration(seconds) == text


def test_the_entries_of_a_finished_run(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["keras-bert run_glue", "--model=my model"])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)

    facts = provenance.environment(187)

    assert list(facts) == ["date", "duration of the runs", "machine", "versions", "command"]
    assert facts["duration of the runs"] == "3 min 07 s"
    assert re.fullmatch(r"[0-9]+ \S+ cores?, [0-9]+ GB memory, .+", facts["machine"])
    assert f"Python {platform.python_version()}" in facts["versions"]
    assert facts["command"] == "keras-bert run_glue '--model=my model'"


def test_a_duration_that_is_unknown_is_left_out_and_replicas_are_counted():
    facts = provenance.environment(0, replicas=4)
    assert "duration of the runs" not in facts
    assert facts["machine"].endswith("; 4 replicas")


def test_a_module_is_named_as_python_starts_it(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/checkout/pipelines/run_glue.py", "--task=mrpc"])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", types.SimpleNamespace(name="pipelines.run_glue"))
    assert provenance.command() == "python -m pipelines.run_glue --task=mrpc"


@pytest.mark.parametrize("program", ["", "-c"])
def test_an_interactive_session_has_no_command(monkeypatch, program):
    monkeypatch.setattr(sys, "argv", [program])
    assert provenance.command() == ""

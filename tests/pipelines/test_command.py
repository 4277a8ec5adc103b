"""What all commands share: `--help`, required flags, messages, Ctrl-C."""

import os
import pathlib
import pty
import re
import subprocess
import sys

import pytest

from pipelines.command import spelling
from tests.pipelines.shell import FOLDER, find_commands, python

HELP = """
import contextlib, io, runpy, sys
for name in sys.argv[1:]:
    sys.argv = [name, "--help"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_module(f"pipelines.{name}", run_name="__main__")
    print(f"COMMAND {name}\\n{printed.getvalue()}")
print("HEAVY", [name for name in ("tensorflow", "keras", "scipy", "sklearn") if name in sys.modules])
"""
RUN = """
from pipelines import arguments, command
def main(arguments): {}
command.run("A command.", arguments.CommandArguments, main, tensorflow=False)
"""


def test_help_lists_all_flags_without_tensorflow():
    commands = find_commands()
    assert len(commands) >= 14
    printed = python("-c", HELP, *commands).stdout
    *pages, end = re.split(r"^(?=COMMAND |HEAVY )", printed, flags=re.MULTILINE)[1:]
    assert end == "HEAVY []\n"
    for name, page in zip(commands, pages, strict=True):
        source = (FOLDER / f"{name}.py").read_text()
        defined = re.findall(r"^    (\w+): .*? = flag\(", source, re.MULTILINE)
        listed = re.findall(r"^  --(?:\[no\])?(\w+)", page, re.MULTILINE)
        assert page.startswith(f"COMMAND {name}\n")
        assert f"python -m pipelines.{name}" in page
        assert set(defined) <= set(listed)
        assert max(map(len, page.splitlines())) <= 100
        assert "\nother:\n  --[no]verbose" in page


def test_all_missing_flags_are_said_in_one_line():
    done = python("-m", "pipelines.run_pretraining", "--config=tiny")
    assert re.findall(r"--(\w+) is required", done.stderr) == ["data", "phases", "output_dir"]
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert done.returncode == 2


def test_the_spelling_of_a_command_works_in_the_users_shell(monkeypatch, tmp_path):
    folder = pathlib.Path(sys.executable).parent
    monkeypatch.chdir(folder.parents[1])
    monkeypatch.setenv("PATH", str(folder))
    assert spelling("serve") == "python -m pipelines.serve"
    monkeypatch.setenv("PATH", "/nowhere")
    assert spelling("serve") == f"{folder.parent.name}/bin/python -m pipelines.serve"
    monkeypatch.chdir(tmp_path)
    assert spelling("serve") == f"{folder}/python -m pipelines.serve"


# JAX crashes when Python ends in a computation: nothing runs at exit.
EXIT_WITH_JAX = "import atexit, sys; sys.modules['jax'] = atexit.register(print, 'exit')"
RESUMING = RUN.replace("tensorflow=False", "resumes=True, tensorflow=False")
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        (RUN.format("raise KeyboardInterrupt"), 130, "\ninterrupted\n"),
        # During the imports of a command.
        ("import pipelines\nraise KeyboardInterrupt", 130, "\ninterrupted\n"),
        (RUN.format(KILL), 143, "\nterminated\n"),
        (RESUMING.format(KILL), 143, "\nterminated; repeat the command to continue\n"),
        (EXIT_WITH_JAX + RUN.format("sys.exit(143)"), 143, ""),
        (RUN.format("raise SystemExit(1)"), 1, ""),
    ],
)
def test_signals_end_a_command_with_one_line(code, status, message):
    done = python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", message)


@pytest.mark.parametrize(
    "arguments",
    [["-c", RUN.format("print('line')")], ["-m", "pipelines.train_vocab", "--help"]],
    ids=["a line", "the help"],
)
def test_a_closed_pipe_is_no_error(arguments):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, *arguments], **pipes) as program:
        program.stdout.close()
        assert program.stderr.read() == b""
        assert program.wait() == 0


# A package in place of TensorFlow, which takes seconds to import.
TENSORFLOW = """
class config:
    def list_physical_devices():
        pass
"""
# The place of that package, and a command that needs TensorFlow.
PATH = "import sys; sys.path.insert(0, {!r})\n"
WITH_TENSORFLOW = RUN.format("print('done')").replace(", tensorflow=False", "")


@pytest.fixture
def path(tmp_path):
    """Code that finds the package."""
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    return PATH.format(str(tmp_path))


def test_a_log_says_that_tensorflow_starts(path):
    done = python("-c", path + WITH_TENSORFLOW)
    assert done.stdout == "done\n"
    assert done.stderr == "starting TensorFlow ...\n"


def test_a_log_says_nothing_where_tensorflow_has_started(path):
    done = python("-c", f"{path}import tensorflow\n{WITH_TENSORFLOW}")
    assert done.stdout == "done\n"
    assert done.stderr == ""


def test_on_a_terminal_the_line_vanishes(path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", path + WITH_TENSORFLOW]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, check=True)
    os.close(theirs)
    assert os.read(ours, 1000) == b"starting TensorFlow ...\r" + b" " * 23 + b"\r"
    os.close(ours)

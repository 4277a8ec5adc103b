"""The console command `keras-bert`."""

import re
import sys

import pytest

import keras_bert
from pipelines.__main__ import commands
from tests.pipelines.shell import CONSOLE, FOLDER, console, find_commands, python

COMMANDS = find_commands()
PACKAGES = {"absl", "keras", "keras_bert", "numpy", "pipelines", "tensorflow", "wandb"}
VERSION = f"keras-bert {keras_bert.__version__}\n"


@pytest.fixture
def elsewhere(tmp_path):
    """A folder in which every module that Python or a command imports has a file of the same name, which ends it."""
    for name in sys.stdlib_module_names | PACKAGES:
        content = "raise SystemExit(f'{__name__} of the working directory was imported')"
        (tmp_path / f"{name}.py").write_text(content)
    return tmp_path


def test_names_of_commands():
    """With the first line of their documentation, which is a sentence."""
    assert list(commands()) == COMMANDS
    for name, line in commands().items():
        assert line.endswith("."), name


def test_the_list_of_commands(elsewhere):
    done = console(cwd=elsewhere)
    assert re.findall(r"^  (\w+)", done.stdout, re.MULTILINE) == COMMANDS
    assert done.stderr == ""


def test_the_help_and_the_version(elsewhere):
    page = console("train_vocab", "--help", cwd=elsewhere).stdout
    assert "keras-bert train_vocab --input=" in page
    assert console("--version", cwd=elsewhere).stdout == VERSION


def test_a_misspelled_command(elsewhere):
    done = console("run_gleu", cwd=elsewhere)
    assert done.returncode == 2
    assert done.stderr == ("error: run_gleu is not a command. Did you mean run_glue? `keras-bert` lists all commands\n")


def test_the_console_command_above_the_checkout(tmp_path):
    """A folder of the name of the package, such as the checkout, does not hide it."""
    (tmp_path / "keras_bert").symlink_to(FOLDER.parent)
    assert console("--version", cwd=tmp_path).stdout == VERSION
    code = "from keras_bert.pipelines import run_glue; print(run_glue.__name__)"
    done = python("-c", code, cwd=tmp_path)
    assert done.stdout == "keras_bert.pipelines.run_glue\n"
    assert done.stderr == ""


# Calls the script beside Python as a shell does, for every command in one process.
EVERY_HELP = """
import contextlib, io, runpy, sys
script, *names = sys.argv[1:]
for name in names:
    sys.argv = [script, name, "--help"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        runpy.run_path(script, run_name="__main__")
    page = printed.getvalue()
    print(name, f"keras-bert {name} " in page, "--[no]verbose" in page)
"""


def test_the_help_of_each_command_of_the_console(tmp_path):
    done = python("-c", EVERY_HELP, CONSOLE, *COMMANDS, cwd=tmp_path)
    assert done.stdout.splitlines() == [f"{name} True True" for name in COMMANDS]
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_of_the_console(elsewhere, name):
    done = console(name, "--help", cwd=elsewhere)
    assert done.returncode == 0
    assert done.stderr == ""
    assert f"keras-bert {name} " in done.stdout


@pytest.mark.tensorflow
def test_a_prediction_of_the_console_command(elsewhere):
    text = "He opened the [MASK] and went out."
    done = console("predict", "--model=bert_tiny_books", text, cwd=elsewhere)
    assert done.returncode == 0
    assert done.stdout.startswith("door ")
    assert done.stderr == "starting TensorFlow ...\n"

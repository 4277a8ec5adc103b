"""What all commands share: `--help`, required flags, messages, Ctrl-C, the console command."""

import os
import pathlib
import pty
import re
import subprocess
import sys

import pytest

import keras_bert
from pipelines.command import spelling

CONSOLE = pathlib.Path(sys.executable).parent / "keras-bert"
FOLDER = pathlib.Path(__file__).parents[2] / "pipelines"
COMMANDS = sorted(path.stem for path in FOLDER.glob("[a-z]*.py") if "command.run(" in path.read_text())
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


def python(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, **options)


def test_help_lists_all_flags_without_tensorflow():
    assert len(COMMANDS) >= 14
    printed = python("-c", HELP, *COMMANDS).stdout
    *pages, end = re.split(r"^(?=COMMAND |HEAVY )", printed, flags=re.MULTILINE)[1:]
    assert end == "HEAVY []\n"
    for name, page in zip(COMMANDS, pages, strict=True):
        source = (FOLDER / f"{name}.py").read_text()
        defined = re.findall(r"^    (\w+): .*? = flag\(", source, re.MULTILINE)
        assert page.startswith(f"COMMAND {name}\n")
        assert f"python -m pipelines.{name}" in page
        assert {flag for flag in defined if not re.search(rf"^  --(\[no\])?{flag}\b", page, re.MULTILINE)} == set()
        assert max(map(len, page.splitlines())) <= 100
        assert "\nother:\n  --[no]verbose" in page


def test_all_missing_flags_are_said_in_one_line():
    done = python("-m", "pipelines.run_pretraining", "--config=tiny")
    assert re.findall(r"--(\w+) is required", done.stderr) == ["data", "phases", "output_dir"]
    assert (done.returncode, done.stderr[:7], done.stderr.count("\n")) == (2, "error: ", 1)


def console(*arguments, **options):
    """Runs the console command that is installed beside this Python."""
    return subprocess.run([CONSOLE, *arguments], capture_output=True, text=True, check=False, **options)


@pytest.fixture
def elsewhere(tmp_path):
    """A folder in which every module that Python or a command imports has a file of the same name, which ends it."""
    names = sys.stdlib_module_names | {"absl", "keras", "keras_bert", "numpy", "pipelines", "tensorflow", "wandb"}
    for name in names:
        (tmp_path / f"{name}.py").write_text("raise SystemExit(f'{__name__} of the working directory was imported')")
    return tmp_path


def test_the_console_command(elsewhere):
    listed = console(cwd=elsewhere)
    assert (re.findall(r"^  (\w+)", listed.stdout, re.MULTILINE), listed.stderr) == (COMMANDS, "")
    assert "keras-bert train_vocab --input=" in console("train_vocab", "--help", cwd=elsewhere).stdout
    assert console("--version", cwd=elsewhere).stdout == f"keras-bert {keras_bert.__version__}\n"
    done = console("run_gleu", cwd=elsewhere)
    assert (done.returncode, done.stderr) == (
        2,
        "error: run_gleu is not a command. Did you mean run_glue? `keras-bert` lists all commands\n",
    )


def test_the_console_command_above_the_checkout(tmp_path):
    """A folder of the name of the package, such as the checkout, does not hide it."""
    (tmp_path / "keras_bert").symlink_to(FOLDER.parent)
    assert console("--version", cwd=tmp_path).stdout == f"keras-bert {keras_bert.__version__}\n"
    done = python("-c", "from keras_bert.pipelines import run_glue; print(run_glue.__name__)", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("keras_bert.pipelines.run_glue\n", "")


# Calls the script beside Python as a shell does, for every command in one process.
EVERY_HELP = """
import contextlib, io, runpy, sys
script, *names = sys.argv[1:]
for name in names:
    sys.argv = [script, name, "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        runpy.run_path(script, run_name="__main__")
    print(name, f"keras-bert {name} " in printed.getvalue(), "--[no]verbose" in printed.getvalue())
"""


def test_the_help_of_each_command_of_the_console(tmp_path):
    done = python("-c", EVERY_HELP, CONSOLE, *COMMANDS, cwd=tmp_path)
    assert (done.stdout.splitlines(), done.stderr) == ([f"{name} True True" for name in COMMANDS], "")


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_of_the_console(elsewhere, name):
    done = console(name, "--help", cwd=elsewhere)
    assert (done.returncode, done.stderr, f"keras-bert {name} " in done.stdout) == (0, "", True)


@pytest.mark.tensorflow
def test_a_prediction_of_the_console_command(elsewhere):
    done = console("predict", "--model=bert_tiny_books", "He opened the [MASK] and went out.", cwd=elsewhere)
    assert (done.stdout[:5], done.stderr, done.returncode) == ("door ", "starting TensorFlow ...\n", 0)


def test_the_spelling_of_a_command_works_in_the_users_shell(monkeypatch, tmp_path):
    folder = pathlib.Path(sys.executable).parent
    monkeypatch.chdir(folder.parents[1])
    for path, expected in ((str(folder), "python"), ("/nowhere", f"{folder.parent.name}/bin/python")):
        monkeypatch.setenv("PATH", path)
        assert spelling("serve") == f"{expected} -m pipelines.serve"
    monkeypatch.chdir(tmp_path)
    assert spelling("serve") == f"{folder}/python -m pipelines.serve"


# JAX crashes when Python ends in a computation: nothing runs at exit.
EXIT_WITH_JAX = "import atexit, sys; sys.modules['jax'] = atexit.register(print, 'exit')"
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        (RUN.format("raise KeyboardInterrupt"), 130, "\ninterrupted\n"),
        ("import pipelines\nraise KeyboardInterrupt", 130, "\ninterrupted\n"),  # During the imports of a command.
        (RUN.format(KILL), 143, "\nterminated\n"),
        (
            RUN.format(KILL).replace("tensorflow=False", "resumes=True, tensorflow=False"),
            143,
            "\nterminated; repeat the command to continue\n",
        ),
        (EXIT_WITH_JAX + RUN.format("sys.exit(143)"), 143, ""),
        (RUN.format("raise SystemExit(1)"), 1, ""),
    ],
)
def test_signals_end_a_command_with_one_line(code, status, message):
    done = python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", message)


def test_a_closed_pipe_is_no_error():
    for arguments in (["-c", RUN.format("print('line')")], ["-m", "pipelines.train_vocab", "--help"]):
        with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
            program.stdout.close()
            assert program.stderr.read() == b""
            assert program.wait() == 0


# A package in place of TensorFlow, which takes seconds to import.
TENSORFLOW = """
class config:
    def list_physical_devices():
        pass
"""
WITH_TENSORFLOW = RUN.format("print('done')").replace(", tensorflow=False", "")


def test_a_log_says_that_tensorflow_starts(tmp_path):
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{WITH_TENSORFLOW}"
    done = python("-c", code)
    assert (done.stdout, done.stderr) == ("done\n", "starting TensorFlow ...\n")
    done = python("-c", f"{code.splitlines()[0]}\nimport tensorflow\n{WITH_TENSORFLOW}")
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_on_a_terminal_the_line_vanishes(tmp_path):
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    ours, theirs = pty.openpty()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{WITH_TENSORFLOW}"
    subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=theirs, check=True)
    os.close(theirs)
    assert os.read(ours, 1000) == b"starting TensorFlow ...\r" + b" " * 23 + b"\r"
    os.close(ours)

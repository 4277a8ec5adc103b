"""Python and the console command `keras-bert` in new processes, as a shell starts them."""

import pathlib
import subprocess
import sys

CONSOLE = pathlib.Path(sys.executable).parent / "keras-bert"
FOLDER = pathlib.Path(__file__).parents[2] / "pipelines"


def find_commands():
    """Returns the names of all commands."""
    names = []
    for path in sorted(FOLDER.glob("[a-z]*.py")):
        if "command.run(" in path.read_text():
            names.append(path.stem)
    return names


def python(*arguments, **options):
    """Runs Python."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def console(*arguments, **options):
    """Runs the console command that is installed beside this Python."""
    command = [CONSOLE, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)

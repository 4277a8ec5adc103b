"""The console command `keras-bert`: runs a command by name, or lists all of them.

keras-bert run_glue --task=mrpc --model=google-bert/bert-base-uncased --output_dir=runs/mrpc
keras-bert run_glue --help
keras-bert --version
"""

import ast
import pathlib
import runpy
import sys

import keras_bert
from keras_bert.checks import similar

from .command import CONSOLE, ignoring_closed_pipes

_FOLDER = pathlib.Path(__file__).parent


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    known = commands()
    if name == "--version":
        print(f"keras-bert {keras_bert.__version__}")
    elif name in ("--help", "-h", "help"):
        _print_commands(known)
    elif name in known:
        sys.argv[:] = [f"{CONSOLE} {name}", *sys.argv[2:]]
        runpy.run_module(f"{__package__}.{name}", run_name="__main__")
    else:
        nearest = similar(name, known)
        hint = f"Did you mean {nearest}? " if nearest else ""
        print(f"error: {name} is not a command. {hint}`{CONSOLE}` lists all commands", file=sys.stderr)
        sys.exit(2)


def _print_commands(known):
    """Prints the names of all commands, and what they do."""
    width = max(map(len, known))
    lines = [f"usage: {CONSOLE} <command> [flags]; {CONSOLE} <command> --help lists the flags", ""]
    for command, about in known.items():
        lines.append(f"  {command:{width}}  {about}")
    with ignoring_closed_pipes():
        print("\n".join(lines), flush=True)


def commands():
    """Returns the first line of each command's documentation, by name."""
    first_lines = {}
    for path in sorted(_FOLDER.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        is_command = "\nif __name__" in text and not path.stem.startswith("_")
        if is_command:
            documentation = ast.get_docstring(ast.parse(text))
            first_lines[path.stem] = documentation.splitlines()[0]
    return first_lines


if __name__ == "__main__":
    main()

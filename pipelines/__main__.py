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
        return
    if name in ("--help", "-h", "help"):
        width = max(map(len, known))
        lines = [f"usage: {CONSOLE} <command> [flags]; {CONSOLE} <command> --help lists the flags", ""]
        lines += [f"  {command:{width}}  {about}" for command, about in known.items()]
        with ignoring_closed_pipes():
            print("\n".join(lines), flush=True)
        return
    if name not in known:
        hint = f"Did you mean {found}? " if (found := similar(name, known)) else ""
        print(f"error: {name} is not a command. {hint}`{CONSOLE}` lists all commands", file=sys.stderr)
        sys.exit(2)
    sys.argv = [f"{CONSOLE} {name}", *sys.argv[2:]]
    runpy.run_module(f"{__package__}.{name}", run_name="__main__")


def commands():
    """Returns the first line of each command's documentation, by name."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("*.py"))}
    runnable = {name: text for name, text in sources.items() if "\nif __name__" in text and not name.startswith("_")}
    return {name: ast.get_docstring(ast.parse(text)).splitlines()[0] for name, text in runnable.items()}


if __name__ == "__main__":
    main()

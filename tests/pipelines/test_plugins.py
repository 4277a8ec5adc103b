"""`--plugins`: what is imported from the working directory, and what is not."""

import json
import os
import pathlib
import queue
import sys

import numpy as np
import pytest

from tests.pipelines import shell

ROOT = pathlib.Path(__file__).parents[2]
HOSTILE = "raise SystemExit(f'{__name__} of the working directory was imported')"
FILES = {
    "alone.py": "import beside\nprint('alone', beside.VALUE)",
    "beside.py": "VALUE = 7\ndef double(value):\n    return 2 * value",
    "mine/__init__.py": "from mine import heads",
    "mine/heads.py": "def late():\n    import beside\n    return beside.VALUE\nprint('heads', late())",
    "open/tasks.py": "print('tasks')",  # In a folder without `__init__.py`.
    "raises.py": "import os\n\n\ndef fail():\n    return 1 / 0\n\n\nfail()",
    "ends.py": "raise SystemExit('the end')",
    "wrong.py": "x = = 1",
    "needs.py": "import not_installed_1",
    "optional.py": "import tried_by_a_package",
    "queue.py": HOSTILE,
    "numpy.py": HOSTILE,
    "tried_by_a_package.py": "VALUE = 1",
    "empty/readme.txt": "",
}
FOUND = "--plugins must be modules that Python finds"
# Names, and what is printed or the message; `numpy` stands for all installed packages.
NAMES = """
alone -> alone 7
mine -> heads 7
mine.heads -> heads 7
open.tasks -> tasks
alone,mine -> alone 7 heads 7
json -> nothing
nothing -> error: --plugins must be modules that Python finds. Received: --plugins=nothing
nothing.heads -> error: --plugins must be modules that Python finds. Received: --plugins=nothing.heads
mine.nothing -> heads 7 error: --plugins must be modules that Python finds. Received: --plugins=mine.nothing
empty -> error: --plugins must be modules that Python finds. Received: --plugins=empty
.alone -> error: FOUND, by name. Received: --plugins=.alone. Did you mean --plugins=alone?
open/tasks.py -> error: FOUND, by name. Received: --plugins=open/tasks.py. Did you mean --plugins=open.tasks?
alone.py -> error: FOUND, by name. Received: --plugins=alone.py. Did you mean --plugins=alone?
/tmp/x.py -> error: FOUND, by name. Received: --plugins=/tmp/x.py
raises -> error: --plugins=raises: raises.py:5: ZeroDivisionError: division by zero
ends -> error: --plugins=ends: ends.py:1: SystemExit: the end
wrong -> error: --plugins=wrong: SyntaxError: invalid syntax (wrong.py, line 1)
needs -> error: --plugins=needs: needs.py:1: ModuleNotFoundError: No module named 'not_installed_1'
alone,raises -> alone 7 error: --plugins=raises: raises.py:5: ZeroDivisionError: division by zero
queue -> error: --plugins=queue: queue.py has the name of another module, STANDARD, which stays. Rename the file
numpy -> error: --plugins=numpy: numpy.py has the name of another module, INSTALLED, which stays. Rename the file
""".replace("FOUND", FOUND)
PROGRAM = """
import contextlib, importlib.util, io, json, os, sys
from pipelines import plugins
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != os.getcwd()]  # Of `python -c`.
for names in json.loads(sys.argv[1]):
    modules, printed = set(sys.modules), io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            plugins.import_plugins([names])
        except ValueError as error:
            print(f"error: {error}")
    print(json.dumps(printed.getvalue().split()))
    for name in set(sys.modules) - modules:
        if os.getcwd() in str(getattr(sys.modules[name], "__spec__", "")):
            del sys.modules[name]
assert importlib.util.find_spec("tried_by_a_package") is None  # By this program, which is none of the plugins.
assert os.getcwd() not in map(os.path.abspath, sys.path)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory of a user, with plugins and files that have the names of modules."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def python(*arguments):
    """Runs Python with the packages of the checkout, and nothing of the working directory before it is asked for."""
    return shell.python(*arguments, env=os.environ | {"PYTHONPATH": str(ROOT)})


def test_names(folder):
    """In one process, which forgets the plugins of each line."""
    places = NAMES.replace("STANDARD", queue.__file__).replace("INSTALLED", np.__file__)
    names = []
    expected = []
    for line in places.strip().splitlines():
        given, message = line.split(" -> ")
        names.append(given)
        expected.append(message)
    done = python("-P", "-c", PROGRAM, json.dumps(names))
    assert done.returncode == 0, done.stderr
    printed = [" ".join(json.loads(line)) or "nothing" for line in done.stdout.splitlines()]
    assert printed == expected


def test_no_module_of_the_working_directory_is_imported(folder):
    """Not one that any command imports, with the name of a standard module or of a package.

    For `python -m`, Python imports some itself, before the command can do anything.
    """
    early = python("-c", "import runpy, sys; print(*sys.modules)").stdout.split()
    packages = {"absl", "keras", "keras_bert", "numpy", "tensorflow"}
    for name in (sys.stdlib_module_names | packages).difference(early):
        (folder / f"{name}.py").write_text(HOSTILE)
    page = python("-m", "pipelines.train_vocab", "--help")
    assert page.stdout.startswith("Learns a WordPiece vocabulary"), page.stderr
    flags = ["--input=none.txt", "--output=v.txt", "--plugins=nothing"]
    done = python("-m", "pipelines.train_vocab", *flags)
    assert done.stderr == f"error: {FOUND}. Received: --plugins=nothing\n"


def test_plugins_can_be_given_twice(folder):
    flags = ["--plugins=alone", "--plugins=mine", "--input=none.txt", "--output=v.txt"]
    done = python("-m", "pipelines.train_vocab", *flags)
    assert done.stdout == "alone 7\nheads 7\n"
    assert done.stderr == "error: none.txt: no file matches\n"


WORKERS = """
import concurrent.futures, multiprocessing, sys
from pipelines import arguments, command

def main(arguments):
    double = sys.modules["beside"].double
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        print(list(pool.map(double, [1, 2])))

if __name__ == "__main__":
    command.run("A command.", arguments.CommandArguments, main, tensorflow=False)
"""


def test_worker_processes_find_plugins(folder, tmp_path_factory):
    """They find nothing else there: Python starts them with the working directory first, which has a `pickle.py`."""
    (folder / "pickle.py").write_text(HOSTILE)
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(WORKERS)
    done = python(program, "--plugins=alone")
    assert done.stdout == "alone 7\n[2, 4]\n"
    assert done.stderr == ""

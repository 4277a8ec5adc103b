"""Without optional packages, all commands explain themselves, and a missing package is named with its extra."""

import subprocess
import sys

import pytest

from keras_bert import extras
from pipelines.__main__ import commands

BARE = """
import contextlib, io, runpy, sys
from importlib.abc import MetaPathFinder

class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
for command, *arguments in {calls}:
    sys.argv = [command, *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        runpy.run_module("pipelines." + command, run_name="__main__")
    print(command, printed.getvalue().count("verbose  "))
"""


def test_commands_without_optional_packages():
    names = sorted(commands())
    calls = [[name, "--help"] for name in names] + [["predict", "--model=bert_tiny_books", "a"]]
    code = BARE.format(packages=[*extras.EXTRA_OF, "jax"], calls=calls)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == [*(f"{name} 1" for name in names), "predict 0", ""]
    needs = (
        "error: this command needs tensorflow, which is not installed. Install it with `pip install '.[tensorflow]'`"
    )
    assert done.stderr == f"{needs} in a checkout of keras_bert\n"


@pytest.mark.parametrize(("package", "extra"), [("faiss", "search"), ("keras_hub.models", "hub")])
def test_the_extra_of_a_package(package, extra):
    with (
        pytest.raises(ModuleNotFoundError, match=rf"a thing needs \w+, .* '\.\[{extra}\]'"),
        extras.naming_extras("a thing"),
    ):
        raise ModuleNotFoundError(name=package)
    with pytest.raises(ModuleNotFoundError, match="^no extra$"), extras.naming_extras("a thing"):
        raise ModuleNotFoundError("no extra", name="os2")

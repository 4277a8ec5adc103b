"""Missing packages are named with their extra; known lines of TensorFlow's start are hidden, see also test_wheel.py."""

import subprocess
import sys

import pytest

from keras_bert import imports
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
# Like TensorFlow's C++ code, it writes to the file descriptor.
TENSORFLOW = """
import os
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\\n")
os.write(2, b"I0000 00:00:17 1 port.cc:153] oneDNN custom operations are on. You may see other results\\n")
os.write(2, b"E0000 00:00:17 1 cuda_dnn.cc:9] Loaded runtime CuDNN library: 8.0 but source was compiled with 9.0\\n")
if {fails}:
    raise ImportError("libcudart")
class config:
    def list_physical_devices():
        os.write(2, b"I0000 00:00:17 1 cudart_stub.cc:31] Could not find cuda drivers on your machine\\n")
"""
PROGRAM = """
from keras_bert.imports import quiet_start
from pipelines.command import import_plugins
try:
    if {is_plugin}:
        import_plugins(["tensorflow"])
    with quiet_start():
        import tensorflow
except ImportError as error:
    print(error)
with quiet_start():
    print("line", flush=True)
"""


def test_commands_without_optional_packages():
    names = sorted(commands())
    calls = [[name, "--help"] for name in names]
    calls.append(["predict", "--model=bert_tiny_books", "a"])
    code = BARE.format(packages=[*imports.EXTRA_OF, "jax"], calls=calls)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *helped, last = done.stdout.splitlines()
    assert helped == [f"{name} 1" for name in names]
    assert last == "predict 0"
    (error,) = done.stderr.splitlines()
    assert error.startswith("error: this command needs tensorflow, which is not installed")
    assert "pip install '.[tensorflow]'" in error


@pytest.mark.parametrize(("package", "extra"), [("faiss", "search"), ("keras_hub.models", "hub")])
def test_the_extra_of_a_package(package, extra):
    with (
        pytest.raises(ModuleNotFoundError, match=rf"a thing needs \w+, .* '\.\[{extra}\]'"),
        imports.naming_extras("a thing"),
    ):
        raise ModuleNotFoundError(name=package)


def test_a_package_without_an_extra():
    with pytest.raises(ModuleNotFoundError, match="^no extra$"), imports.naming_extras("a thing"):
        raise ModuleNotFoundError("no extra", name="os2")


def test_a_file_with_the_name_of_a_package(tmp_path):
    (tmp_path / "tensorflow.py").write_text("")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import keras_bert; keras_bert.load('bert_tiny_books')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    expected = f"`keras_bert.load` needs the package tensorflow, but Python finds {tmp_path}/tensorflow.py first"
    assert done.stderr.endswith(f"ModuleNotFoundError: {expected}. Rename this file\n")


@pytest.mark.parametrize(("fails", "is_plugin"), [(False, False), (True, False), (False, True)])
def test_only_known_lines_are_hidden(tmp_path, fails, is_plugin):
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW.format(fails=fails))
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM.format(is_plugin=is_plugin)}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    printed = ["line"]
    if fails:
        printed.insert(0, "libcudart")
    assert done.stdout.splitlines() == printed
    (shown,) = done.stderr.splitlines()
    assert shown.startswith("E0000 00:00:17 1 cuda_dnn.cc:9] Loaded runtime CuDNN library")


@pytest.mark.slow  # Starts TensorFlow.
@pytest.mark.tensorflow
def test_load_and_the_tasks_import_no_package_of_scores():
    """None of our modules does; Keras' wrapper of scikit-learn, which subclasses it, imports it where it is."""
    program = (
        "import builtins\n"
        "real, imports = builtins.__import__, []\n"
        "def spy(name, globals=None, locals=None, fromlist=(), level=0):\n"
        "    importer = (globals or {}).get('__name__', '')\n"
        "    imports.extend((importer, full) for full in [name, *(f'{name}.{part}' for part in fromlist or ())])\n"
        "    return real(name, globals, locals, fromlist, level)\n"
        "builtins.__import__ = spy\n"
        "import keras_bert\n"
        "import keras_bert.tasks.embedding.task\n"
        "keras_bert.load('bert_tiny_books')\n"
        "heavy = ('sklearn', 'scipy.stats', 'pandas', 'pyarrow')\n"
        "ours = [pair for pair in imports if pair[0].startswith('keras_bert')]\n"
        "print([pair for pair in ours if pair[1].startswith(heavy)])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"

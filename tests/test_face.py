"""`import keras_bert` and the lazy imports of its public names."""

import importlib.util
import subprocess
import sys

import pytest

import keras_bert
from tests.pipelines.programs import run


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def importable():
    """The public names whose packages are installed."""
    converters = {"export_onnx": "onnxruntime", "export_litert": "ai_edge_litert"}  # Installed by `make convert`.
    missing = {name for name, package in converters.items() if importlib.util.find_spec(package) is None}
    return sorted(set(keras_bert.__all__) - missing)


def test_public_names(importable):
    for name in importable:
        assert getattr(keras_bert, name) is not None
    assert set(keras_bert.__all__) <= set(dir(keras_bert))


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="module 'keras_bert' has no attribute 'nothing'"):
        keras_bert.nothing  # noqa: B018


@pytest.mark.tensorflow
def test_the_package_imports_nothing_and_its_error_names_the_extra():
    code = """
import sys
import keras_bert
print([name for name in ("keras", "tensorflow", "numpy") if name in sys.modules])
sys.modules["tensorflow"] = None
try:
    keras_bert.layers
except ModuleNotFoundError as error:
    print(error)
"""
    modules, message = python(code).splitlines()
    assert modules == "[]"
    for part in (
        "`keras_bert.layers` needs tensorflow, which is not installed",
        "pip install '.[tensorflow]'",
        "KERAS_BACKEND=jax",
    ):
        assert part in message


# In a process that has imported nothing of the package.
FRESH = """
import sys
path, *heavy = {arguments}
for name in heavy:
    sys.modules.pop(name, None)
del sys.modules["keras"]  # Its modules stay: an import of it takes no time.
import keras_bert
keras_bert.layers
import keras
print([name for name in heavy if name in sys.modules])
model = keras.saving.load_model(path)
print(model.name, type(model.optimizer).__module__)
sys.modules |= dict.fromkeys(("tensorflow_serving", "tensorflow_text", "onnx", "ai_edge_litert"))
keras_bert.TextPreprocessor  # TF-Text is needed for texts alone, and there is none for Windows.
for name in ("export", "export_onnx", "export_litert"):
    try:
        getattr(keras_bert, name)
    except ModuleNotFoundError as error:
        print(error)
"""
EACH_FIRST = """
import os, sys, traceback
import keras, scipy, tqdm
del sys.modules["keras"]
import keras_bert
for name in {arguments}:
    if os.fork() == 0:
        try:
            getattr(keras_bert, name)
        except BaseException:
            print(name, traceback.format_exc())
        os._exit(0)
    os.wait()
"""


def fresh(code, *arguments):
    """Runs code in a process forked from one that has imported TensorFlow and Keras; returns what it prints."""
    return run("keras_bert.version", before=code.format(arguments=arguments))[0]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_every_module_can_be_used_first(importable):
    """One name of each module, in a process that has imported nothing else of the package.

    By default, tests/test_architecture.py finds circles of imports.
    """
    names = {getattr(getattr(keras_bert, name), "__module__", name): name for name in importable}
    assert fresh(EACH_FIRST, *names.values()) == ""


@pytest.mark.tensorflow
def test_the_first_name_registers_layers_without_heavy_dependencies(build, tmp_path):
    """Optional dependencies are imported where they are used; the error names the extra that installs them."""
    model = build("classification")
    model.compile(keras_bert.AdamW(1e-3), "mse")
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    heavy = ["tensorflow_text", "keras_hub", "tensorflow_datasets", "safetensors"]
    install = "which is not installed. Install it with `pip install '.[{}]'` in a checkout of keras_bert"
    assert fresh(FRESH, str(tmp_path / "model.keras"), *heavy).splitlines() == [
        "[]",
        "bert_classifier keras_bert.training.adamw",
        "`keras_bert.export` needs tensorflow_serving, " + install.format("tensorflow"),
        "`keras_bert.export_onnx` needs onnx, " + install.format("convert"),
        "`keras_bert.export_litert` needs ai_edge_litert, " + install.format("convert"),
    ]

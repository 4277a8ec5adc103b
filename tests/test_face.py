"""`import keras_bert` and the lazy imports of its public names."""

import importlib.util
import inspect
import operator
import subprocess
import sys

import pytest

import keras_bert
from tests.pipelines.programs import run

# The modules of `keras_bert`.
MODULES = (
    "answering",
    "checkpoints",
    "data",
    "exporting",
    "files",
    "heads",
    "layers",
    "losses",
    "memory",
    "models",
    "pretraining",
    "reports",
    "runs",
    "search",
    "serving",
    "tasks",
    "testing",
    "translation",
)


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def public_names():
    """All public names with the path to them, such as "losses.span_loss"."""
    names = list(keras_bert.__all__)
    for module in MODULES:
        names += [f"{module}.{name}" for name in names_of(module)]
    return names


def names_of(module):
    """The public names of a module, with those of the modules among them: "glue", "glue.TASKS"."""
    found = getattr(keras_bert, module)
    names = list(found.__all__)
    for name in found.__all__:
        # Classes begin with capitals; to get one may need a package that is not installed.
        if name.islower() and inspect.ismodule(getattr(found, name, None)):
            names += [f"{name}.{part}" for part in getattr(found, name).__all__]
    return names


@pytest.fixture
def importable():
    """The public names whose packages are installed."""
    packages = {
        "export_onnx": "onnxruntime",  # Installed by `make convert`, as is that of LiteRT.
        "export_litert": "ai_edge_litert",
        "exporting.Graph": "onnx",
        "pretraining.generate_with_beam": "apache_beam",
    }
    missing = {name for name, package in packages.items() if importlib.util.find_spec(package) is None}
    return sorted(set(public_names()) - missing)


def test_public_names(importable):
    for name in importable:
        assert operator.attrgetter(name)(keras_bert) is not None
    modules = set()
    for name in importable:
        if "." not in name and inspect.ismodule(getattr(keras_bert, name, None)):
            modules.add(name)
    assert modules == set(MODULES)
    for module in (keras_bert, keras_bert.losses):
        assert set(module.__all__) <= set(dir(module))


# Records, whose fields have a known order.
RECORDS = {
    "AddedToken",
    "BertConfig",
    "losses.Loss",
    "models.Family",
    "serving.RequestError",
    "tasks.Findings",
    "tasks.Split",
    "tasks.Stage",
    "tasks.Start",
    "tasks.glue.GlueTask",
    "translation.TransformerConfig",
}


def test_options_are_keyword_only(importable):
    """At most two arguments have a place, or those without a default; layers are as those of Keras."""
    for name in sorted(set(importable) - RECORDS):
        value = operator.attrgetter(name)(keras_bert)
        if callable(value) and not name.startswith("layers."):
            parameters = inspect.signature(value).parameters.values()
            placed = [part for part in parameters if part.kind == part.POSITIONAL_OR_KEYWORD]
            required = [part for part in placed if part.default is part.empty]
            most = 2
            # Sources, targets, labels; the model, its peak rate and the steps, which a schedule does not need.
            # Texts and targets of a task, as in `fit`.
            if name in ("data.PairBatches", "create_optimizer", "testing.check_task"):
                most = 3
            assert len(placed) <= max(most, len(required)), name


def test_an_unknown_name():
    for module in (keras_bert, keras_bert.losses):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nothing'"):
            module.nothing  # noqa: B018


def test_a_name_with_a_typo():
    with pytest.raises(AttributeError, match="'lod'. Did you mean 'load'"):
        keras_bert.lod  # noqa: B018
    with pytest.raises(AttributeError, match="'span_los'.*'span_loss'"):
        keras_bert.losses.span_los  # noqa: B018


@pytest.mark.parametrize(
    "name",
    ["from_pretrained", "AutoModelForMaskedLM", "TFBertModel", "pipeline", "load_model", "get_model"],
)
def test_a_name_of_another_package(name):
    """The error names what does the same here."""
    with pytest.raises(AttributeError, match=rf"'{name}'. keras_bert.load\("):
        getattr(keras_bert, name)


@pytest.mark.tensorflow
def test_the_package_imports_nothing_and_its_error_names_the_extra():
    code = """
import sys
import keras_bert
print([name for name in ("keras", "tensorflow", "numpy") if name in sys.modules])
sys.modules["tensorflow"] = None
for module, name in (keras_bert, "layers"), (keras_bert.losses, "span_loss"):
    try:
        getattr(module, name)
    except ModuleNotFoundError as error:
        print(error)
"""
    modules, *messages = python(code).splitlines()
    assert modules == "[]"
    for name, message in zip(("layers", "losses.span_loss"), messages, strict=True):
        assert f"`keras_bert.{name}` needs tensorflow, which is not installed" in message
        for part in ("pip install '.[tensorflow]'", "KERAS_BACKEND=jax"):
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
import operator, os, sys, traceback
import keras, scipy, tqdm
del sys.modules["keras"]
import keras_bert
for name in {arguments}:
    if os.fork() == 0:
        try:
            operator.attrgetter(name)(keras_bert)
        except BaseException:
            print(name, traceback.format_exc())
        os._exit(0)
    os.wait()
"""


def fresh(code, *arguments):
    """Runs code in a process forked from one that has imported TensorFlow and Keras; returns what it prints."""
    printed, _ = run("keras_bert.version", before=code.format(arguments=arguments))
    return printed


@pytest.mark.slow
@pytest.mark.tensorflow
def test_every_module_can_be_used_first(importable):
    """One name of each module, in a process that has imported nothing else of the package.

    By default, tests/test_architecture.py finds circles of imports.
    """
    names = {}
    for name in importable:
        value = operator.attrgetter(name)(keras_bert)
        names[getattr(value, "__module__", name)] = name
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

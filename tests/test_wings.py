"""Wings can be deleted: their folder, their commands and their tests, without which everything else runs.

That no other room of the package imports one is tested by tests/test_architecture.py.
"""

import ast
import json
import shutil
import sys
import types

import pytest

import keras_bert
from keras_bert import other_models
from pipelines import common_flags
from tests.pipelines.programs import EAGERLY, run
from tests.test_architecture import ROOT, imports, violations

# Commands that use a wing; those that answer need a server only for its address.
USERS = {
    "translation": {"run_translation"},
    "search": {"search"},
    "serving": {"serve", "answering_models"},
}


def used(path):
    """Returns the modules that a command imports, also by the names of `keras_bert`, which may need other packages."""
    module_of_name = {}
    for _, module, _ in imports(ROOT / "keras_bert" / "__init__.pyi"):
        _, _, name = module.rpartition(".")
        module_of_name[name] = module
    modules = [module for _, module, _ in imports(path)]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "keras_bert":
            modules.append(module_of_name.get(node.attr, f"keras_bert.{node.attr}"))
    return modules


@pytest.mark.parametrize("wing", USERS)
def test_commands_that_use_a_wing(wing):
    users = set()
    for path in (ROOT / "pipelines").glob("*.py"):
        if any(f"{module}.".startswith(f"keras_bert.{wing}.") for module in used(path)):
            users.add(path.stem)
    assert users == USERS[wing]


@pytest.fixture
def marian(tmp_path, monkeypatch):
    """A folder of a model that the package does not know; no other models are registered."""
    monkeypatch.setattr(other_models, "OTHER_MODELS", [])
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "marian"}))
    return tmp_path


@pytest.fixture
def guest(marian, monkeypatch):
    """A module that opens it."""
    module = types.SimpleNamespace(load=lambda path, *, depth=1: (path, depth))
    monkeypatch.setitem(sys.modules, "guest", module)
    keras_bert.register_models("guest", model_types=["marian"], names=[], is_new="new".__eq__)


def test_models_without_wings(checkpoint, marian):
    assert common_flags.load_model(checkpoint, head="encoder").config == keras_bert.load(checkpoint).config
    with pytest.raises(ValueError, match="`model_type`.*'marian'"):
        common_flags.load_model(marian)


@pytest.mark.usefixtures("guest")
def test_models_of_guests(marian):
    """They are known by what they register."""
    with pytest.raises(ValueError, match="guest.load opens it"):
        keras_bert.load(marian)
    assert common_flags.load_model("new", depth=2, hidden_states=False) == ("new", 2)
    with pytest.raises(ValueError, match="does not take remat"):
        common_flags.load_model("new", remat=True)


HERE = """
import os, sys
for name in [name for name in sys.modules if name.split(".")[0] in ("keras_bert", "pipelines", "tests")]:
    del sys.modules[name]
sys.path.insert(0, "")
import keras_bert
assert os.path.samefile(os.path.dirname(keras_bert.__file__), "keras_bert")
"""  # The programs of tests have imported the package of the checkout.


@pytest.mark.slow
def test_fine_tuning_without_wings(tmp_path, checkpoint):
    """Without all wings at once: none imports another, so that what runs then runs without each."""
    ignored = shutil.ignore_patterns("__pycache__", "saved_models")
    for folder in ("keras_bert", "pipelines"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=ignored)
    for wing in USERS:
        shutil.rmtree(tmp_path / "keras_bert" / wing)
    for name in ("run_translation", "search", "serve"):
        (tmp_path / "pipelines" / f"{name}.py").unlink()
    assert violations(tmp_path) == []
    for part in ("train", "dev"):
        (tmp_path / f"{part}.csv").write_text("text,label\na film,good\na book,bad\n")
    flags = [
        "--task=classification",
        f"--model={checkpoint}",
        "--train_file=train.csv",
        "--dev_file=dev.csv",
        "--output_dir=run",
        "--sequence_length=8",
        "--epochs=1",
        "--report_to=",
    ]
    run("pipelines.run_glue", *flags, before=EAGERLY + HERE, cwd=tmp_path, KERAS_BERT_MODELS="")
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()

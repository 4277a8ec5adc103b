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
    """Yields the modules that a command imports, also by the names of `keras_bert`, which may need other packages."""
    names = {name.rpartition(".")[2]: name for _, name, _ in imports(ROOT / "keras_bert" / "__init__.pyi")}
    yield from (module for _, module, _ in imports(path))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "keras_bert":
            yield names.get(node.attr, f"keras_bert.{node.attr}")


@pytest.mark.parametrize("wing", USERS)
def test_commands_that_use_a_wing(wing):
    users = {
        path.stem
        for path in (ROOT / "pipelines").glob("*.py")
        if any(f"{module}.".startswith(f"keras_bert.{wing}.") for module in used(path))
    }
    assert users == USERS[wing]


def test_models_of_wings_and_guests(checkpoint, tmp_path, monkeypatch):
    """They are known by what they register."""
    monkeypatch.setattr(other_models, "_REGISTERED", [])
    assert common_flags.load_model(checkpoint, head="encoder").config == keras_bert.load(checkpoint).config
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "marian"}))
    with pytest.raises(ValueError, match="`model_type` must be one of bert, .*Received: model_type='marian'"):
        common_flags.load_model(tmp_path)
    guest = types.SimpleNamespace(load=lambda path, *, depth=1: (path, depth))
    monkeypatch.setitem(sys.modules, "guest", guest)
    keras_bert.register_models("guest", model_types=["marian"], names=[], is_new="new".__eq__)
    with pytest.raises(ValueError, match="is not a BERT: guest.load opens it"):
        keras_bert.load(tmp_path)
    assert common_flags.load_model("new", depth=2, hidden_states=False) == ("new", 2)
    with pytest.raises(ValueError, match="new is not a BERT and does not take remat"):
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
    flags = {"task": "classification", "model": checkpoint, "sequence_length": 8, "epochs": 1, "report_to": ""}
    flags |= {"train_file": "train.csv", "dev_file": "dev.csv", "output_dir": "run"}
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    run("pipelines.run_glue", *arguments, before=EAGERLY + HERE, cwd=tmp_path, KERAS_BERT_MODELS="")
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()

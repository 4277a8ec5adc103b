"""Wings can be deleted: their folder, their commands and their tests, without which everything else runs.

A missing wing shows where something imports it. For each wing alone, the source is read: nothing outside of it imports
it, except where a command catches that. A run, which costs seconds, happens once without all wings: since no wing
imports another, what runs without all of them runs without each.
"""

import ast
import functools
import shutil

import pytest

from tests.pipelines.programs import EAGERLY, run
from tests.test_architecture import ROOT, violations

COMMANDS = {"translation": ["run_translation"], "baselines": [], "search": ["search"], "serving": ["serve"]}
HERE = """
import os, sys
for name in [name for name in sys.modules if name.split(".")[0] in ("keras_bert", "pipelines")]:
    del sys.modules[name]
sys.path.insert(0, "")
import keras_bert
assert os.path.samefile(os.path.dirname(keras_bert.__file__), "keras_bert")
from keras_bert.experiments import results
results.export = lambda *args, **options: None
"""  # The programs of tests have imported the package of the checkout.


@functools.cache
def imports():
    """Returns (path, module) of the imports of keras_bert, except in functions of commands and where failing is caught.

    A command that is not a wing's may need it for some of its flags.
    """
    found = []
    for path in [*(ROOT / "keras_bert").rglob("*.py"), *(ROOT / "pipelines").glob("*.py")]:
        tree, allowed = ast.parse(path.read_text()), set()
        for node in ast.walk(tree):
            caught = isinstance(node, ast.Try) and "ModuleNotFoundError" in ast.unparse(node.handlers)
            if caught or (isinstance(node, ast.FunctionDef) and path.parent.name == "pipelines"):
                allowed |= {id(child) for child in ast.walk(node)}
        for node in ast.walk(tree):
            if id(node) not in allowed and isinstance(node, ast.Import):
                found += [(path, name.name) for name in node.names]
            elif id(node) not in allowed and isinstance(node, ast.ImportFrom):
                found += [(path, f"{node.module}.{name.name}") for name in node.names]
    return found


@pytest.mark.parametrize("wing", COMMANDS)
def test_nothing_else_imports_a_wing(wing):
    users = {path for path, module in imports() if f"{module}.".startswith(f"keras_bert.{wing}.")}
    inside = {path for path in users if (ROOT / "keras_bert" / wing) in path.parents or path.stem in COMMANDS[wing]}
    assert inside
    assert users - inside == set()


@pytest.mark.tensorflow
def test_fine_tuning_without_wings(tmp_path, checkpoint):
    for folder in ("keras_bert", "pipelines"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "saved_models"))
    for wing, commands in COMMANDS.items():
        shutil.rmtree(tmp_path / "keras_bert" / wing)
        for name in commands:
            (tmp_path / "pipelines" / f"{name}.py").unlink()
    assert violations(tmp_path) == []
    for part in ("train", "dev"):
        (tmp_path / f"{part}.csv").write_text("text,label\na film,good\na book,bad\n")
    flags = {"task": "classification", "model": checkpoint, "sequence_length": 8, "epochs": 1, "report_to": ""}
    flags |= {"train_file": "train.csv", "dev_file": "dev.csv", "output_dir": "run"}
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    run("pipelines.run_glue", *arguments, before=EAGERLY + HERE, cwd=tmp_path, KERAS_BERT_MODELS="")
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()

"""Research is a guest: it imports what any user can import, and nothing else, of the package and of its commands."""

import ast
import importlib
import re

import pytest

import pipelines
from pipelines.__main__ import commands
from tests import documents
from tests.documents import ROOT
from tests.test_face import public_names


def exported_names(module):
    """Returns the names that a module of `pipelines` exports."""
    names = importlib.import_module(f"pipelines.{module}").__all__
    return [f"pipelines.{module}.{name}" for name in names]


def all_public_names():
    """Returns the public names of the package and of its commands, with their modules."""
    names = {f"keras_bert.{name}" for name in public_names()}
    for module in pipelines.__all__:
        names.add(f"pipelines.{module}")
        names.update(exported_names(module))
    for command in commands():
        names.add(f"pipelines.{command}")
        for name in ("Arguments", "check", "main"):
            names.add(f"pipelines.{command}.{name}")
    return names


PUBLIC = all_public_names()
PUBLIC_MODULES = {name.rpartition(".")[0] for name in PUBLIC} - {"keras_bert", "pipelines"}


def imports(tree):
    """Returns the names that a file imports, and the imported modules by their names in the file."""
    names = set()
    modules = {"keras_bert": "keras_bert"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for part in node.names:
                place = f"{node.module}.{part.name}"
                names.add(place)
                if place in PUBLIC_MODULES:
                    modules[part.asname or part.name] = place
        elif isinstance(node, ast.Import):
            for part in node.names:
                if "." in part.name:
                    names.add(part.name)
    return names, modules


def attributes(tree, modules):
    """Returns the names that a file takes from imported modules, such as `keras_bert.tasks.Start`."""
    names = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        text = ast.unparse(node)
        if not re.fullmatch(r"[\w.]+", text):
            continue
        first, *parts = text.split(".")
        place = modules.get(first)
        while parts and place in {"keras_bert", *PUBLIC_MODULES}:
            place = f"{place}.{parts.pop(0)}"
            names.add(place)
    return names


def used(source):
    """Returns the names of the package that a file imports, and those that it takes from imported modules."""
    tree = ast.parse(source)
    names, modules = imports(tree)
    names |= attributes(tree, modules)
    return {name for name in names if name.startswith(("keras_bert.", "pipelines."))}


def private(source):
    return sorted(used(source) - PUBLIC)


@pytest.mark.parametrize("path", sorted((ROOT / "research").rglob("*.py")), ids=documents.name)
def test_research_uses_public_names_alone(path):
    assert private(path.read_text(encoding="utf-8")) == [], "use a public name, or make this one public"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import keras_bert\nkeras_bert.tasks.Start('bert')\nkeras_bert.tasks.glue.TASKS", []),
        ("import keras_bert.bert", ["keras_bert.bert"]),
        ("import keras_bert\nkeras_bert.bert.load('bert')", ["keras_bert.bert"]),
        ("import keras_bert\nkeras_bert.tasks.base", ["keras_bert.tasks.base"]),
        ("from keras_bert.runs import grid", ["keras_bert.runs.grid"]),
        ("from keras_bert.tasks import glue\nglue.read_tfds", ["keras_bert.tasks.glue.read_tfds"]),
        ("from pipelines import run_glue\nrun_glue._GLUE", ["pipelines.run_glue._GLUE"]),
        ("from pipelines import early_checks", ["pipelines.early_checks"]),
        ("from pipelines.command import run, show_messages", ["pipelines.command.show_messages"]),
    ],
)
def test_only_private_names_are_found(source, names):
    assert private(source) == names


def test_the_guide_names_what_commands_of_ones_own_use():
    page = (ROOT / "docs" / "guides" / "commands.md").read_text(encoding="utf-8")
    section = page.partition("## A command of your own")[2].partition("\n## ")[0]
    for module in pipelines.__all__:
        for name in exported_names(module):
            assert f"`{name.removeprefix('pipelines.')}`" in section

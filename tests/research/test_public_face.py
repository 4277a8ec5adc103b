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

PUBLIC = {f"keras_bert.{name}" for name in public_names()}
PUBLIC |= {f"pipelines.{module}" for module in (*pipelines.__all__, *commands())}
PUBLIC |= {
    f"pipelines.{module}.{name}"
    for module in pipelines.__all__
    for name in importlib.import_module(f"pipelines.{module}").__all__
}
PUBLIC |= {f"pipelines.{command}.{name}" for command in commands() for name in ("Arguments", "check", "main")}
PUBLIC_MODULES = {name.rpartition(".")[0] for name in PUBLIC} - {"keras_bert", "pipelines"}


def used(source):
    """Returns the names of the package that a file imports, and those that it takes from imported modules."""
    tree = ast.parse(source)
    names = set()
    modules = {"keras_bert": "keras_bert"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found = {part.asname or part.name: f"{node.module}.{part.name}" for part in node.names}
            names |= set(found.values())
            modules |= {name: place for name, place in found.items() if place in PUBLIC_MODULES}
        elif isinstance(node, ast.Import):
            names |= {part.name for part in node.names if "." in part.name}
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        first, *parts = text.split(".") if re.fullmatch(r"[\w.]+", text) else [""]
        place = modules.get(first)
        while parts and place in {"keras_bert", *PUBLIC_MODULES}:
            place = f"{place}.{parts.pop(0)}"
            names.add(place)
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
        for name in importlib.import_module(f"pipelines.{module}").__all__:
            assert f"`{module}.{name}`" in section

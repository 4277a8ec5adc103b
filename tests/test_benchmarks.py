"""Benchmarks need hours and other packages: here, that every name which they take from the package exists."""

import ast
import importlib
import pathlib

import pytest

pytestmark = pytest.mark.tensorflow
ROOT = pathlib.Path(__file__).parents[1]
OURS = ("keras_bert", "pipelines", "research")


def thing(name):
    """Returns what a dotted name means: a module, or something in one; raises if there is nothing."""
    module, _, rest = name.rpartition(".")
    if module:
        parent = thing(module)
        if hasattr(parent, rest):
            return getattr(parent, rest)
    return importlib.import_module(name)


def names_taken(source):
    """Returns the dotted names of the package that a source imports, and those that it reads of what it imported."""
    tree = ast.parse(source)
    meant = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in OURS:
                    meant[alias.name] = alias.name
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in OURS:
            for alias in node.names:
                meant[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    taken = set(meant.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            first, _, rest = name.partition(".")
            if first in meant and "(" not in name:
                taken.add(f"{meant[first]}.{rest}")
    return taken


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_names_exist(path):
    missing = []
    for name in sorted(names_taken(path.read_text(encoding="utf-8"))):
        try:
            thing(name)
        except ImportError:
            missing.append(name)
    assert missing == []


def test_a_missing_name_is_found():
    source = "from keras_bert.text import spans as own, nothing\nimport keras_bert\nown.lost(keras_bert.data.Batches)\n"
    names = names_taken(source)
    assert names >= {"keras_bert.text.nothing", "keras_bert.text.spans.lost", "keras_bert.data.Batches"}
    assert thing("keras_bert.data.Batches").__name__ == "Batches"
    with pytest.raises(ImportError, match="keras_bert.text.spans.lost"):
        thing("keras_bert.text.spans.lost")

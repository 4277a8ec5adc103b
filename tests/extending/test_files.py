"""The files are a user's: of public names, and those of the guide."""

import ast

import pytest

import keras_bert
from tests import documents
from tests.extending.conftest import FOLDER

GUIDE = documents.ROOT / "docs" / "guides" / "extending.md"
FILES = ["intents_task.py", "relations_task.py", "topics_head.py", "ranking_head.py"]
PUBLIC = {"dataclasses", "keras", "numpy", "tensorflow", "keras_bert", "keras_bert.tasks"}


@pytest.mark.parametrize("name", [*FILES, "ordinal_head.py"])
def test_the_file_is_a_users(name):
    source = (FOLDER / name).read_text()
    nodes = list(ast.walk(ast.parse(source)))
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    assert modules <= PUBLIC
    names = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
    assert {each.split(".")[1] for each in names if each.startswith("keras_bert.")} <= {*keras_bert.__all__}


@pytest.mark.parametrize("name", FILES)
def test_the_file_is_in_the_guide(name):
    (block,) = [block for block in documents.blocks(GUIDE) if block.title == name]
    assert block.code == (FOLDER / name).read_text()

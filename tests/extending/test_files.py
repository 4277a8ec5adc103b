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
    modules = set()
    used_names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            modules.add(node.module)
        elif isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            package, _, rest = ast.unparse(node).partition(".")
            if package == "keras_bert":
                used_names.add(rest.split(".")[0])
    assert modules <= PUBLIC
    assert used_names <= set(keras_bert.__all__)


@pytest.mark.parametrize("name", FILES)
def test_the_file_is_in_the_guide(name):
    codes = [block.code for block in documents.blocks(GUIDE) if block.title == name]
    assert codes == [(FOLDER / name).read_text()]

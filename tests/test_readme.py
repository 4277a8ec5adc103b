"""The README's quick start does what the README says."""

import contextlib
import io
import pathlib
import re

import pytest

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.usefixtures("minilm")
def test_the_quick_start_prints_what_it_says():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    said = re.search(r"\n\n((?:    .*\n)+)\n## Fine-tune", README).group(1)
    assert printed.getvalue().split() == said.split()


def test_every_file_of_the_tree_is_there():
    root = pathlib.Path(__file__).parents[1]
    names = set(re.findall(r"\b(\w+\.py)\b", README))
    found = {path.name for path in root.rglob("*.py") if ".venv" not in path.parts[len(root.parts)]}
    assert names <= found


def test_every_deviation_is_listed():
    root = pathlib.Path(__file__).parents[1]
    marks = sum(path.read_text().count("# Differs from BERT:") for path in (root / "keras_bert").rglob("*.py"))
    listed = README.split("## Differences from the original")[1].count("\n- ")
    assert marks == listed

"""The documents list all files and have valid links."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]


def test_the_architecture_names_every_file():
    named = set(re.findall(r"\b(\w+\.py)\b", (ROOT / "docs" / "architecture.md").read_text()))
    found = {path.name for path in (ROOT / "keras_bert").rglob("*.py")} - {"__init__.py", "version.py"}
    assert {name for name in named if not list(ROOT.glob(f"*/{name}"))} - found == set()
    reports_and_server = ("reports", "server")  # Listed as folders.
    inner = {path.name for folder in reports_and_server for path in (ROOT / "keras_bert").rglob(f"{folder}/*.py")}
    assert found - named - inner == set()


def test_every_deviation_is_listed():
    marks = sum(path.read_text().count("# Differs from BERT:") for path in (ROOT / "keras_bert").rglob("*.py"))
    assert marks == (ROOT / "docs" / "differences.md").read_text().count("\n- ")


def test_links_of_the_documents_are_valid():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "saved_models" / "README.md"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"

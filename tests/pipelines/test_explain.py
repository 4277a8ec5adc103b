"""Tests of the command-line program."""

import json

import pytest

import keras_bert
from tests.pipelines.programs import call, mistake

pytest.importorskip("tensorflow")

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
PROGRAM = "pipelines.explain"


@pytest.fixture
def model(build, pieces, tmp_path):
    keras_bert.save(build("classification"), tmp_path / "model", pieces, labels=["x", "y", "z"])
    return f"--model={tmp_path}/model"


def test_lines(model, tmp_path):
    """A line for each argument, as the explanation prints; the target is a name or a number."""
    bert = keras_bert.load(tmp_path / "model")
    assert call(PROGRAM, model, "ab c").splitlines() == [str(bert.explain("ab c"))]
    assert call(PROGRAM, model, "--target=z", "a b").strip() == str(bert.explain("a b", "z"))
    options = ["--target=1", "--method=integrated_gradients", "--n_steps=4", "--replacement=[PAD]"]
    found = bert.explain(("a", "b"), 1, method="integrated_gradients", n_steps=4, replacement="[PAD]")
    assert call(PROGRAM, model, *options, "a", "b").strip() == str(found)


def test_files(model, tmp_path):
    (tmp_path / "texts.csv").write_text("id,review\n7,ab c\n8,d\n")
    flags = [model, f"--input={tmp_path}/texts.csv", "--text_column=review"]
    assert "wrote 2 explanations" in call(PROGRAM, *flags, f"--output={tmp_path}/why.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "why.jsonl").read_text().splitlines()]
    found = keras_bert.load(tmp_path / "model").explain(["ab c", "d"])
    for row, explanation in zip(rows, found, strict=True):
        assert [word["text"] for word in row["words"]] == [word["text"] for word in explanation["words"]]
        assert row["value"] == pytest.approx(explanation["value"], abs=1e-4)
        assert row["target"] == explanation["target"]
    assert [row["id"] for row in rows] == ["7", "8"]
    (tmp_path / "texts.txt").write_text("ab c\nd\n")
    call(PROGRAM, model, f"--input={tmp_path}/texts.txt", f"--output={tmp_path}/why.html")
    page = (tmp_path / "why.html").read_text()
    assert page.count('role="listitem"') == 3
    assert "<title>Words of model</title>" in page


def test_mistakes(model, tmp_path):
    assert mistake(PROGRAM, model).startswith("expected either texts or --input. Received: neither")
    assert mistake(PROGRAM, model, "--target=q", "a").startswith("--target must be one of x, y, z")
    assert mistake(PROGRAM, model, "--replacement=[X]", "a").startswith("--replacement must be a token")
    (tmp_path / "texts.txt").write_text("a")
    flags = ["--text_column=a", f"--input={tmp_path}/texts.txt"]
    assert "for rows with columns" in mistake(PROGRAM, model, *flags)
    assert "has the signature explain if it was exported" in mistake(PROGRAM, model, "--server=localhost:8501", "a")

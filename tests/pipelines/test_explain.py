"""Tests of the command-line program."""

import pytest

import keras_bert
from tests.pipelines.programs import call, mistake, read_jsonl

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


def test_options(model, tmp_path):
    given = ["--target=1", "--method=integrated_gradients", "--n_steps=4", "--replacement=[PAD]"]
    printed = call(PROGRAM, model, *given, "a", "b")
    options = {"method": "integrated_gradients", "n_steps": 4, "replacement": "[PAD]"}
    explanation = keras_bert.load(tmp_path / "model").explain(("a", "b"), 1, **options)
    assert printed.strip() == str(explanation)


def words_of(explanation):
    return [word["text"] for word in explanation["words"]]


def test_a_table_of_texts(model, tmp_path):
    (tmp_path / "texts.csv").write_text("id,review\n7,ab c\n8,d\n")
    flags = [model, f"--input={tmp_path}/texts.csv", "--text_column=review"]
    assert "wrote 2 explanations" in call(PROGRAM, *flags, f"--output={tmp_path}/why.jsonl")
    rows = read_jsonl(tmp_path / "why.jsonl")
    explanations = keras_bert.load(tmp_path / "model").explain(["ab c", "d"])
    for row, explanation in zip(rows, explanations, strict=True):
        assert words_of(row) == words_of(explanation)
        assert row["value"] == pytest.approx(explanation["value"], abs=1e-4)
        assert row["target"] == explanation["target"]
    assert [row["id"] for row in rows] == ["7", "8"]


def test_a_page(model, tmp_path):
    (tmp_path / "texts.txt").write_text("ab c\nd\n")
    call(PROGRAM, model, f"--input={tmp_path}/texts.txt", f"--output={tmp_path}/why.html")
    page = (tmp_path / "why.html").read_text()
    assert page.count('role="listitem"') == 3
    assert "<title>Words of model</title>" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected either texts or --input. Received: neither"),
        (["--target=q", "a"], "--target must be one of x, y, z"),
        (["--replacement=[X]", "a"], "--replacement must be a token"),
        (["--text_column=a", "--input=texts.txt"], "for rows with columns"),
        (["--server=localhost:8501", "a"], "has the signature explain if it was exported"),
    ],
)
def test_mistakes(model, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("a")
    assert message in mistake(PROGRAM, model, *arguments)

"""The command as a user runs it."""

import subprocess
import sys

import numpy as np
import pytest

import keras_bert

pytestmark = pytest.mark.tensorflow


def slow(*values):
    """One more start of the program."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.fixture
def model(build, pieces, tmp_path):
    """A directory of a classifier, and a function that predicts as it should."""
    classifier = build("classification")
    keras_bert.save(classifier, tmp_path / "model", pieces, labels=["no", "yes", "maybe"])
    preprocessor = keras_bert.TextPreprocessor(pieces, 40, padding="longest")

    def expected(texts):
        logits = classifier(preprocessor(texts))["logits"].numpy()
        exponentials = np.exp(logits)
        return exponentials / exponentials.sum(-1, keepdims=True)

    return tmp_path / "model", expected


def predict(*arguments, given=None):
    command = [sys.executable, "-m", "pipelines.predict", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, input=given)


def assert_lines(done, expected):
    assert done.returncode == 0, done.stderr
    header, *lines = done.stdout.splitlines()
    assert header == "label\tno\tyes\tmaybe"
    for line, probabilities in zip(lines, expected, strict=True):
        label, *values = line.split("\t")
        assert label == ["no", "yes", "maybe"][probabilities.argmax()]
        np.testing.assert_allclose(np.array(values, float), probabilities, atol=2e-4)


@pytest.mark.slow
def test_a_pair(model):
    directory, expected = model
    assert_lines(predict(f"--model={directory}", "a b", "c d"), expected((["a b"], ["c d"])))


def test_a_file(model, tmp_path):
    directory, expected = model
    (tmp_path / "texts.tsv").write_text("a b c\n\nf g\n")
    done = predict(f"--model={directory}", f"--input={tmp_path}/texts.tsv", "--batch_size=2")
    assert_lines(done, expected(["a b c", "", "f g"]))


@pytest.mark.slow
def test_standard_input_and_regression(build, pieces, tmp_path):
    regression = build("regression")
    keras_bert.save(regression, tmp_path / "model", pieces)
    done = predict(f"--model={tmp_path}/model", given="a b\n")
    assert done.returncode == 0, done.stderr
    inputs = keras_bert.TextPreprocessor(pieces, 40)(["a b"])
    header, score = done.stdout.splitlines()
    assert header == "score"
    assert float(score) == pytest.approx(float(regression(inputs)["logits"][0, 0]), abs=2e-4)


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (["a", "b", "c"], None, "error: expected a text, and perhaps its pair, or --input. Received: a b c"),
        slow([], "a\tb\nc\n", "error: standard input:2: expected 2 columns, got 1"),
        slow([], "", "error: standard input: there is no text"),
        slow(["--input=none.tsv"], None, "error: [Errno 2] No such file or directory: 'none.tsv'"),
    ],
)
def test_a_users_mistake_is_one_line_and_status_2(tmp_path, arguments, given, message):
    done = predict(f"--model={tmp_path}", *arguments, given=given)
    assert done.returncode == 2
    assert [line for line in done.stderr.splitlines() if line.startswith("error:")] == [message]

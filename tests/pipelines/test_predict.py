"""Tests of the command-line program."""

import csv

import numpy as np
import pytest
import scipy.special

import keras_bert
from pipelines import common_flags
from tests.pipelines.programs import call, mistake, run

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.predict"
LABELS = ["no", "yes", "may\tbe"]


@pytest.fixture(scope="module")
def model(config, pieces, tmp_path_factory):
    """The directory of a classifier, and a function that computes the expected probabilities."""
    directory = tmp_path_factory.mktemp("model")
    classifier = keras_bert.build_classifier(keras_bert.build_encoder(config), 3)
    keras_bert.save(classifier, directory, pieces, labels=LABELS)
    preprocessor = keras_bert.TextPreprocessor(pieces, 40, padding="longest")
    return directory, lambda texts: scipy.special.softmax(classifier(preprocessor(texts))["logits"], -1)


def assert_lines(printed, expected):
    header, *rows = csv.reader(printed.splitlines(keepends=True), "excel-tab")
    assert header == ["label", *LABELS]
    for (label, *values), probabilities in zip(rows, expected, strict=True):
        assert label == LABELS[probabilities.argmax()]
        np.testing.assert_allclose(np.array(values, float), probabilities, atol=2e-4)


def test_pairs(model):
    directory, expected = model
    assert_lines(call(PROGRAM, f"--model={directory}", "a b", "c d"), expected((["a b"], ["c d"])))
    # Trailing blank lines are ignored.
    given = "a b\tc d\r\na\t\r\n\r\n\n"
    assert_lines(call(PROGRAM, f"--model={directory}", given=given), expected((["a b", "a"], ["c d", ""])))


def test_text_lines():
    assert common_flags.text_lines(b"a\r\n\nb\xff\n") == ["a", "", "b\ufffd"]
    with pytest.raises(ValueError, match="the texts are UTF-16. Save the file as UTF-8"):
        common_flags.text_lines("a\n".encode("utf-16"))


def test_input_file(model, tmp_path):
    directory, expected = model
    (tmp_path / "texts.tsv").write_text("a b c\n\nf g\n")
    printed, _ = run(PROGRAM, f"--model={directory}", f"--input={tmp_path}/texts.tsv", "--batch_size=2")
    assert_lines(printed, expected(["a b c", "", "f g"]))


def test_standard_input_and_regression(build, pieces, tmp_path):
    regression = build("regression")
    keras_bert.save(regression, tmp_path / "model", pieces)
    inputs = keras_bert.TextPreprocessor(pieces, 40)(["a b"])
    header, score = call(PROGRAM, f"--model={tmp_path}/model", given="a b\n").splitlines()
    assert header == "score"
    assert float(score) == pytest.approx(float(regression(inputs)["logits"][0, 0]), abs=2e-4)


def test_questions_about_a_long_context(build, pieces, tmp_path):
    """The answers equal those of the exported model, one above and one below the no-answer threshold."""
    labeler = build("question_answering")
    context = "é a b c\n" * 20 + "k l, m! n o p"
    preprocessor = keras_bert.TextPreprocessor(pieces, 24, padding="longest")
    keras_bert.export(labeler, preprocessor, tmp_path / "export" / "1")
    asked = [["a b"], ["x y z"]]
    answer = tf.saved_model.load(str(tmp_path / "export" / "1")).signatures["serving_default"]
    found = [answer(question=tf.constant(one), context=tf.constant([context])) for one in asked]
    odds = [float(one["null_score"][0] - one["score"][0]) for one in found]
    keras_bert.save(labeler, tmp_path / "model", pieces, sequence_length=24, null_threshold=sum(odds) / 2)
    (tmp_path / "context.txt").write_text(context)
    flags = [f"--question={one[0]}" for one in asked]
    context_file = f"--context_file={tmp_path}/context.txt"
    printed = call(PROGRAM, f"--model={tmp_path}/model", *flags, context_file, "--batch_size=3")
    rows = list(csv.reader(printed.splitlines(keepends=True), "excel-tab"))
    answered = int(np.argmin(odds))
    text = found[answered]["answer"].numpy()[0].decode()
    assert rows.pop(0 if answered else -1) == ["no answer"]
    (shown, probability), (marked,) = rows
    assert shown == text
    assert 0 < float(probability) < 1
    # The answer is printed inside the surrounding context.
    begin, content = int(found[answered]["start"][0]), context.encode()
    parts = content[:begin], content[begin + len(text.encode()) :], text.encode()
    left, right, middle = (" ".join(part.decode().split()) for part in parts)
    before, behind = marked.split(f"[[{middle}]]")
    assert left.endswith(before.removeprefix("...").strip())
    assert right.startswith(behind.removesuffix("...").strip())


def test_user_errors(model, build, pieces, tmp_path):
    keras_bert.save(build("question_answering"), tmp_path / "labeler", pieces)
    classifier, labeler = f"--model={model[0]}", f"--model={tmp_path}/labeler"
    context = "--question takes its context from --context_file only. Remove the text arguments and --input"
    for arguments, given, message in (
        (
            [classifier, "--question=a"],
            "b",
            f"{model[0]}: expected a question_answering head. Received: head='classification'",
        ),
        (
            [labeler, "a"],
            "b",
            f"{tmp_path}/labeler: expected a classification head. Received: head='question_answering'. Use --question "
            "and --context_file",
        ),
        ([classifier, "a", "b", "c"], "", "expected one text, a pair of texts, or --input. Received: a b c"),
        ([classifier], "a\tb\nc\n", "standard input:2: expected 2 columns, got 1"),
        ([classifier], "", "standard input: there is no text"),
        ([classifier, "--question=a", "b"], "", context),
        ([classifier, "--question=a"], " ", "--question and the text of --context_file must not be empty"),
        ([classifier, "--input=none.tsv"], "", "[Errno 2] No such file or directory: 'none.tsv'"),
    ):
        assert mistake(PROGRAM, *arguments, given=given) == message

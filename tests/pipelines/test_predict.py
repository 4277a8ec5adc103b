"""The command as a user runs it."""

import csv

import numpy as np
import pytest

import keras_bert
from pipelines import common_flags
from tests.pipelines.programs import run

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow


LABELS = ["no", "yes", "may\tbe"]


def slow(*values):
    """One more start of the program."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.fixture
def model(build, pieces, tmp_path):
    """A directory of a classifier, and a function that predicts as it should."""
    classifier = build("classification")
    keras_bert.save(classifier, tmp_path / "model", pieces, labels=LABELS)
    preprocessor = keras_bert.TextPreprocessor(pieces, 40, padding="longest")

    def expected(texts):
        logits = classifier(preprocessor(texts))["logits"].numpy()
        exponentials = np.exp(logits)
        return exponentials / exponentials.sum(-1, keepdims=True)

    return tmp_path / "model", expected


def predict(*arguments, given=""):
    return run("pipelines.predict", *arguments, given=given)


def assert_lines(done, expected):
    assert done.returncode == 0, done.stderr
    header, *rows = csv.reader(done.stdout.splitlines(keepends=True), "excel-tab")
    assert header == ["label", *LABELS]
    for (label, *values), probabilities in zip(rows, expected, strict=True):
        assert label == LABELS[probabilities.argmax()]
        np.testing.assert_allclose(np.array(values, float), probabilities, atol=2e-4)


@pytest.mark.slow
def test_a_pair(model):
    directory, expected = model
    assert_lines(predict(f"--model={directory}", "a b", "c d"), expected((["a b"], ["c d"])))
    # Blank lines at the end are no pairs.
    given = "a b\tc d\r\na\t\r\n\r\n\n"
    assert_lines(predict(f"--model={directory}", given=given), expected((["a b", "a"], ["c d", ""])))


def test_lines_of_a_file():
    assert common_flags.text_lines(b"a\r\n\nb\xff\n") == ["a", "", "b\ufffd"]
    with pytest.raises(ValueError, match="the texts are UTF-16. Save the file as UTF-8"):
        common_flags.text_lines("a\n".encode("utf-16"))


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


def test_questions_about_a_long_context(build, pieces, tmp_path):
    """The answers are those of the exported model, one above and one below the threshold for no answer."""
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
    done = predict(f"--model={tmp_path}/model", *flags, f"--context_file={tmp_path}/context.txt", "--batch_size=3")
    assert done.returncode == 0, done.stderr[-2000:]
    answered = int(np.argmin(odds))
    text = found[answered]["answer"].numpy()[0].decode()
    lines = done.stdout.splitlines()
    assert lines.pop(0 if answered else -1) == "no answer"
    assert lines[0].startswith(f"{text}\t")
    assert 0 < float(lines[0].split("\t")[1]) < 1
    begin = int(found[answered]["start"][0])
    before, behind = lines[1].split(f"[[{' '.join(text.split())}]]")
    assert " ".join(context.encode()[:begin].decode().split()).endswith(before.removeprefix("...").strip())
    assert " ".join(context.encode()[begin + len(text.encode()) :].decode().split()).startswith(
        behind.removesuffix("...").strip()
    )


@pytest.mark.slow
def test_the_wrong_head(model, build, pieces, tmp_path):
    keras_bert.save(build("question_answering"), tmp_path / "labeler", pieces)
    for directory, arguments, message in (
        (model[0], ["--question=a"], "expected a question_answering head. Received: head='classification'"),
        (tmp_path / "labeler", ["a"], "Received: head='question_answering': give --question and --context_file"),
    ):
        done = predict(f"--model={directory}", *arguments, given="b")
        assert (done.returncode, done.stderr.strip().splitlines()[-1].count(message)) == (2, 1)


CONTEXT_ALONE = "error: --question takes its context from --context_file alone: leave out other texts and --input"


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (["a", "b", "c"], "", "error: expected a text, and perhaps its pair, or --input. Received: a b c"),
        slow([], "a\tb\nc\n", "error: standard input:2: expected 2 columns, got 1"),
        slow([], "", "error: standard input: there is no text"),
        slow(["--question=a", "b"], "", CONTEXT_ALONE),
        slow(["--question=a"], " ", "error: --question and the text of --context_file must not be empty"),
        slow(["--input=none.tsv"], "", "error: [Errno 2] No such file or directory: 'none.tsv'"),
    ],
)
def test_a_users_mistake_is_one_line_and_status_2(tmp_path, arguments, given, message):
    done = predict(f"--model={tmp_path}", *arguments, given=given)
    assert done.returncode == 2
    assert [line for line in done.stderr.splitlines() if line.startswith("error:")] == [message]

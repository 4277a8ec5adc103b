"""Scores of SavedModels on labeled data; the models answer by rule, with the outputs of `export`."""

import dataclasses
import json
import re
from unittest import mock

import numpy as np
import pytest

from tests.pipelines.programs import parsed
from tests.tasks.files import write

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.data.sources import PythonRows  # noqa: E402
from keras_bert.exporting import assets, verification  # noqa: E402
from keras_bert.runs import saved_model_scores  # noqa: E402
from keras_bert.tasks import ClassificationReport, ClassificationTask, TextRows, setting  # noqa: E402
from keras_bert.tasks.classification import data  # noqa: E402
from keras_bert.tasks.registry import TASKS, register_task  # noqa: E402

# Of 1, 3, 5 and 7 characters.
WORDS = ["a b", "c d e", "f", "g h", "i a", "b b c", "d", "e f g h"]
LABELS = ["no", "maybe", "yes"]
TRUTH = ["maybe", "yes", "no", "maybe", "maybe", "yes", "no", "no"]
VERIFY = "pipelines.verify_saved_model"


@pytest.fixture
def table(tmp_path):
    def make(labels, **columns):
        rows = [("text", *columns, "label"), *zip(WORDS, *columns.values(), labels, strict=True)]
        return write(tmp_path / "dev.csv", "".join(",".join(row) + "\n" for row in rows))

    return make


@pytest.fixture
def save(tmp_path):
    """Writes the facts of a SavedModel, and its function unless only the facts are read."""

    def make(name, function=None, inputs=("text",), **facts):
        if function:
            specs = [tf.TensorSpec([None], tf.string, each) for each in inputs]
            signature = tf.function(function, input_signature=specs, autograph=False)
            tf.saved_model.save(tf.Module(), str(tmp_path / name), {"serving_default": signature})
        (tmp_path / name / assets.FOLDER).mkdir(parents=True)
        facts = {"head": "classification", "labels": None, "pair": False, "multi_label": False, **facts}
        (tmp_path / name / assets.FOLDER / assets.FACTS).write_text(json.dumps(facts))
        return tmp_path / name

    return make


@pytest.fixture
def right(save):
    """A classifier by the length of the text, which is always right."""
    return save("right", lambda text: probabilities(tf.strings.length(text) // 2), labels=LABELS)


@pytest.fixture
def wrong(save):
    """A classifier that is wrong for the three texts of three characters."""

    def function(text):
        length = tf.strings.length(text)
        return probabilities(length // 2 + tf.cast(length == 3, tf.int32))

    return save("wrong", function, labels=LABELS)


def probabilities(numbers):
    return {"probabilities": 0.1 + 0.7 * tf.one_hot(numbers % 3, 3)}


def test_a_classifier_and_its_reference(right, wrong, table, monkeypatch, tmp_path):
    monkeypatch.setattr(saved_model_scores, "_TOGETHER", 3)
    found = saved_model_scores.compare(wrong, table(TRUTH), reference=right)
    assert (found.rows, found.reference["accuracy"]) == (8, 100)
    assert (found.agreement, found.scores["accuracy"], found.drop) == (62.5, 62.5, 37.5)
    assert str(found).startswith("8 rows, accuracy 62.50 (reference 100.00), macro_f1 ")
    with pytest.raises(ValueError, match="takes single texts. Received: the others"):
        saved_model_scores.compare(right, table(TRUTH, second=WORDS), pair="second")
    with pytest.raises(ValueError, match="must have the labels of sst2. Received: labels="):
        saved_model_scores.compare(right, tmp_path, task="sst2")


@pytest.mark.parametrize(
    ("names", "columns", "options", "accuracy"),
    [
        (("text", "review"), {"text": "review"}, {}, 100),
        (("text", "review"), {"text": "review"}, {"text": "text"}, 25),  # Flags win.
        (("text", "review"), {"text": "body"}, {}, 25),  # Files without the columns are read by their usual names.
        (("review", "text"), None, {}, 100),  # Exports of earlier versions.
    ],
)
def test_columns_that_the_model_was_trained_on(right, tmp_path, names, columns, options, accuracy):
    """The first column has other texts, by which two of eight rows are right."""
    path = right / assets.FOLDER / assets.FACTS
    path.write_text(json.dumps({**json.loads(path.read_text()), "columns": columns}))
    others = ["a b c"] * len(WORDS)
    rows = [(*names, "label"), *zip(others, WORDS, TRUTH, strict=True)]
    data = write(tmp_path / "dev.csv", "".join(";".join(row) + "\n" for row in rows))
    assert saved_model_scores.compare(right, data, **options).scores["accuracy"] == accuracy


def test_columns_of_pairs():
    """The given column of pairs wins over that of training."""
    rows = PythonRows("dev", [{"a": "x", "b": "y", "c": "z", "label": "no"}])
    known = {"text": "b", "pair": "a"}
    assert data.columns_of_model(rows, ["label"], None, None, known) == ("b", "a")
    assert data.columns_of_model(rows, ["label"], None, "c", known) == ("b", "c")
    assert data.columns_of_model(rows, ["label"], "c", None, known) == ("c", None)
    assert data.columns_of_model(rows, ["label"], None, None, {"text": "b", "pair": "d"}) == ("text", None)


@dataclasses.dataclass(frozen=True)
class JoinedSettings:
    sign: str = setting("-", "What joins the words.", stored=True)
    sequence_length: int = setting(128, "Maximum number of tokens.")


class JoinedRows(TextRows):
    columns = ({"words"},)

    def convert(self, place, row, settings):
        return {"text": settings.sign.join(row["words"])}


class JoinedReport(ClassificationReport):
    """Has the share of rows whose class is at most one too high, the main score."""

    metric = "nearly"

    def score(self, targets, outputs):
        numbers = outputs["logits"].argmax(-1)
        nearly = np.isin(numbers - targets, [0, 1])
        return {**super().score(targets, outputs), "nearly": float(nearly.mean()), "classes": len(self.task.labels)}


class JoinedTask(ClassificationTask):
    name = "joined"
    Settings = JoinedSettings
    rows = JoinedRows()
    Report = JoinedReport


def test_rows_and_scores_of_a_users_task(save, tmp_path):
    """Rows are converted with the settings of the model, and the scores are those of the report."""
    register_task(JoinedTask)

    def by_length(text):
        return probabilities(tf.strings.length(text) // 2)

    task = {"name": "joined", "settings": {"sign": "_"}}
    model = save("joined", by_length, labels=LABELS, task=task)
    truth = ["maybe", "yes", "no", "no", "yes", "yes", "no", "no"]
    rows = [{"words": text.split(), "answer": label} for text, label in zip(WORDS, truth, strict=True)]
    path = write(tmp_path / "dev.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = saved_model_scores.compare(model, path, label="answer", reference=model)
    assert [*found.scores] == ["nearly", "accuracy", "macro_f1", "matthews_correlation", "classes"]
    assert found.scores["nearly"] == 87.5  # All but the fifth: "maybe" instead of "yes".
    assert (found.scores["accuracy"], found.scores["classes"]) == (75, 300)
    assert (found.drop, found.agreement) == (0.0, 100.0)
    other = save("other", lambda text: {"numbers": tf.strings.length(text)}, labels=LABELS, task=task)
    with pytest.raises(ValueError, match="the head classification tells no classes in its answers, numbers"):
        saved_model_scores.compare(other, path, label="answer")


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda self, targets, outputs: {"nearly": outputs["category"]}, "KeyError: 'category'. See `model_outputs`"),
        (lambda self, targets, outputs: self.task.splits, "a SavedModel does not tell `task.splits`"),
        (lambda self, targets, outputs: {"other": 1.0}, "KeyError: 'nearly'"),
    ],
)
def test_scores_that_a_saved_model_does_not_have(save, tmp_path, monkeypatch, score, message):
    """Those of the classes are there, and a note tells what is missing."""
    register_task(JoinedTask)
    monkeypatch.setattr(JoinedReport, "score", score)
    task = {"name": "joined", "settings": {}}
    model = save("joined", lambda text: probabilities(tf.strings.length(text) // 2), labels=LABELS, task=task)
    path = write(tmp_path / "dev.jsonl", json.dumps({"words": ["a"], "label": "no"}) + "\n")
    found = saved_model_scores.compare(model, path)
    assert found.scores["accuracy"] == 100
    assert "(without the `score` of the task joined, which fails for the answers probabilities: " in str(found)
    assert message in found.note


@pytest.mark.parametrize(
    ("answer", "score", "reasons"),
    [
        (
            lambda text: {"numbers": tf.strings.length(text)},
            lambda self, targets, outputs: {"nearly": outputs["category"]},
            ["tells no classes in its answers, numbers"],
        ),
        (
            lambda text: {"logits": tf.cast(tf.strings.length(text), "float32")},
            lambda self, targets, outputs: {"nearly": 1.0},
            [r"must keep the shape of the output 'logits' of the model, .* Received: the shape \(1,\)"],
        ),
        (
            lambda text: {"numbers": tf.strings.length(text)},
            lambda self, targets, outputs: {"nearly": outputs["category"]},
            ["fails for the answers numbers: KeyError: 'category'", "nor those of classes: .* no classes"],
        ),
    ],
)
def test_neither_the_scores_of_a_task_nor_of_classes(save, tmp_path, monkeypatch, answer, score, reasons):
    """One line has both reasons."""
    register_task(JoinedTask)
    monkeypatch.setattr(JoinedReport, "score", score)
    if "nor those" in reasons[-1]:
        monkeypatch.setattr("keras_bert.heads.head.Head.model_outputs", lambda self, answers: answers)
        monkeypatch.setattr(JoinedReport, "class_logits", lambda self, outputs: outputs["numbers"][:, None])
    model = save("joined", answer, labels=LABELS, task={"name": "joined", "settings": {}})
    path = write(tmp_path / "dev.jsonl", json.dumps({"words": ["a"], "label": "no"}) + "\n")
    with pytest.raises(ValueError, match="has no scores: neither the `score` of the task joined, which fails") as found:
        saved_model_scores.compare(model, path)
    assert "\n" not in str(found.value)
    for reason in reasons:
        assert re.search(reason, str(found.value))


def test_logits_of_a_report_without_classes(save, tmp_path, monkeypatch):
    register_task(JoinedTask)
    monkeypatch.setattr(JoinedReport, "class_logits", lambda self, outputs: outputs["logits"].max(-1))
    model = save(
        "joined",
        lambda text: probabilities(tf.strings.length(text) // 2),
        labels=LABELS,
        task={"name": "joined", "settings": {}},
    )
    path = write(tmp_path / "dev.jsonl", json.dumps({"words": ["a"], "label": "no"}) + "\n")
    message = r"`class_logits` must be \(rows, classes\), or \(rows, 1\) for numbers. Received: the shape \(1,\)"
    assert re.search(message, saved_model_scores.compare(model, path).note)


@pytest.mark.skipif("questions" not in {task.name for task in TASKS}, reason="no such task")
def test_questions_and_heads_without_labels(save, tmp_path):
    def first_letters(question, context):
        return {"answer": tf.strings.substr(context, 0, 3)}

    span = save("span", first_letters, ("question", "context"), head="question_answering")
    answers = [("a b", 0), ("a b", 0), ("d", 6)]
    qas = [
        {"id": str(row), "question": WORDS[row], "answers": [{"text": text, "answer_start": start}]}
        for row, (text, start) in enumerate(answers)
    ]
    content = {"version": "1.1", "data": [{"title": "", "paragraphs": [{"context": "a b c d", "qas": qas}]}]}
    (tmp_path / "dev.json").write_text(json.dumps(content))
    found = saved_model_scores.compare(span, tmp_path / "dev.json", reference=span)
    assert found.scores == {"f1": pytest.approx(200 / 3), "exact_match": pytest.approx(200 / 3)}
    assert (found.drop, found.agreement) == (0.0, 100.0)

    encoder = save("encoder", head="encoder")
    with pytest.raises(ValueError, match="is for classification, regression and question answering. Received: head="):
        saved_model_scores.compare(encoder, tmp_path / "dev.json")
    with pytest.raises(ValueError, match="must be the same model as .* Received: head='encoder' and "):
        saved_model_scores.compare(span, tmp_path / "dev.json", reference=encoder)


def test_the_command_judges_the_score(right, wrong, table, capsys):
    """tests/pipelines/test_verify_saved_model.py verifies a model; here, it has no problem but its score."""

    def judge(*arguments):
        report = verification.VerificationReport(str(wrong), ["it answers"], [])
        program, arguments = parsed(VERIFY, *arguments)
        with mock.patch.object(verification, "verify", return_value=[report]), pytest.raises(SystemExit) as end:
            program.main(arguments)
        return end.value.code, capsys.readouterr().out.splitlines()

    arguments = [wrong, f"--labeled={table(TRUTH)}", f"--reference={right}"]
    status, (_, scores, verdict) = judge(*arguments, "--max_drop=38")
    assert scores.startswith(f"{wrong}: labeled: 8 rows, accuracy 62.50 (reference 100.00), ")
    assert (status, verdict) == (0, "fit to ship")
    status, (*_, verdict) = judge(*arguments)
    assert status == 2
    assert verdict.endswith(f": accuracy is 37.50 points below that of {right}")

"""The promises of every task: read, build, one epoch, conclude, save, load, export, answer. A new task is a row."""

import dataclasses
import json
import re
import types
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.heads.registry import answering
from keras_bert.tasks.base import Start, rate_advice
from keras_bert.tasks.classification.data import Columns, own_data
from keras_bert.tasks.classification.examples import TextExamples
from keras_bert.tasks.classification.multi_label_task import MultiLabelTask
from keras_bert.tasks.classification.task import ClassificationTask
from keras_bert.tasks.registry import TASKS, task_named

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


class Case(NamedTuple):
    """A task on one small file, which is train, dev and the data to predict.

    Args:
        task: its name.
        file: name of the file.
        content: list of the lines of the file, or of rows to write as JSON.
        make: function of the path, the directory of the start model and the loaded start model that returns the task.
        answer: the keys of an answer.
        predictions: the file of predictions.
    """

    task: str
    file: str
    content: list
    make: Callable
    answer: tuple = ()
    predictions: str | None = None


def classify(kind, cls=ClassificationTask, pair=None, **options):
    """Returns `make` of a task on texts with labels."""

    def make(path, model, bert):
        data = own_data(kind, path, path, path, columns=Columns(text="text", pair=pair))
        return cls(data, Start(model, bert), cls.Settings(sequence_length=8, **options))

    return make


def of(name, files=3, **options):
    """Returns `make` of a task, whose settings read the file as train, as dev and, of three files, to predict."""

    def make(path, model, bert):
        cls = task_named(name)
        settings = cls.Settings(**options)
        data = settings.read(*[str(path)] * files)
        return cls(data, Start(model, bert), settings)

    return make


TEXTS = ["a b c", "d e", "f g h i", "j"]
QUESTIONS = [
    {"id": "1", "question": "a", "answers": [{"text": "e", "answer_start": 4}]},
    {"id": "2", "question": "a", "answers": []},
]
SQUAD = {"version": "v2.0", "data": [{"paragraphs": [{"context": "c d e f g h i j k l m", "qas": QUESTIONS}]}]}
CHOICES = [
    {"text": "a b c", "choices": ["k", "l m", "n"], "label": "A"},
    {"text": "d e", "choices": ["k", "l m", "n"], "label": "B"},
    {"text": "f g h i", "choices": ["k", "l m", "n"], "label": "C"},
    {"text": "j", "choices": ["k", "l m", "n"], "label": "A"},
]
EMBEDDING = of("embedding", files=2, sequence_length=8)
TAGGING = of("tagging", sequence_length=6)
CASES = {
    "classification": Case(
        task="classification",
        file="a.csv",
        content=["text,label", "a b c,x", "d e,y", "f g h i,x", "j,y"],
        make=classify("classification"),
        answer=("label", "scores"),
        predictions="predictions.tsv",
    ),
    "regression": Case(
        task="classification",
        file="a.csv",
        content=["text,second,label", "a b c,k l,0", "d e,k l,1", "f g h i,k l,2", "j,k l,3"],
        make=classify("regression", pair="second"),
        answer=("value",),
        predictions="predictions.tsv",
    ),
    "multi_label": Case(
        task="multi_label",
        file="a.csv",
        content=["text,label", "a b c,x", "d e,x|y", "f g h i,", "j,y"],
        make=classify("multi_label", MultiLabelTask, threshold="shared"),
        answer=("labels", "scores"),
        predictions="predictions.tsv",
    ),
    "entities": Case(
        task="tagging",
        file="a.txt",
        content=["a B-X", "b O", "", "c I-X", "d O", "e O"],
        make=TAGGING,
        answer=("entities",),
        predictions="predictions.txt",
    ),
    "tags": Case(
        task="tagging",
        file="a.txt",
        content=["a N", "b V", "", "c N"],
        make=TAGGING,
        answer=("entities",),
        predictions="predictions.txt",
    ),
    "questions": Case(
        task="questions",
        file="a.json",
        content=[SQUAD],
        make=of("questions", version_2=True, sequence_length=12, doc_stride=6),
        answer=("answer", "start", "end", "score"),
        predictions="test/predictions.json",
    ),
    "multiple_choice": Case(
        task="multiple_choice",
        file="a.jsonl",
        content=CHOICES,
        make=of("multiple_choice", sequence_length=8),
        answer=("choice", "scores"),
        predictions="predictions.tsv",
    ),
    "scored": Case(
        task="embedding",
        file="a.csv",
        content=["query,passage,score", "a b,c,0", "d,e,1", "f,g h,0.5"],
        make=EMBEDDING,
    ),
    "pairs": Case(
        task="embedding",
        file="a.csv",
        content=["query,passage", "a b,c", "d,e f"],
        make=EMBEDDING,
    ),
    "triplets": Case(
        task="embedding",
        file="a.csv",
        content=["query,passage,negative", "a b,c,d", "d,e f,"],
        make=EMBEDDING,
    ),
}
NAMES = {task.name for task in TASKS}
CASES = {name: case for name, case in CASES.items() if case.task in NAMES}
ONE_OF_EACH_FOLDER = ["classification", "entities", "questions", "multiple_choice", "scored"]
OFTEN = [name for name in ONE_OF_EACH_FOLDER if name in CASES]
OTHERS = [name for name in CASES if name not in OFTEN]
KEEPING_HEADS = ("entities", "questions", "multiple_choice")


@pytest.mark.parametrize("name", OFTEN)
def test_from_a_file_to_answers(name, checkpoint, tmp_path):
    from_a_file_to_answers(name, checkpoint, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_data_of_the_tasks(name, checkpoint, tmp_path):
    from_a_file_to_answers(name, checkpoint, tmp_path)


def from_a_file_to_answers(name, checkpoint, folder):
    """Exports, and all that runs do, are in `tests/testing`."""
    case = CASES[name]
    bert = keras_bert.load(checkpoint)
    path = write_case(case, folder)
    task = case.make(path, str(checkpoint), bert)
    again = case.make(path, str(checkpoint), bert)
    assert task.run_settings == again.run_settings
    check_facts(task)

    trainer, scores = trained(task)
    check_kept_outputs(task, trainer)
    report = task.report
    dev = combined(report, report.dev_logits(trainer.predict))
    test = combined(report, report.test_logits(trainer.predict))
    findings = report.conclude(dev, test, folder / "out")
    assert findings.measured[report.metric] == pytest.approx(scores[report.metric])
    assert {len(row) for row in findings.errors} == {len(findings.errors[0])}
    assert report.judge(dev).errors() == findings.errors
    if case.predictions is not None:
        assert (folder / "out" / case.predictions).is_file()

    options = task.save_options(dev)
    model = task.training.complete(trainer.model)
    options["sequence_length"] = task.sequence_length
    keras_bert.save(model, folder / "model", bert.vocabulary, **options)
    saved = keras_bert.load(folder / "model")
    if name in KEEPING_HEADS:
        assert task.training.build(saved) is saved.model()
    check_answers(case, task, saved)


def write_case(case, folder):
    """Writes the file of a case; returns its path."""
    lines = []
    for line in case.content:
        if not isinstance(line, str):
            line = json.dumps(line)
        lines.append(f"{line}\n")
    path = folder / case.file
    path.write_text("".join(lines))
    return path


def check_facts(task):
    """What is told of a task becomes JSON."""
    report = task.report
    card = dataclasses.asdict(report.card)
    for described in (task.run_settings, report.summary.to_json(), report.facts, card):
        assert json.dumps(described)
    assert report.summary.train > 1


def trained(task):
    """Trains for an epoch; returns the trainer and the scores on dev."""
    (stage,) = task.training.stages({})
    batches = stage.batches(*stage.examples(), batch_size=4, seed=1, grouped=False)
    trainer = keras_bert.Trainer(
        lambda: stage.build(task.bert),
        lambda model: keras_bert.create_optimizer(model, 1e-3, batches.steps),
        stage.loss,
        metrics=stage.score,
    )
    scores = trainer.fit(batches, epochs=1, evaluation=stage.dev)
    return trainer, scores


def check_kept_outputs(task, trainer):
    """The outputs of dev that the training kept are those of a prediction, and dev is not predicted again."""
    asked = []

    def fitted(batches):
        asked.append(batches)
        return trainer.fitted_outputs(batches)

    kept = task.report.dev_logits(fitted)
    predicted = task.report.dev_logits(trainer.predict)
    assert any(batches is task.dev for batches in asked)
    assert kept.keys() == predicted.keys()
    for key, array in predicted.items():
        np.testing.assert_array_equal(kept[key], array)


def combined(report, logits):
    """Returns the logits of an ensemble of one run."""
    return {key: report.combine([array]) for key, array in logits.items()}


def check_answers(case, task, saved):
    """A saved model answers the example of its export."""
    options = task.export_options(saved)
    example = options["example"]
    own = options.keys() - {"labels", "pair", "example", "score_range"}
    assert own <= set(answering(saved.head).text_options)
    if case.answer:
        (answer,) = saved.predict([example])
        assert answer.keys() >= set(case.answer)
    else:
        assert np.isfinite(saved.encode([example["text"]])).all()


NAMED_COLUMNS = [
    ("tagging", {"word_column": "body"}, {"texts": ["a"]}, {"text": "body"}),
    ("tagging", {"word_column": None}, {"texts": ["a"]}, None),
    ("tagging", {"word_column": "2"}, {"texts": None}, None),  # Words of CoNLL, which no text to predict has.
    ("embedding", {"text_column": "body"}, {}, {"text": "body"}),
    ("embedding", {"text_column": None}, {}, None),
    (
        "multiple_choice",
        {"text_column": "stem", "choice_columns": ["x", "y"]},
        {"swag": False},
        {"text": "stem", "choices": ["x", "y"]},
    ),
    ("multiple_choice", {"text_column": None, "choice_columns": None}, {"swag": True}, None),
]


@pytest.mark.parametrize(("name", "settings", "data", "columns"), [row for row in NAMED_COLUMNS if row[0] in NAMES])
def test_named_columns_are_stored(name, settings, data, columns):
    bert = types.SimpleNamespace(prompts=None, default_prompt_name=None, similarity_function="cosine")
    train = types.SimpleNamespace(**data)
    task = types.SimpleNamespace(
        name=name,
        labels=["O"],
        bert=bert,
        own_prompts={},
        settings=types.SimpleNamespace(**settings),
        data=types.SimpleNamespace(train=train),
    )
    assert task_named(name).save_options(task, None).get("columns") == columns


class LengthsReport(keras_bert.tasks.Report):
    """The accuracy."""

    metric = "accuracy"

    def score(self, targets, outputs):
        return {"accuracy": float(np.mean(outputs["logits"].argmax(-1) == targets))}


class Lengths(keras_bert.tasks.Task):
    """A task outside of the package that states the least: texts with classes, or with one number."""

    head = "classification"
    Report = LengthsReport

    def __init__(self, targets, labels=None):
        self.labels = labels
        tokens = tf.ragged.constant([[1], [1, 1], [1, 1, 1]])
        examples = TextExamples(["a", "b b", "c c c"], None, targets, [0, 1, 2])
        split = keras_bert.tasks.Split("dev", examples, {"token_ids": tokens}, np.array(targets))
        self.splits = {"train": [split], "dev": [split], "test": []}


def test_a_report_of_classes_is_derived_from_logits(tmp_path):
    logits = np.log([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    task = Lengths([1, 1, 0], ["no", "yes"])
    findings = task.report.conclude({"dev": logits}, {}, tmp_path)
    titles = re.findall("<h2>(.+?)</h2>", "".join(findings.sections))
    assert titles[:3] == ["Confusion matrix", "Classes", "Calibration"]
    assert titles[3:] == ["Errors by length", "Hardest examples of dev"]
    assert findings.measured == {"accuracy": pytest.approx(1 / 3)}
    assert findings.errors == [
        ["row", "true", "predicted", "probability", "loss", "text"],
        [1, "yes", "no", "0.9", "2.30259", "a"],
        [3, "no", "yes", "0.7", "1.20397", "c c c"],
    ]


def test_a_report_of_numbers_is_derived_from_logits():
    judged = Lengths([0.5, 1.0, 4.0]).report.judge({"dev": np.ones([3, 1])})
    sections, errors = judged.report()
    assert len(sections) == 3
    assert errors[:2] == [["row", "target", "predicted", "error", "text"], [3, "4", "1", "3", "c c c"]]


def test_outputs_of_another_form_have_no_report():
    assert Lengths([1, 1, 0]).report.judge({"dev": np.zeros([3, 4, 2])}) is None


DEFAULTS = [3e-4]


@pytest.mark.parametrize(
    ("losses", "rate", "advice"),
    [
        ([0.7, 0.69] * 10, 3e-5, "from 0.695 to 0.695. If the scores are low, try a learning_rate of 9e-05 or 0.0003,"),
        ([0.7] * 20, 1e-2, "try a learning_rate of 0.0003, or more epochs"),
        ([0.7] * 20, 1e-6, "try a learning_rate of 0.0003, or more epochs"),
        ([0.7] * 18 + [0.66] * 2, 3e-5, None),
        ([0.7] * 9, 3e-5, None),
        ([0.7] * 20, 0.0, None),
    ],
)
def test_advice_on_a_loss_that_hardly_fell(losses, rate, advice):
    found = rate_advice(lines_of(losses), ["a_loss", "b_loss"], rate, DEFAULTS)
    if advice is None:
        assert found is None
    else:
        assert advice in found


def lines_of(losses, **more):
    """Returns the lines of a run with two losses, whose sums are given, and of an evaluation."""
    lines = []
    for loss in losses:
        line = {"kind": "train", "a_loss": loss / 2, "b_loss": loss / 2}
        lines.append(line | more)
    lines.append({"kind": "evaluation", "loss": 9.0})
    return lines


def test_advice_on_gradients_of_zero():
    found = rate_advice(lines_of([0.7, 0.7], gradient_norm=0.0), ["a_loss", "b_loss"], 3e-5, DEFAULTS)
    assert "the gradient of the loss was zero in all steps" in found
    frozen = rate_advice(lines_of([0.7, 0.7], gradient_norm=0.0), ["a_loss", "b_loss"], 0.0, DEFAULTS)
    assert frozen is None

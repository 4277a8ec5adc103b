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
from keras_bert.tasks import stages
from keras_bert.tasks.base import Start, rate_advice
from keras_bert.tasks.classification.data import Columns, own_data
from keras_bert.tasks.classification.examples import TextExamples
from keras_bert.tasks.classification.multi_label_task import MultiLabelTask
from keras_bert.tasks.classification.task import ClassificationTask, ClassificationTraining
from keras_bert.tasks.registry import TASKS, task_named

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


class Case(NamedTuple):
    """A task on one small file, which is train, dev and the data to predict.

    Args:
        name, content: the file; `content` is a list of lines, or of rows to write as JSON.
        make: function of path, directory of the start model and loaded start model that returns the task.
        answer: the keys of an answer.
        predictions: the file of predictions.
    """

    name: str
    content: list
    make: Callable
    answer: set
    predictions: str | None


def classify(kind, task=ClassificationTask, pair=None, **options):
    def make(path, model, bert):
        data = own_data(kind, path, path, path, columns=Columns(text="text", pair=pair))
        return task(data, Start(model, bert), task.Settings(sequence_length=8, **options))

    make.task = task.name
    return make


def of(name, files=3, **options):
    """Returns `make` of a task, whose settings read the file as train, as dev and, of three files, to predict."""

    def make(path, model, bert):
        cls = task_named(name)
        settings = cls.Settings(**options)
        return cls(settings.read(*[str(path)] * files), Start(model, bert), settings)

    make.task = name
    return make


TEXTS = ["a b c", "d e", "f g h i", "j"]
LABELLED = ["text,label", *(f"{text},{label}" for text, label in zip(TEXTS, "xyxy", strict=True))]
SETS = ["text,label", *(f"{text},{label}" for text, label in zip(TEXTS, ["x", "x|y", "", "y"], strict=True))]
SCORED = ["text,second,label", *(f"{text},k l,{number}" for number, text in enumerate(TEXTS))]
GOLDS = {"1": [{"text": "e", "answer_start": 4}], "2": []}
ASKED = [{"id": name, "question": "a", "answers": answers} for name, answers in GOLDS.items()]
SQUAD = {"version": "v2.0", "data": [{"paragraphs": [{"context": "c d e f g h i j k l m", "qas": ASKED}]}]}
CHOICES = [{"text": text, "choices": ["k", "l m", "n"], "label": "ABCA"[row]} for row, text in enumerate(TEXTS)]
several = classify("multi_label", MultiLabelTask, threshold="shared")
tag, embed = of("tagging", sequence_length=6), of("embedding", files=2, sequence_length=8)
ask = of("questions", version_2=True, sequence_length=12, doc_stride=6)
choose = of("multiple_choice", sequence_length=8)
CASES = {
    "classification": Case("a.csv", LABELLED, classify("classification"), {"label", "scores"}, "predictions.tsv"),
    "regression": Case("a.csv", SCORED, classify("regression", pair="second"), {"value"}, "predictions.tsv"),
    "multi_label": Case("a.csv", SETS, several, {"labels", "scores"}, "predictions.tsv"),
    "entities": Case("a.txt", ["a B-X", "b O", "", "c I-X", "d O", "e O"], tag, {"entities"}, "predictions.txt"),
    "tags": Case("a.txt", ["a N", "b V", "", "c N"], tag, {"entities"}, "predictions.txt"),
    "questions": Case("a.json", [SQUAD], ask, {"answer", "start", "end", "score"}, "test/predictions.json"),
    "multiple_choice": Case("a.jsonl", CHOICES, choose, {"choice", "scores"}, "predictions.tsv"),
    "scored": Case("a.csv", ["query,passage,score", "a b,c,0", "d,e,1", "f,g h,0.5"], embed, set(), None),
    "pairs": Case("a.csv", ["query,passage", "a b,c", "d,e f"], embed, set(), None),
    "triplets": Case("a.csv", ["query,passage,negative", "a b,c,d", "d,e f,"], embed, set(), None),
}


NAMES = {task.name for task in TASKS}
CASES = {name: case for name, case in CASES.items() if case.make.task in NAMES}
OFTEN = ["classification", "entities", "questions", "multiple_choice", "scored"]  # One of each folder.
OFTEN = [name for name in OFTEN if name in CASES]


@pytest.mark.parametrize("name", OFTEN)
def test_from_a_file_to_answers(name, checkpoint, tmp_path):
    from_a_file_to_answers(name, checkpoint, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in OFTEN])
def test_other_data_of_the_tasks(name, checkpoint, tmp_path):
    from_a_file_to_answers(name, checkpoint, tmp_path)


def from_a_file_to_answers(name, checkpoint, tmp_path):
    """Exports, and all that runs do, are in `tests/testing`."""
    case, path, bert = CASES[name], tmp_path / CASES[name].name, keras_bert.load(checkpoint)
    lines = [line if isinstance(line, str) else json.dumps(line) for line in case.content]
    path.write_text("\n".join(lines) + "\n")
    task, again = (case.make(path, str(checkpoint), bert) for _ in range(2))
    assert task.run_settings == again.run_settings
    training, report = task.training, task.report
    for described in (task.run_settings, report.summary.to_json(), report.facts, dataclasses.asdict(report.card)):
        assert json.dumps(described)
    assert report.summary.train > 1

    (stage,) = training.stages({})
    batches = stage.batches(*stage.examples(), batch_size=4, seed=1, grouped=False)
    dev = stage.dev
    trainer = keras_bert.Trainer(
        lambda: stage.build(bert),
        lambda model: keras_bert.create_optimizer(model, 1e-3, batches.steps),
        stage.loss,
        metrics=stage.score,
    )
    scores = trainer.fit(batches, epochs=1, evaluation=dev)
    asked = []

    def fitted(batches):
        asked.append(batches)
        return trainer.fitted_outputs(batches)

    kept, predicted = report.dev_logits(fitted), report.dev_logits(trainer.predict)
    assert any(batches is dev for batches in asked)  # They are not predicted again.
    assert {key: array.tobytes() for key, array in kept.items()} == {
        key: array.tobytes() for key, array in predicted.items()
    }
    logits, test = ([logits(trainer.predict)] for logits in (report.dev_logits, report.test_logits))
    logits, test = ({key: report.combine([run[key] for run in runs]) for key in runs[0]} for runs in (logits, test))
    findings = report.conclude(logits, test, tmp_path / "out")
    assert findings.measured[report.metric] == pytest.approx(scores[report.metric])
    assert {len(row) for row in findings.errors} == {len(findings.errors[0])}
    assert report.judge(logits).errors() == findings.errors
    assert case.predictions is None or (tmp_path / "out" / case.predictions).is_file()

    options = {"sequence_length": task.sequence_length, **task.save_options(logits)}
    keras_bert.save(training.complete(trainer.model), tmp_path / "model", bert.vocabulary, **options)
    saved = keras_bert.load(tmp_path / "model")
    if name in ("entities", "questions", "multiple_choice"):  # Their fine-tuned models keep their heads.
        assert training.build(saved) is saved.model()
    options = task.export_options(saved)
    example = options["example"]
    assert options.keys() - {"labels", "pair", "example", "score_range"} <= set(answering(saved.head).text_options)
    if case.answer:
        (answer,) = saved.predict([example])
        assert case.answer <= set(answer)
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

    head, Report = "classification", LengthsReport

    def __init__(self, targets, labels=None):
        self.labels, tokens = labels, tf.ragged.constant([[1] * size for size in (1, 2, 3)])
        examples = TextExamples(["a", "b b", "c c c"], None, targets, [0, 1, 2])
        split = keras_bert.tasks.Split("dev", examples, {"token_ids": tokens}, np.array(targets))
        self.splits = {"train": [split], "dev": [split], "test": []}


def test_a_report_is_derived_from_logits(tmp_path):
    logits = np.log([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    findings = Lengths([1, 1, 0], ["no", "yes"]).report.conclude({"dev": logits}, {}, tmp_path)
    names = [name for section in findings.sections for name in re.findall("<h2>(.+?)</h2>", section)]
    assert names == ["Confusion matrix", "Classes", "Calibration", "Errors by length", "Hardest examples of dev"]
    assert findings.measured == {"accuracy": pytest.approx(1 / 3)}
    assert findings.errors == [
        ["row", "true", "predicted", "probability", "loss", "text"],
        [1, "yes", "no", "0.9", "2.30259", "a"],
        [3, "no", "yes", "0.7", "1.20397", "c c c"],
    ]
    sections, errors = Lengths([0.5, 1.0, 4.0]).report.judge({"dev": np.array([[1.0], [1.0], [1.0]])}).report()
    assert len(sections) == 3
    assert errors[:2] == [["row", "target", "predicted", "error", "text"], [3, "4", "1", "3", "c c c"]]
    assert Lengths([1, 1, 0]).report.judge({"dev": np.zeros([3, 4, 2])}) is None


class Grid(keras_bert.tasks.Training):
    """A training of which only the grid is needed."""

    make_loss = None
    learning_rates = 5e-5, 2e-5

    def __init__(self, config, load_options, scales_rates=True):
        super().__init__(types.SimpleNamespace(config=config, start=Start("start", None, None, load_options)))
        self.scales_rates = scales_rates


@pytest.mark.parametrize(
    ("width", "options", "rates"),
    [
        (1024, ({},), [5e-5, 2e-5]),
        (768, ({},), [5e-5, 2e-5]),
        (384, ({},), [1.5e-4, 6e-5]),
        (256, ({"num_layers": 2},), [5e-4, 2e-4]),
        (256, ({"vocabulary": "vocab.txt"},), [1e-3]),
        (256, ({}, False), [5e-5, 2e-5]),
    ],
)
def test_narrow_models_have_higher_rates(width, options, rates):
    config = dataclasses.replace(keras_bert.BERT_TINY, hidden_size=width)
    task = Grid(config, *options)
    assert task.choices() == {"learning_rate": rates, "batch_size": [32], "epochs": [3], "seed": [1]}
    given = {"learning_rate": [1e-5], "batch_size": [8], "epochs": [1, 2], "seed": [0, 4]}
    assert task.choices(**given) == given


@pytest.mark.parametrize(
    ("losses", "rate", "found"),
    [
        ([0.7, 0.69] * 10, 3e-5, "from 0.695 to 0.695. If the scores are low, try a learning_rate of 9e-05 or 0.0003,"),
        ([0.7] * 20, 1e-2, "try a learning_rate of 0.0003, or more epochs"),
        ([0.7] * 20, 1e-6, "try a learning_rate of 0.0003, or more epochs"),
        ([0.7] * 18 + [0.66] * 2, 3e-5, None),
        ([0.7] * 9, 3e-5, None),
        ([0.7] * 20, 0.0, None),
    ],
)
def test_advice_on_a_loss_that_hardly_fell(losses, rate, found):
    lines = [{"kind": "train", "a_loss": loss / 2, "b_loss": loss / 2, "learning_rate": rate} for loss in losses]
    lines.append({"kind": "evaluation", "loss": 9.0})
    text = rate_advice(lines, ["a_loss", "b_loss"], rate, [3e-4])
    assert text is None if found is None else found in text
    if rate:
        lines = [{**line, "gradient_norm": 0.0} for line in lines[:2]]
        assert "the gradient of the loss was zero in all steps" in rate_advice(
            lines, ["a_loss", "b_loss"], rate, [3e-4]
        )


@pytest.mark.parametrize(
    ("stated", "described", "same"),
    [
        ((0.1, 0.2), [0.1, 0.2], True),
        ({"a": [(1, "b"), None]}, {"a": [[1, "b"], None]}, True),
        ((0.1, 0.2), [0.1, 0.3], False),
        ((0.1,), [0.1, 0.2], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({1: 2}, {"1": 2}, False),
    ],
)
def test_a_head_with_the_same_options_is_kept(monkeypatch, stated, described, same):
    """JSON stores tuples as lists: what a task states in tuples is the same."""
    task = types.SimpleNamespace(head="mine", labels=["a"], start=types.SimpleNamespace(new_head=False))
    task.head_options = lambda: {"option": stated}
    bert = types.SimpleNamespace(head="mine", labels=["a"], has_pair_layers=False, model=lambda: None)
    monkeypatch.setattr(stages, "describe", lambda model: types.SimpleNamespace(options={"option": described}))
    assert ClassificationTraining.keeps_head(types.SimpleNamespace(task=task), bert) == same

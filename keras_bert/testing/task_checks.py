"""Every promise of a task, checked on a few rows and a tiny model of random weights."""

import csv
import dataclasses
import inspect
import math
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

from keras_bert.bert import load
from keras_bert.checkpoints.save import save
from keras_bert.checks import is_ours
from keras_bert.data import in_memory
from keras_bert.exporting.verification import verify
from keras_bert.files import json_text, read_json, read_lines
from keras_bert.heads.registry import head_named
from keras_bert.runs.fit_data import read_data
from keras_bert.runs.fit_task import make_task
from keras_bert.runs.fold_results import OUT_OF_FOLD
from keras_bert.runs.rehearsal import Rehearsal, check_equal
from keras_bert.runs.saved_model_scores import compare
from keras_bert.tasks.base import Task
from keras_bert.tasks.registry import TASKS, register_task, task_of
from keras_bert.tasks.rows import RowFormat
from keras_bert.testing import processes, promises, samples
from keras_bert.testing.promises import SkippedError, expect, expect_equal, promise

_EPOCHS = 2
_SEEDS = (1, 2)
_RATE = 1e-3
_FOLDS = 2
_RANK = 2
_REHEARSED = ("rows", "build", "loss", "score", "conclude", "card", "save", "export")  # Of `RehearsalError`.


def check_task(task, texts, targets=None, *, settings=None, strategy=None, only=None):
    """Checks that a task keeps every promise of the package, on a tiny encoder of random weights.

    It recognizes its rows; `fit` trains two seeds and writes the results, the report, the card and the SavedModel, all
    with the scores of `evaluate`; the model is saved and loaded, answers in Python and at the shell in a new process,
    and is verified; folds predict each row once; LoRA adapters train; an interrupted run ends with the same weights.
    Takes about a minute. A promise that is broken does not end the check: the others that do not stand on it are
    checked, too. A task that is not registered is registered.

    Args:
        task: a subclass of `keras_bert.tasks.Task`.
        texts: list of texts or rows as `fit` takes them, eight or more, with each class at least four times.
        targets: list of their targets, if they are not in the rows. Defaults to `None`.
        settings: dict of the settings of the task, keywords of `fit`.
        strategy: a `tf.distribute` strategy to train a run on, too. Defaults to `None`.
        only: names of the promises to check, with those that they stand on. Defaults to `None`: all.

    Returns:
        A `Checked`: the names of the promises, notes on what could not be checked, and the seconds that it took.

    Raises:
        BrokenPromises: an `AssertionError` with a line for each promise that is broken.

    Example:
        def test_relations():
            keras_bert.testing.check_task(Relations, rows, labels, settings={"markers": "@#"})
    """
    if not (inspect.isclass(task) and issubclass(task, Task)):
        raise ValueError(f"`task` must be a subclass of keras_bert.tasks.Task. Received: task={task!r:.200}")
    if task not in TASKS:
        register_task(task)
    with tempfile.TemporaryDirectory() as folder:
        checks = TaskChecks(task, texts, targets, settings or {}, strategy, pathlib.Path(folder))
        return promises.run(checks, f"the task {task.name}", only)


class TaskChecks:
    """The promises of a task."""

    def __init__(self, task, texts, targets, settings, strategy, folder):
        self.task = task
        self.texts = texts
        self.targets = targets
        self.settings = settings
        self.strategy = strategy
        self.folder = folder
        self.head = head_named(task.head)
        self.start = folder / "start"
        keras.utils.set_random_seed(1)
        pieces = samples.vocabulary(texts, targets)
        save(samples.tiny_encoder(pieces), self.start, pieces)

    @promise()
    def recognized(self):
        """`fit` knows the rows of the task without its name."""
        if not self._has_own_rows():
            raise SkippedError("the task has no `columns` and no `recognizes` of its own: `fit` needs its name")
        data = self._read_data(task=None)
        expect(data.task is self.task, f"rows that `fit` recognizes as those of {self.task.name}", data.task.name)

    def _read_data(self, task):
        """Returns the `FitData` of the rows, given the name of the task or `None`."""
        return read_data(self.texts, self.targets, task, validation=None, split=None, seed=1)

    def _has_own_rows(self):
        """Whether the rows of the task are told from those of others: any built-in ones are."""
        if is_ours(self.task):
            return True
        for cls in type(self.task.rows).__mro__:
            if is_ours(cls):
                return False
            if {"columns", "recognizes"} & vars(cls).keys():
                return True
        return False

    @promise("settings")
    def settings_are_stored(self):
        """The settings that decide what the head reads of a row are stored with the model."""
        if self.task.rows.convert is None:
            raise SkippedError("the rows are read as they are")
        settings = _Watched(self.task.Settings(**self.settings))
        self.task.rows.convert("the first row", in_memory.listed(self.texts)[0], settings)
        lost = settings.read - _stored_names(self.task)
        expect(not lost, "the settings that `convert` reads to be `stored`", ", ".join(sorted(lost)))

    @promise(*_REHEARSED)
    def made(self):
        """The task with the rows; everything that follows a training is gone through on two of them.

        An error names the part that fails.
        """
        data = self._read_data(task=self.task.name)
        task = make_task(data, load(self.start), None, self.settings)
        Rehearsal(task).run()
        return task

    @promise("fit")
    def trained(self, made):
        """The best model of a run of two seeds, whose scores are numbers."""
        bert = self._fit("run", seed=list(_SEEDS))
        metric = made.report.metric
        scores = bert.results["scores"]
        expect(metric in scores, f"scores with the metric {metric}", ", ".join(scores))
        for name, value in scores.items():
            expect(math.isfinite(value), "scores that are finite numbers", f"{name}={value}")
        expect(task_of(bert) is self.task, f"a model of the task {self.task.name}", f"one of {bert.task}")
        return bert

    def _fit(self, folder, held_out=True, **options):
        """Trains in a folder; rows are their own validation."""
        all_options = {"epochs": _EPOCHS, "learning_rate": _RATE, "batch_size": 4} | options
        if held_out:
            all_options["validation"] = self.texts
            if self.targets is not None:
                all_options["validation"] = (self.texts, self.targets)
        return load(self.start).fit(
            self.texts,
            self.targets,
            task=self.task.name,
            output_dir=None if folder is None else self.folder / folder,
            verbose=False,
            **all_options,
            **self.settings,
        )

    @promise()
    def epochs(self, trained, made):
        """The line of each epoch has the metric."""
        for path in (self.folder / "run" / "runs").rglob("metrics.jsonl"):
            lines = [line for line in read_lines(path) if line["kind"] == "evaluation"]
            expect(len(lines) == _EPOCHS, f"a line with scores for each of {_EPOCHS} epochs", f"{len(lines)} lines")
            metric = made.report.metric
            for line in lines:
                expect(metric in line, f"lines of epochs with the metric {metric}", ", ".join(line))

    @promise()
    def results(self, trained, made):
        """`results.json` and `results.md` have the scores of the best run."""
        results = read_json(self.folder / "run" / "results.json")
        best = trained.results["scores"]
        expect_equal(results["best"]["scores"], best, "`best` in results.json")
        expect(len(results["runs"]) == len(_SEEDS), f"{len(_SEEDS)} runs in results.json", len(results["runs"]))
        self._expect_text("results.md", "results.md", made.report.metric)

    @promise()
    def report(self, trained, made):
        """`report.html` has the metric."""
        self._expect_text("report.html", "the report", made.report.metric)

    @promise("model_card")
    def card_is_written(self, trained, made):
        """The model card has the metric."""
        self._expect_text("model/README.md", "the model card", made.report.metric)

    def _expect_text(self, name, what, metric):
        """Raises an error unless a file of the run, which messages call `what`, has the metric."""
        path = self.folder / "run" / name
        expect(path.is_file(), f"{what}, {name}", "no such file")
        text = path.read_text(encoding="utf-8").lower()
        spellings = {metric.lower(), metric.lower().replace("_", " ")}
        expect(any(spelling in text for spelling in spellings), f"{what} with the metric {metric}", "none of it")

    @promise()
    def evaluate(self, trained):
        """`evaluate` returns the scores of the run."""
        found = trained.evaluate(self.texts, self.targets, verbose=False, **self._asked_settings())
        expected = trained.results["scores"]
        missing = expected.keys() - found.keys()
        expect(not missing, f"`evaluate` to return {', '.join(expected)}", ", ".join(found))
        shared = {name: found[name] for name in expected}
        expect_equal(shared, expected, "`evaluate`", 1e-3)

    def _asked_settings(self):
        """Returns the settings that a model does not store, which `evaluate` needs."""
        stored = {*_stored_names(self.task), "sequence_length"}
        asked = dict(self.settings)
        for name in stored:
            asked.pop(name, None)
        return asked

    @promise("load")
    def loaded(self, trained):
        """The saved model opens again, with the weights, the labels and the settings of the task."""
        trained.save(self.folder / "saved")
        bert = load(self.folder / "saved")
        check_equal(trained.model(), bert.model())
        for name in ("task", "task_settings", "labels", "head"):
            expected = getattr(trained, name)
            received = getattr(bert, name)
            expect(received == expected, f"a loaded model with {name}={expected!r}", f"{name}={received!r}")
        return bert

    @promise("predict")
    def answers(self, loaded, trained):
        """A loaded model answers the rows as the trained one, with a dict for each."""
        texts = self._texts_to_predict()
        if self.head.embeds:
            expected = trained.encode(texts)
            received = loaded.encode(texts)
            expect(np.allclose(received, expected, atol=1e-5), "the same vectors after `load`", received)
            return None
        expected = trained.predict(texts)
        received = loaded.predict(texts)
        expect_equal(received, expected, "the answers of a loaded model")
        return received

    def _texts_to_predict(self):
        """Returns the texts without targets."""
        if self.head.embeds:
            return [_first_string(text) for text in self.texts]
        if self.task.rows.convert is None:
            return [self._without_targets(text) for text in in_memory.listed(self.texts)]
        return list(self.texts)

    def _without_targets(self, text):
        """Returns a text as it is, or a row without its targets."""
        if isinstance(text, dict):
            return self.task.rows.without_targets(text)
        return text

    @promise("shell")
    def predict_at_the_shell(self, answers, loaded):
        """`keras-bert predict` answers rows in a new process as Python does."""
        rows = self._rows_to_predict(answers)
        found = processes.predicted_at_the_shell(self.folder / "saved", rows, self._plugins())
        processes.expect_answers(found, answers, "the answers at the shell")

    def _rows_to_predict(self, answers):
        """Returns the texts without targets as rows of a file."""
        if answers is None:
            raise SkippedError("the model answers with vectors")
        rows = []
        for text in self._texts_to_predict():
            row = text
            if isinstance(text, str):
                row = {"text": text}
            elif isinstance(text, tuple):
                row = {"text": text[0], "pair": text[1]}
            elif isinstance(text, list):
                raise SkippedError("rows of words are in files of their own")
            rows.append(row)
        return rows

    def _plugins(self):
        """Returns the modules that other processes import."""
        return processes.plugins_of(
            self.task, type(self.head), self.task.Report, self.task.Training, type(self.task.rows)
        )

    @promise("saved_model")
    def exported(self, trained):
        """The SavedModel of the run."""
        folder = self.folder / "run" / "saved_model" / "1"
        expect((folder / "saved_model.pb").is_file(), "the SavedModel of the run, saved_model/1", "no such folder")
        loaded = tf.saved_model.load(str(folder))
        expect("serving_default" in loaded.signatures, "the signature serving_default", ", ".join(loaded.signatures))
        return folder

    @promise()
    def server(self, exported, answers):
        """`keras-bert predict --server` answers rows as Python does."""
        rows = self._rows_to_predict(answers)
        found = processes.predicted_by_a_server(exported.parent, rows, self._plugins())
        processes.expect_answers(found, answers, "the answers of the server")

    @promise()
    def verify(self, exported):
        """Another program that has TensorFlow alone computes the stored answers of the SavedModel."""
        (report,) = verify([exported])
        expect(not report.problems, "a SavedModel without problems", "; ".join(report.problems))

    @promise()
    def labeled(self, exported, trained):
        """The SavedModel has the scores of the run on labeled data."""
        rows = self.task.rows
        if type(rows).labeled is RowFormat.labeled:
            raise SkippedError("the rows have no `labeled`")
        path = self.folder / "labeled.jsonl"
        data = self._read_data(task=self.task.name)
        lines = []
        for _, row in data.train.stream_values():
            lines.append(f"{json_text(row)}\n")
        path.write_text("".join(lines), encoding="utf-8")
        scores = compare(exported, path).scores
        for name, value in scores.items():
            if name in trained.results["scores"]:
                expected = 100 * trained.results["scores"][name]
                expect_equal({name: value}, {name: expected}, "the scores on labeled data", 1e-3)

    @promise()
    def folds(self, made):
        """In a cross-validation, each row is predicted once by a model that was not trained on it."""
        self._fit("folds", held_out=False, folds=_FOLDS, epochs=1)
        with open(self.folder / "folds" / OUT_OF_FOLD, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        count = len(in_memory.listed(self.texts))
        numbers = [row["row"] for row in rows]
        expect(len(numbers) == count, f"{count} rows in {OUT_OF_FOLD}", f"{len(numbers)} rows")
        expect(len(set(numbers)) == count, f"each row once in {OUT_OF_FOLD}", ", ".join(numbers))

    @promise()
    def lora(self, made):
        """LoRA adapters train, and the merged model answers."""
        bert = self._fit(None, epochs=1, lora_rank=_RANK)
        value = bert.results["scores"][made.report.metric]
        expect(math.isfinite(value), f"a number as {made.report.metric}", value)
        if not self.head.embeds:
            bert.predict(self._texts_to_predict())

    @promise()
    def resume(self, trained):
        """An interrupted run that is started again has the scores and the weights of one that was not."""
        options = {"seed": list(_SEEDS)}
        try:
            self._fit("resumed", callbacks=[_Interruption()], **options)
        except InterruptedError:
            pass
        else:
            raise promises.DifferenceError("callbacks that are called at the end of an epoch", "a run to its end")
        bert = self._fit("resumed", **options)
        expect_equal(bert.results["scores"], trained.results["scores"], "the scores of a resumed run", 1e-6)
        check_equal(trained.model(), bert.model())

    @promise()
    def replicas(self, made):
        """A strategy trains, too."""
        if self.strategy is None:
            raise SkippedError("no `strategy` was given")
        bert = self._fit(None, epochs=1, strategy=self.strategy)
        value = bert.results["scores"][made.report.metric]
        expect(math.isfinite(value), f"a number as {made.report.metric}", value)


def _stored_names(task):
    """Returns the names of the settings that a model of a task keeps."""
    names = set()
    for field in dataclasses.fields(task.Settings):
        if field.metadata.get("stored"):
            names.add(field.name)
    return names


class _Watched:
    """Settings that tell which of them were `read`."""

    def __init__(self, settings):
        self._settings = settings
        self.read = set()

    def __getattr__(self, name):
        self.read.add(name)
        return getattr(self._settings, name)


class _Interruption(keras.callbacks.Callback):
    """Ends a run after its first epoch."""

    def on_epoch_end(self, epoch, logs=None):
        raise InterruptedError


def _first_string(value):
    """Returns a text, or the first string in the values of a row."""
    if isinstance(value, str):
        return value
    parts = value.values() if isinstance(value, dict) else value
    return next(part for part in parts if isinstance(part, str))

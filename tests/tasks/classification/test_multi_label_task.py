"""Multi-label classification from files to results, with models that answer by rule instead of training."""

import itertools

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import f1_score

import keras_bert
from keras_bert.data.splits import Folds
from keras_bert.files import read_json
from keras_bert.runs import finetuning
from keras_bert.runs.cross_validation import CrossValidation
from keras_bert.runs.finetuning import Plan
from keras_bert.runs.hyperparameters import Hyperparameters
from keras_bert.runs.results import ExportedModel, ResultsWriter
from keras_bert.runs.run import Run
from keras_bert.tasks.base import Start
from keras_bert.tasks.classification.data import Columns, own_data
from keras_bert.tasks.classification.multi_label_task import MultiLabelTask
from keras_bert.tasks.classification.settings import MultiLabelSettings

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
Y = "y<i>"
LABELS = ["x", f"x|{Y}", "", Y, "x", "x", f"{Y}|x", "", "x", "x"]
TARGETS = np.array([["x" in names, Y in names] for names in LABELS], int)


@pytest.fixture
def task(tmp_path, checkpoint):
    """A task with folds, and the same rows in train and test."""
    path = tmp_path / "all.csv"
    rows = [f"{letter} b c,{names}" for letter, names in zip("abcdefghij", LABELS, strict=True)]
    path.write_text("\n".join(["text,labels", *rows]) + "\n")
    data = own_data("multi_label", path, None, path, columns=Columns(label="labels"))
    settings = MultiLabelSettings(sequence_length=8, threshold="shared")
    return MultiLabelTask(data, Start("start", keras_bert.load(checkpoint)), settings)


def logits_of(seed):
    return np.random.default_rng(seed).normal(size=TARGETS.shape) + 3 * TARGETS - 2.5


class Trained:
    """Answers each row with its logits."""

    model = None

    def predict(self, batches):
        order = np.concatenate(batches.row_indices(0))
        ids = np.concatenate([inputs["token_ids"].numpy() for inputs, _, _ in batches.dataset(0)])
        is_padding = np.sum(order < 0)
        letters = ids[np.argsort(order)][is_padding:, 1]
        return {"logits": logits_of(0)[letters - 5]}  # "a" is piece 5.

    fitted_outputs = predict


def test_folds_choose_the_threshold_on_the_predictions_of_all_rows(task, tmp_path, monkeypatch):
    """The first letter of a text is its row, whose logits the model of each fold knows; the predictions use it, too."""
    saved = []

    def train(self, stages):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "metrics.jsonl").touch()
        scores = dict.fromkeys(["micro_f1", "macro_f1", "exact_match"], 0.5)
        return Trained(), {"scores": scores, "epoch": 1}

    def save(*arguments, **options):
        saved.append(options["thresholds"])

    monkeypatch.setattr(Run, "train", train)
    exported = ExportedModel(bert=None, parameters=1)
    monkeypatch.setattr(ResultsWriter, "export_model", lambda self: exported)
    monkeypatch.setattr(finetuning, "save", save)
    choices = {"learning_rate": [0.1], "batch_size": [4], "epochs": [1], "seed": [1]}
    output = tmp_path / "out"
    plan = Plan(task, choices, Hyperparameters(best=False), output, folds=Folds(3))
    found = CrossValidation(plan)
    found.run()
    chances = expit(logits_of(0))
    np.testing.assert_allclose(found.grid_runs.logits("dev")["multi_label"], logits_of(0))
    (threshold,) = saved
    predicted = chances >= threshold
    assert f1_score(TARGETS, predicted, average="micro") == best_micro_f1(chances)

    (output / "model").mkdir()
    shown = found.finish()
    report = read_json(output / "results.json")
    # The folds are scored with the threshold that is kept, not with one of their own.
    expected = []
    for fold in (1, 2, 3):
        rows = found.grid_runs.assigned(1) == fold
        expected.append(f1_score(TARGETS[rows], predicted[rows], average="micro"))
    assert [run["scores"]["micro_f1"] for run in report["runs"]] == pytest.approx(expected)
    assert report["best"]["scores"]["micro_f1"] == pytest.approx(np.mean(expected))
    assert report["thresholds"] == threshold
    reason = "chosen on the predictions of all folds"
    assert f"\n  thresholds: {threshold:g} ({reason}; with 0.5: micro f1" in shown
    assert reason in report["facts"]["thresholds"]
    assert f"The scores use thresholds {reason}" in (output / "model" / "README.md").read_text()
    for name in ("model/README.md", "results.md", "report.html"):
        page = (output / name).read_text()
        assert "<i>" not in page
        assert "y&lt;i&gt;: 3 (30.0%)" in page
    _, *lines = (output / "predictions.tsv").read_text().splitlines()
    labels = [line.split("\t")[0].strip('"') for line in lines]
    assert labels == [joined(row) for row in predicted]


def best_micro_f1(chances):
    """Returns the best F1 of all thresholds between the probabilities."""
    ends = np.sort(chances.ravel())
    middles = (ends[1:] + ends[:-1]) / 2
    return max(f1_score(TARGETS, chances >= middle, average="micro") for middle in middles)


def joined(row):
    """Returns the names of the predicted labels of a row as a table has them."""
    return "|".join(itertools.compress(["x", Y], row))

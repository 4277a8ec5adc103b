"""Multi-label classification from files to results, with models that answer by rule instead of training."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.metrics import f1_score

import keras_bert
from keras_bert.data.splits import Folds
from keras_bert.files import read_json
from keras_bert.runs import finetuning
from keras_bert.runs.cross_validation import CrossValidation
from keras_bert.runs.finetuning import Plan
from keras_bert.runs.hyperparameters import Hyperparameters
from keras_bert.runs.results import ResultsWriter
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
    rows = [f"{chr(97 + row)} b c,{names}" for row, names in enumerate(LABELS)]
    path.write_text("\n".join(["text,labels", *rows]) + "\n")
    data = own_data("multi_label", path, None, path, columns=Columns(label="labels"))
    settings = MultiLabelSettings(sequence_length=8, threshold="shared")
    return MultiLabelTask(data, Start("start", keras_bert.load(checkpoint)), settings)


def logits_of(seed):
    return np.random.default_rng(seed).normal(size=TARGETS.shape) + 3 * TARGETS - 2.5


def test_folds_choose_the_threshold_on_the_predictions_of_all_rows(task, tmp_path, monkeypatch):
    """The first letter of a text is its row, whose logits the model of each fold knows; the predictions use it, too."""
    saved = []

    class Trained:
        model = None

        def predict(self, batches):
            order = np.concatenate(batches.row_indices(0))
            ids = np.concatenate([inputs["token_ids"].numpy() for inputs, _, _ in batches.dataset(0)])
            return {"logits": logits_of(0)[ids[np.argsort(order)][np.sum(order < 0) :, 1] - 5]}  # "a" is piece 5.

        fitted_outputs = predict

    def train(self, stages):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "metrics.jsonl").touch()
        return Trained(), {"scores": {"micro_f1": 0.5, "macro_f1": 0.5, "exact_match": 0.5}, "epoch": 1}

    monkeypatch.setattr(Run, "train", train)
    monkeypatch.setattr(ResultsWriter, "export_model", lambda self: None)
    monkeypatch.setattr(finetuning, "save", lambda *arguments, **options: saved.append(options["thresholds"]))
    choices = {"learning_rate": [0.1], "batch_size": [4], "epochs": [1], "seed": [1]}
    found = CrossValidation(Plan(task, choices, Hyperparameters(best=False), tmp_path / "out", folds=Folds(3)))
    found.run()
    np.testing.assert_allclose(found.grid_runs.logits("dev")["multi_label"], logits_of(0))
    middles = np.sort(expit(logits_of(0)).ravel())
    best = max(
        f1_score(TARGETS, logits_of(0) >= logit(middle), average="micro") for middle in (middles[1:] + middles[:-1]) / 2
    )
    (threshold,) = saved
    assert f1_score(TARGETS, expit(logits_of(0)) >= threshold, average="micro") == best
    (tmp_path / "out" / "model").mkdir()
    shown = found.finish()
    report = read_json(tmp_path / "out" / "results.json")
    # The folds are scored with the threshold that is kept, not with one of their own.
    predicted = expit(logits_of(0)) >= threshold
    rows = [np.flatnonzero(found.grid_runs.assigned(1) == fold) for fold in (1, 2, 3)]
    expected = [f1_score(TARGETS[part], predicted[part], average="micro") for part in rows]
    assert [run["scores"]["micro_f1"] for run in report["runs"]] == pytest.approx(expected)
    assert report["best"]["scores"]["micro_f1"] == pytest.approx(np.mean(expected))
    assert f"\n  thresholds: {threshold:g} (chosen on the predictions of all folds; with 0.5: micro f1" in shown
    card = (tmp_path / "out" / "model" / "README.md").read_text()
    assert "The scores use thresholds chosen on the predictions of all folds" in card
    for page in (card, *((tmp_path / "out" / name).read_text() for name in ("results.md", "report.html"))):
        assert "<i>" not in page
        assert "y&lt;i&gt;: 3 (30.0%)" in page
    assert report["thresholds"] == threshold
    lines = [line.split("\t")[0].strip('"') for line in (tmp_path / "out" / "predictions.tsv").read_text().splitlines()]
    names = [[name for name, is_in in zip(["x", Y], row, strict=True) if is_in] for row in predicted]
    assert lines[1:] == ["|".join(row) for row in names]
    assert "chosen on the predictions of all folds" in report["facts"]["thresholds"]

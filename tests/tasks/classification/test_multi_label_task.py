"""Multi-label classification from files to results, with models that answer by rule instead of training."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.metrics import f1_score

import keras_bert
from keras_bert.experiments import finetuning
from keras_bert.experiments.cross_validation import CrossValidation
from keras_bert.experiments.hyperparameters import Hyperparameters
from keras_bert.experiments.results import Results
from keras_bert.files import read_json
from keras_bert.tasks.classification.data import own_data
from keras_bert.tasks.classification.multi_label_task import MultiLabelTask

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
Y = "y<i>"
LABELS = ["x", f"x|{Y}", "", Y, "x", "x", f"{Y}|x", "", "x", "x"]
TARGETS = np.array([["x" in names, Y in names] for names in LABELS], int)


@pytest.fixture
def make(tmp_path, checkpoint):
    """Makes a task with the same rows in train, dev and test, or with folds."""

    def task(folds=None, **options):
        path = tmp_path / "all.csv"
        rows = [f"{chr(97 + row)} b c,{names}" for row, names in enumerate(LABELS)]
        path.write_text("\n".join(["text,labels", *rows]) + "\n")
        data = own_data("multi_label", path, None if folds else path, path, label="labels", folds=folds)
        return MultiLabelTask(data, "start", keras_bert.load(checkpoint), 8, tmp_path, **options)

    return task


def logits_of(seed):
    return np.random.default_rng(seed).normal(size=TARGETS.shape) + 3 * TARGETS - 2.5


def test_from_files_to_predictions(make, tmp_path):
    task = make(threshold="per_label", class_weights="balanced")
    ((_, targets),) = [stage() for stage in task.train]
    assert targets.tolist() == TARGETS.tolist()
    model = task.build(task.bert)
    assert keras_bert.describe(model).multi_label
    # Rows with and without a label have the same weight: 7 and 3 of 10 rows have "x" and "y".
    expected = np.array([10 / 2 / np.where(column, column.sum(), 10 - column.sum()) for column in TARGETS.T]).T
    found = task.loss.values(targets, {"logits": np.zeros([10, 2], "float32")})
    np.testing.assert_allclose(found, np.log(2) * expected.mean(-1), rtol=1e-6)

    runs = [logits_of(seed) for seed in (0, 1)]
    logits = {"multi_label": task.combine(runs)}
    np.testing.assert_allclose(expit(logits["multi_label"]), expit(runs).mean(0))
    thresholds = task.save_options(logits)["thresholds"]
    assert len(thresholds) == 2
    findings = task.conclude(logits, logits, tmp_path)
    predicted = expit(logits["multi_label"]) >= thresholds
    scores = findings.results["scores"]["multi_label"]
    assert scores["micro_f1"] == f1_score(TARGETS, predicted, average="micro")
    assert scores == task.score(TARGETS, {"logits": logits["multi_label"]})
    assert findings.results["thresholds"] == thresholds
    usual = f1_score(TARGETS, logits["multi_label"] >= 0, average="micro")
    assert scores["micro_f1"] > usual
    assert f" (chosen on dev; with 0.5: micro f1 {usual:.2%}" in findings.facts["thresholds"]
    assert findings.messages[-1].startswith(f"test: micro f1 {scores['micro_f1']:.2%}")
    header, *lines = (tmp_path / "predictions.tsv").read_text().splitlines()
    assert header == f"labels\tx\t{Y}"
    for line, row in zip(lines, predicted, strict=True):
        names = (name for name, is_in in zip(["x", Y], row, strict=True) if is_in)
        assert line.split("\t")[0].strip('"') == "|".join(names)
    assert make().save_options(logits)["thresholds"] == 0.5


def test_folds_choose_the_threshold_on_the_predictions_of_all_rows(make, tmp_path, monkeypatch):
    """The first letter of a text is its row, whose logits the model of each fold knows."""
    saved = []

    class Trained:
        model = None

        def predict(self, batches):
            order = np.concatenate(batches.row_indices(0))
            ids = np.concatenate([inputs["token_ids"].numpy() for inputs, _, _ in batches.dataset(0)])
            return {"logits": logits_of(0)[ids[np.argsort(order)][np.sum(order < 0) :, 1] - 5]}  # "a" is piece 5.

    def train(self, setting, folder, stages, dev):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metrics.jsonl").touch()
        return Trained(), {"scores": {"micro_f1": 0.5, "macro_f1": 0.5, "exact_match": 0.5}, "epoch": 1}

    monkeypatch.setattr(finetuning.Finetuning, "train", train)
    monkeypatch.setattr(Results, "export_model", lambda self: None)
    monkeypatch.setattr(finetuning, "save", lambda *arguments, **options: saved.append(options["thresholds"]))
    task = make(folds=3, threshold="shared")
    choices = {"learning_rate": [0.1], "batch_size": [4], "epochs": [1], "seed": [1]}
    found = CrossValidation(task, choices, Hyperparameters(best=False), tmp_path / "out")
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
    rows = [task.fold_rows(fold, 1) for fold in (1, 2, 3)]
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
    assert "chosen on the predictions of all folds" in report["facts"]["thresholds"]

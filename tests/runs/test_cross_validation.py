"""Cross-validation, with models that answer by rule instead of training."""

import types

import numpy as np
import pytest

import keras_bert
from keras_bert.data.splits import Folds
from keras_bert.data.token_rows import as_tensor
from keras_bert.files import read_json
from keras_bert.runs import finetuning
from keras_bert.runs.cross_validation import CrossValidation
from keras_bert.runs.finetuning import Plan
from keras_bert.runs.hyperparameters import Hyperparameters
from keras_bert.runs.results import ResultsWriter
from keras_bert.runs.run import Run
from keras_bert.tasks.base import Start
from keras_bert.tasks.classification.data import own_data
from keras_bert.tasks.classification.settings import ClassificationSettings
from keras_bert.tasks.classification.task import ClassificationTask
from keras_bert.training.program import value_key

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
LABELS = ["yes", "no", "no", "yes", "no", "yes", "no", "no", "yes", "no", "no"]


@pytest.fixture
def task(tmp_path, checkpoint):
    rows = [f"{chr(97 + row)} b c,{label}" for row, label in enumerate(LABELS)]
    (tmp_path / "all.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (tmp_path / "test.csv").write_text("text\na\nc\n")
    data = own_data("classification", tmp_path / "all.csv", test_file=tmp_path / "test.csv")
    start = Start("start", keras_bert.load(checkpoint))
    return ClassificationTask(data, start, ClassificationSettings(sequence_length=8))


@pytest.fixture
def trained(monkeypatch):
    """Replaces training: the model predicts the first letter of a text, scaled by the learning rate."""
    calls = []

    def train(self, stages):
        setting, folder = self.setting, self.folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metrics.jsonl").touch()
        (stage,) = stages
        rows = first_letters(stage.examples()[0])
        calls.append((setting, rows, stage.dev and first_letters(stage.dev)))

        def predict(batches):
            return {"logits": np.array(first_letters(batches))[:, None] * [0.0, setting["learning_rate"]]}

        score = setting["learning_rate"] + len(calls) / 100
        scores = {"loss": 1.0, "accuracy": score, "macro_f1": 0.5, "matthews_correlation": 0.0}
        return types.SimpleNamespace(predict=predict, fitted_outputs=predict, model=None), {
            "scores": scores,
            "epoch": setting["epochs"],
        }

    monkeypatch.setattr(Run, "train", train)
    monkeypatch.setattr(ResultsWriter, "export_model", lambda self: None)
    monkeypatch.setattr(finetuning.Finetuning, "save", lambda self, model, logits, setting: calls.append("saved"))
    return calls


def first_letters(examples):
    """Returns the number of the letter that each row starts with."""
    if hasattr(examples, "dataset"):
        order = np.concatenate(examples.row_indices(0))
        ids = np.concatenate([inputs["token_ids"].numpy() for inputs, _, _ in examples.dataset(0)])
        return ids[np.argsort(order)][np.sum(order < 0) :, 1].tolist()
    return as_tensor(examples["token_ids"]).to_tensor().numpy()[:, 1].tolist()


def run(task, tmp_path, rates=(0.2,), seeds=(4, 2)):
    choices = {"learning_rate": list(rates), "batch_size": [4], "epochs": [2], "seed": list(seeds)}
    found = CrossValidation(Plan(task, choices, Hyperparameters(best=False), tmp_path / "out", folds=Folds(3)))
    found.run()
    return found


def test_every_row_is_predicted_once_and_the_final_model_sees_all(task, trained, tmp_path):
    found = run(task, tmp_path)
    *folds, final, saved = trained
    assert saved == "saved"
    everything = list(range(5, 16))  # "a" is piece 5.
    for start in (0, 3):  # Two seeds.
        assert sorted(row for _, _, dev in folds[start : start + 3] for row in dev) == everything
    for setting, train, dev in folds:
        assert sorted(train + dev) == everything
        assert setting["fold"] in (1, 2, 3)
    assert folds[0][2] != folds[3][2]  # Each seed has its own folds.
    setting = {"learning_rate": 0.2, "batch_size": 4, "epochs": 2, "seed": 2}
    assert final == (setting, everything, None)

    # The predictions are in the order of the rows, and those for the test rows are the final model's.
    np.testing.assert_allclose(found.grid_runs.logits("dev")["classification"][:, 1], 0.2 * np.arange(5, 16))
    np.testing.assert_allclose(found.grid_runs.logits("test")["classification"][:, 1], [0.2 * 5, 0.2 * 7])
    (tmp_path / "out" / "model").mkdir()
    text = found.finish()
    report = read_json(tmp_path / "out" / "results.json")
    scores = [0.2 + number / 100 for number in range(1, 7)]
    assert report["best"]["setting"] == setting
    assert report["best"]["scores"]["accuracy"] == pytest.approx(np.mean(scores))
    assert report["summary"][0]["runs"] == 6
    assert report["facts"]["dev examples"].startswith("3-fold cross-validation of the training rows; texts are not")
    mean, deviation = 100 * np.mean(scores), 100 * np.std(scores, ddof=1)
    assert f"accuracy {mean:.2f}% ± {deviation:.2f}%, macro f1 50.00% ± 0.00%" in text
    assert "(mean and deviation of 6 runs)" in text
    # Every row gets the second class, "yes".
    assert report["no_better_than_majority"]
    assert "warning: the model predicts yes for every row" in text
    header, *lines = (tmp_path / "out" / "predictions.tsv").read_text().splitlines()
    assert (header, [line.split("\t")[0] for line in lines]) == (f"label\tno\tyes\t{task.spec.text}", ["yes", "yes"])

    # Nothing is repeated.
    trained.clear()
    assert run(task, tmp_path).grid_runs.to_json() == found.grid_runs.to_json()
    assert trained == []


def test_folds_have_the_graph_of_all_rows(task, trained, tmp_path):
    """Each is another task with a loss of its own, but only the first one is traced, see `Programs`."""
    grid_runs = run(task, tmp_path).grid_runs
    folds = [grid_runs.fold_task(fold, 4) for fold in (1, 2, 3)]
    assert len({id(fold.training.loss) for fold in folds}) == 3
    for fold in folds:
        assert value_key(fold.training.loss) == value_key(task.training.loss)


def test_a_setting_with_a_diverged_fold_is_not_chosen(task, trained, tmp_path, monkeypatch):
    train = Run.train

    def diverge(self, *rest):
        if self.setting["learning_rate"] == 0.2 and self.setting.get("fold") == 3:
            raise FloatingPointError("the loss is not finite")
        return train(self, *rest)

    monkeypatch.setattr(Run, "train", diverge)
    assert run(task, tmp_path, [0.1, 0.2], [1]).grid_runs.chosen()["learning_rate"] == 0.1


def test_options_that_need_dev_data(task, tmp_path):
    for options in ({}, {"best": False, "patience": 2}):
        with pytest.raises(ValueError, match="`best` and `patience` need dev data: in cross-validation, each fold"):
            CrossValidation(Plan(task, {"seed": [1]}, Hyperparameters(**options), tmp_path, folds=Folds(3)))
    with pytest.raises(ValueError, match="`class_weight` must be None, 'balanced', which requires classes, or"):
        ClassificationTask(task.data, task.start, ClassificationSettings(sequence_length=8, class_weight="most"))

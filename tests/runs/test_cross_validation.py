"""Cross-validation, with models that answer by rule instead of training."""

import types

import numpy as np
import pytest
from scipy.special import log_softmax

import keras_bert
from keras_bert.data.splits import Folds
from keras_bert.data.token_rows import as_tensor
from keras_bert.files import read_json
from keras_bert.runs import cross_validation, finetuning
from keras_bert.runs.cross_validation import CrossValidation
from keras_bert.runs.finetuning import Plan
from keras_bert.runs.hyperparameters import Hyperparameters
from keras_bert.runs.results import ExportedModel, ResultsWriter
from keras_bert.runs.run import Run
from keras_bert.tasks.base import Start
from keras_bert.tasks.classification.data import own_data
from keras_bert.tasks.classification.settings import ClassificationSettings
from keras_bert.tasks.classification.task import ClassificationTask
from keras_bert.training.program import value_key
from tests.runs.fold_data import DATA, OPTIONS, TEXTS, WORDS
from tests.runs.test_fold_results import rows_of_authors

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
        setting = self.setting
        folder = self.folder
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
    monkeypatch.setattr(ResultsWriter, "export_model", lambda self: ExportedModel(bert=None, parameters=0))
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
        held_out = []
        for _, _, dev in folds[start : start + 3]:
            held_out += dev
        assert sorted(held_out) == everything
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
    mean = 100 * np.mean(scores)
    deviation = 100 * np.std(scores, ddof=1)
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


def test_groups_that_cannot_be(checkpoint):
    bert = keras_bert.load(checkpoint)
    for options, message in (
        ({"groups": "author"}, "`groups` are those of a cross-validation. Expected `folds`, too, such as folds=5"),
        (
            {"folds": 2, "groups": "writer"},
            "`groups` must be a column of `texts`, or a list. Received: groups='writer'",
        ),
        ({"folds": 2, "groups": [1, 2]}, "`groups` must have a value for each of 12 rows. Received: 2 values"),
        ({"folds": 13}, "`folds` must be from 2 to the number of different texts, 12: expected fewer"),
        ({"folds": 2, "validation_split": 0.5}, "`folds` and `validation` exclude each other. Received: both"),
    ):
        with pytest.raises(ValueError) as error:
            bert.fit(rows_of_authors(), **options, **OPTIONS)
        assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "classes",
    [["x", "z"], *(pytest.param(names, marks=pytest.mark.slow) for names in (["x", "y"], ["a", "b", "c"]))],
    ids="-".join,
)
def test_folds_of_models_that_learn_other_rows_before(classes, checkpoint, tmp_path):
    """Each fold does; a head with other classes does not go on."""
    texts, targets = DATA["classification"]
    before = [f"{text} k" for text in texts], [classes[row % len(classes)] for row in range(len(texts))]
    bert = keras_bert.load(checkpoint).fit(texts, targets, folds=2, intermediate=before, output_dir=tmp_path, **OPTIONS)
    assert len([*tmp_path.rglob("before_1")]) == 3  # Of two folds, and of the model to keep.
    assert bert.labels == ["x", "y"]


def test_folds_are_checked_before_the_first_one(checkpoint, tmp_path):
    tags = [["B-K", *["O"] * (len(words) - 1)] if not row else ["O"] * len(words) for row, words in enumerate(WORDS)]
    with pytest.raises(ValueError, match=r"fold \d of 2: .*nothing to learn.*Expected fewer folds, or more rows"):
        keras_bert.load(checkpoint).fit(WORDS, tags, folds=2, output_dir=tmp_path, **OPTIONS)
    assert not [*tmp_path.rglob("metrics.jsonl")]


@pytest.fixture
def finished(monkeypatch):
    """The cross-validations that run, a list."""
    found = []
    run = cross_validation.CrossValidation.run

    def noted(self):
        found.append(self)
        run(self)

    monkeypatch.setattr(cross_validation.CrossValidation, "run", noted)
    return found


def cross_entropies(logits, golds):
    """Returns the cross-entropy of each row."""
    return -log_softmax(logits.astype("float64"), -1)[np.arange(len(golds)), golds]


def test_classes_are_ranked_by_the_loss_of_the_kept_logits(checkpoint, finished, tmp_path):
    texts, targets = DATA["classification"]
    # The last text is the first one again, with another label.
    bert = keras_bert.load(checkpoint)
    checks = bert.check_labels([*texts, texts[0]], [*targets, "y"], folds=3, output_dir=tmp_path, **OPTIONS)
    (runs,) = finished
    logits = runs.grid_runs.logits("dev")["classification"]
    golds = np.array([0 if target == "x" else 1 for target in [*targets, "y"]])
    losses = cross_entropies(logits, golds)
    repeated = [0, 12] if losses[0] > losses[12] else [12, 0]
    others = [row for row in np.argsort(-losses, kind="stable").tolist() if row not in (0, 12)]
    assert [check["row"] for check in checks] == repeated + others
    np.testing.assert_allclose([check["loss"] for check in checks], losses[repeated + others], rtol=1e-6)
    for check in checks:
        assert check["label"] == "xy"[golds[check["row"]]]
        assert check["predicted"] == "xy"[logits[check["row"]].argmax()]
    assert [check["same_text"] for check in checks[:3]] == [[12 - repeated[0]], [12 - repeated[1]], []]
    # Both are in the same fold, and nothing but the folds was trained.
    folds = runs.grid_runs.assigned(1)
    assert folds[0] == folds[12]
    assert len(runs.grid_runs.results) == 3


@pytest.mark.slow
def test_tags_are_ranked_by_word(checkpoint, finished, tmp_path):
    words, tags = DATA["tagging"]
    checks = keras_bert.load(checkpoint).check_labels(words, tags, folds=3, output_dir=tmp_path, **OPTIONS)
    (runs,) = finished
    logits = runs.grid_runs.logits("dev")["words"]
    labels = runs.task.labels
    places = []
    for row, sentence in enumerate(words):
        places += [(row, word) for word in range(len(sentence))]
    losses = cross_entropies(logits, [labels.index(tags[row][word]) for row, word in places])
    expected = [places[number] for number in np.argsort(-losses, kind="stable")]
    assert [(check["row"], check["word"]) for check in checks] == expected
    for check, (row, word) in zip(checks, expected, strict=True):
        assert check["text"] == words[row][word]
        assert check["label"] == tags[row][word]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["regression", "multi_label", "questions", "multiple_choice"])
def test_other_tasks_rank_their_labels(name, checkpoint, finished, tmp_path):
    texts, targets = DATA[name]
    head = "encoder" if name == "questions" else None
    bert = keras_bert.load(checkpoint, head=head)
    checks = bert.check_labels(texts, targets, task=name, folds=3, output_dir=tmp_path, **OPTIONS)
    (runs,) = finished
    kept = runs.grid_runs.logits("dev")
    assert sorted(check["row"] for check in checks) == list(range(12))
    losses = np.array([check["loss"] for check in sorted(checks, key=lambda check: check["row"])])
    if name == "regression":
        expected = (kept["regression"][:, 0] - np.array(targets)) ** 2
    elif name == "multi_label":
        golds = np.array([["x" in target, "y" in target] for target in targets])
        expected = np.logaddexp(0, np.where(golds, -1, 1) * kept["multi_label"]).mean(-1)
    elif name == "multiple_choice":
        expected = cross_entropies(kept["dev"], np.array(targets))
    else:
        assert all(0 <= loss <= 1 for loss in losses)
        return
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("texts", "targets", "options", "message"),
    [
        (TEXTS, ["x"] * 12, {}, "class"),
        (TEXTS[:2], ["x", "y"], {"folds": 2}, "one fold alone"),
        (TEXTS, ["x", None] * 6, {}, r"targets\[1\] is missing"),
        (TEXTS[:5], ["x", "y", "x", "y", "x"], {"folds": 9}, "`folds` must be from 2 to"),
        (TEXTS, ["x", "y"] * 6, {"pred_probs": []}, "makes its own predictions"),
        (TEXTS, ["x", "y"] * 6, {"validation_split": 0.5}, "Expected no `validation_split`"),
    ],
)
def test_bad_input_gets_one_line(texts, targets, options, message, checkpoint):
    with pytest.raises(ValueError, match=message) as error:
        keras_bert.load(checkpoint).check_labels(texts, targets, **{**OPTIONS, **options})
    assert "\n" not in str(error.value)


def test_a_model_that_may_have_seen_the_rows_is_refused(config, pieces, tmp_path):
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 2)
    keras_bert.save(model, tmp_path / "model", pieces, labels=["x", "y"], task="classification")
    bert = keras_bert.load(tmp_path / "model")
    with pytest.raises(ValueError, match="may have been trained on these rows"):
        bert.check_labels(*DATA["classification"], folds=3, **OPTIONS)

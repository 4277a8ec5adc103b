"""Few examples: a head on fixed vectors, and an encoder tuned on pairs, from `fit` to the SavedModel."""

import json

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import eagerly
from tests.tasks.few_rows import CLASSES, TEXTS, head_of, sentence_encoder

tf = pytest.importorskip("tensorflow")

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

LABELS = [["x"], ["y"], ["x", "z"], ["y"], ["x"], ["y", "z"], [], ["y"]]


@pytest.fixture(scope="module")
def bert(tmp_path_factory, config, pieces):
    return sentence_encoder(tmp_path_factory.mktemp("encoder"), config, pieces)


@pytest.fixture(scope="module", autouse=True)
def few_steps():
    """An epoch of pairs has two steps, which take less time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keras_bert.tasks.few_examples._LEAST_STEPS", 2)
        patch.setattr("keras_bert.tasks.few_examples._DRAWS_OF_A_ROW", 2)
        yield


PAIRS = {"method": "contrastive", "batch_size": 8, "learning_rate": 1e-3, "verbose": False}


@pytest.fixture(scope="module")
def contrastive(bert, few_steps):
    """A classifier of two classes whose encoder was tuned on pairs."""
    with eagerly():
        return bert.fit(TEXTS, CLASSES, epochs=2, **PAIRS)


def assert_saved(trained, targets, folder):
    """A model is saved as a sentence classifier, and answers the same when it is loaded; returns the loaded one."""
    assert trained.head == "sentence_classification"
    trained.save(folder)
    stored = json.loads((folder / "config.json").read_text())
    assert stored["keras_bert"]["head_options"]["pooling"] == ["mean", "cls"]
    assert stored["architectures"] == ["BertModel"]  # No class of transformers has the head.
    loaded = keras_bert.load(folder)
    assert loaded.predict(TEXTS) == trained.predict(TEXTS)
    scores = trained.evaluate(TEXTS, targets, verbose=False)
    assert loaded.evaluate(TEXTS, targets, verbose=False) == scores
    return loaded


def test_contrastive_tunes_the_encoder(bert, contrastive):
    changed = []
    for weight, before in zip(contrastive.encoder.weights, bert.encoder.weights, strict=True):
        changed.append(not np.array_equal(weight.numpy(), before.numpy()))
    assert any(changed)


def test_contrastive_ends_as_an_ordinary_classifier(contrastive, tmp_path):
    loaded = assert_saved(contrastive, CLASSES, tmp_path / "model")
    with keras.device("cpu"):
        loaded.export(tmp_path / "served" / "1")
    served = tf.saved_model.load(tmp_path / "served" / "1").signatures["serving_default"]
    outputs = served(tf.constant(TEXTS))
    expected = [list(answer["scores"].values()) for answer in contrastive.predict(TEXTS)]
    np.testing.assert_allclose(outputs["probabilities"].numpy(), expected, atol=1e-5)
    # Training continues with the same head, as ordinary fine-tuning.
    further = loaded.fit(TEXTS, CLASSES, epochs=1, learning_rate=1e-9, verbose=False)
    np.testing.assert_allclose(head_of(further)[0], head_of(loaded)[0], atol=1e-6)


def test_contrastive_with_several_labels(bert, tmp_path):
    trained = bert.fit(TEXTS, LABELS, epochs=2, **PAIRS)
    assert_saved(trained, LABELS, tmp_path / "model")


class Steps(keras.callbacks.Callback):
    """Counts the training steps, and ends the process, as it were, after some of them."""

    def __init__(self, last):
        super().__init__()
        self.last = last
        self.count = 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count == self.last:
            raise InterruptedError


@pytest.mark.slow
def test_interrupted_pairs_resume(bert, tmp_path):
    options = PAIRS | {"epochs": 3, "output_dir": tmp_path}
    with pytest.raises(InterruptedError):
        bert.fit(TEXTS, CLASSES, callbacks=[Steps(last=4)], **options)
    rest = Steps(last=None)
    resumed = bert.fit(TEXTS, CLASSES, callbacks=[rest], **options)
    assert rest.count == 4  # Two steps an epoch: after the first one, there was a snapshot.
    assert [answer["label"] for answer in resumed.predict(TEXTS)] == CLASSES


@pytest.mark.slow
def test_labels_are_checked_by_probes(bert):
    labels = [*CLASSES[:3], "x", *CLASSES[4:]]
    options = {"folds": 2, "method": "probe", "verbose": False}
    checks = bert.check_labels(TEXTS, labels, **options)
    assert sorted(check["row"] for check in checks) == list(range(8))
    with pytest.raises(ValueError, match="`epochs`"):
        bert.check_labels(TEXTS, labels, epochs=2, **options)


def test_numbers(bert):
    numbers = [len(text) / 4 for text in TEXTS]
    trained = bert.fit(TEXTS, numbers, method="probe", verbose=False)
    assert trained.task == "regression"
    assert trained.evaluate(TEXTS, numbers, verbose=False)["pearson"] > 0.9
    with pytest.raises(ValueError, match="`method`: pairs come from classes"):
        bert.fit(TEXTS, numbers, method="contrastive", verbose=False)


@pytest.mark.slow
def test_auto_compares_by_cross_validation_and_trains_on_all_rows(bert, capsys):
    texts, classes = TEXTS[:6], CLASSES[:6]
    trained = bert.fit(texts, classes, method="auto", epochs=1, batch_size=8, seed=2)
    shown = capsys.readouterr().out
    assert trained.results["evaluated_on"] == "3-fold cross-validation"
    runs = trained.results["runs"]
    assert {run["setting"]["method"] for run in runs} == {"probe", "contrastive"}
    assert len(runs) == 6
    means = {}
    for method in ("probe", "contrastive"):
        scores = [run["scores"]["accuracy"] for run in runs if run["setting"]["method"] == method]
        means[method] = np.mean(scores)
        assert f"method {method}: accuracy {100 * means[method]:.2f}% on 3-fold cross-validation" in shown
    kept = trained.results["setting"]["method"]
    assert means[kept] == max(means.values())
    if kept == "probe":
        alone = bert.fit(texts, classes, method="probe", verbose=False)
        np.testing.assert_array_equal(head_of(trained)[0], head_of(alone)[0])


@pytest.mark.slow
def test_auto_compares_on_validation(bert, tmp_path, capsys):
    options = {"epochs": 1, "batch_size": 8, "validation": (TEXTS[:4], CLASSES[:4])}
    trained = bert.fit(TEXTS, CLASSES, method="auto", output_dir=tmp_path, **options)
    assert "warning: not significantly better than the majority baseline" in " ".join(capsys.readouterr().out.split())
    assert json.loads((tmp_path / "results.json").read_text())["best"]["scores"] == trained.results["scores"]
    assert trained.results["evaluated_on"] == "validation"
    assert len(trained.results["runs"]) == 2


def test_auto_without_folds_is_a_probe(bert, capsys):
    trained = bert.fit(TEXTS[:3], ["x", "y", "x"], method="auto")
    assert "the class y has one example" in capsys.readouterr().out
    assert trained.results["setting"]["method"] == "probe"


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"method": "setfit"}, "method"),
        ({"method": "probe", "epochs": 2}, "epochs"),
        ({"method": "auto", "teacher": "bert_tiny_books"}, "teacher"),
        ({"method": "contrastive", "long_texts": "windows"}, "long_texts"),
    ],
)
def test_what_a_method_refuses(bert, options, argument):
    """See tests/tasks/test_methods.py for all arguments."""
    with pytest.raises(ValueError, match=f"`{argument}`") as caught:
        bert.fit(TEXTS, CLASSES, verbose=False, **options)
    assert "\n" not in str(caught.value)


def test_tasks_without_methods(bert):
    words = [["a", "b"]] * 4
    tags = [["O", "B-K"]] * 4
    with pytest.raises(ValueError, match="`method`: only for classification, several labels and regression"):
        bert.fit(words, tags, task="tagging", method="probe", verbose=False)


def test_rows_that_have_no_pairs(bert):
    texts = TEXTS[:2]
    classes = CLASSES[:2]
    with pytest.raises(ValueError, match="no two rows have a class in common"):
        bert.fit(texts, classes, method="contrastive", verbose=False)
    trained = bert.fit(texts, classes, method="probe", verbose=False)
    assert [answer["label"] for answer in trained.predict(texts)] == classes

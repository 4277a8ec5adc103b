"""Few examples: a head on fixed vectors, and an encoder tuned on pairs, from `fit` to the SavedModel."""

import json

import keras
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import keras_bert
from keras_bert.tasks.linear_head import PENALTY
from keras_bert.tasks.methods import METHODS

tf = pytest.importorskip("tensorflow")

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

TEXTS = ["a b c", "d e", "a g h b", "j d", "a b b", "c d e f", "a g b", "h d j"]
CLASSES = ["x", "y"] * 4
LABELS = [["x"], ["y"], ["x", "z"], ["y"], ["x"], ["y", "z"], [], ["y"]]


@pytest.fixture(scope="module")
def bert(tmp_path_factory, config, pieces):
    """A sentence encoder, with a projection and vectors of length 1."""
    folder = tmp_path_factory.mktemp("encoder")
    encoder = keras_bert.build_encoder(config)
    model = keras_bert.build_embedder(encoder, ("mean", "cls"), normalize=True, projection=16)
    keras_bert.save(model, folder, pieces)
    return keras_bert.load(folder)


@pytest.fixture(autouse=True)
def two_steps(monkeypatch):
    """An epoch of pairs has two steps, which take less time."""
    monkeypatch.setattr("keras_bert.tasks.few_examples._LEAST_STEPS", 2)
    monkeypatch.setattr("keras_bert.tasks.few_examples._DRAWS_OF_A_ROW", 2)


def head_of(bert):
    """Returns kernel and bias of the last layer."""
    return keras_bert.describe(bert.model()).layers["sentence_classifier"].get_weights()


def assert_same_encoder(one, other):
    for weight, same in zip(one.encoder.weights, other.encoder.weights, strict=True):
        if "pooler" not in weight.path:  # Sentence encoders have none.
            np.testing.assert_array_equal(weight.numpy(), same.numpy())


def test_probe_is_logistic_regression_on_the_vectors_of_encode(bert):
    classes = ["1", "2"] * 4  # Numbers are no texts.
    trained = bert.fit(TEXTS, classes, method="probe", verbose=False)
    assert_same_encoder(trained, bert)
    vectors = bert.encode(TEXTS)
    scale = ((vectors - vectors.mean(0)) ** 2).sum(1).mean()
    other = LogisticRegression(C=1 / (PENALTY * scale), solver="newton-cholesky", tol=1e-10)
    other.fit(vectors.astype("float64"), classes)
    kernel, bias = head_of(trained)
    np.testing.assert_allclose(kernel[:, 1] - kernel[:, 0], other.coef_[0], atol=1e-3 * abs(other.coef_).max())
    np.testing.assert_allclose(bias[1] - bias[0], other.intercept_[0], rtol=1e-3)
    scores = [[answer["scores"][label] for label in ("1", "2")] for answer in trained.predict(TEXTS)]
    np.testing.assert_allclose(scores, other.predict_proba(vectors), atol=1e-4)
    assert trained.results["setting"] == {"method": "probe", "seed": 1}
    assert trained.results["scores"]["accuracy"] == trained.evaluate(TEXTS, classes, verbose=False)["accuracy"]
    again = bert.fit(TEXTS, classes, method="probe", verbose=False)
    np.testing.assert_array_equal(head_of(again)[0], kernel)


def regression(rows, classes, names=None):
    """Returns scikit-learn's head of vectors of rows of two classes, and of names, each as four texts."""
    weights = [1.0] * len(rows)
    if names is not None:
        rows, classes, weights = np.concatenate([rows, names]), [*classes, 0, 1], [*weights, 4.0, 4.0]
    scale = ((rows - rows.mean(0)) ** 2).sum(1).mean()
    head = LogisticRegression(C=1 / (PENALTY * scale), solver="newton-cholesky", tol=1e-10)
    return head.fit(rows.astype("float64"), classes, sample_weight=weights)


def test_names_of_classes_are_texts_where_they_lower_the_loss_of_held_out_rows(bert, capsys):
    trained = bert.fit(TEXTS, ["a b", "d e"] * 4, method="probe")
    rows, names, classes = bert.encode(TEXTS), bert.encode(["a b", "d e"]), np.array([0, 1] * 4)
    losses = {"without": 0.0, "with": 0.0}
    for fold in range(4):
        held = np.arange(8) // 2 == fold
        for key, extra in (("without", None), ("with", names)):
            logs = regression(rows[~held], classes[~held], extra).predict_log_proba(rows[held])
            losses[key] -= (logs[0, 0] + logs[1, 1]) / 8
    assert losses["with"] < losses["without"]
    line = f"class names: extra texts; cross-validated loss {losses['with']:.3g}, without them {losses['without']:.3g}"
    assert line in capsys.readouterr().out
    kernel = head_of(trained)[0]
    expected = regression(rows, classes, names).coef_[0]
    np.testing.assert_allclose(kernel[:, 1] - kernel[:, 0], expected, atol=1e-3 * abs(expected).max())
    # The same names for the other classes are of no use.
    bert.fit(TEXTS, ["d e", "a b"] * 4, method="probe")
    assert "class names" not in capsys.readouterr().out


@pytest.mark.parametrize("targets", [CLASSES, LABELS], ids=["classes", "labels"])
def test_contrastive_ends_as_an_ordinary_classifier(bert, targets, tmp_path):
    options = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3, "verbose": False}
    trained = bert.fit(TEXTS, targets, method="contrastive", **options)
    changed = [
        not np.array_equal(weight.numpy(), other.numpy())
        for weight, other in zip(trained.encoder.weights, bert.encoder.weights, strict=True)
    ]
    assert any(changed)
    assert trained.head == "sentence_classification"
    answers = trained.predict(TEXTS)
    trained.save(tmp_path / "model")
    stored = json.loads((tmp_path / "model" / "config.json").read_text())
    assert stored["keras_bert"]["head_options"]["pooling"] == ["mean", "cls"]
    assert stored["architectures"] == ["BertModel"]  # No class of transformers has the head.
    loaded = keras_bert.load(tmp_path / "model")
    assert loaded.predict(TEXTS) == answers
    assert loaded.evaluate(TEXTS, targets, verbose=False) == trained.evaluate(TEXTS, targets, verbose=False)
    if targets is LABELS:  # One of both is exported and trained again.
        return
    with keras.device("cpu"):
        loaded.export(tmp_path / "served" / "1")
    served = tf.saved_model.load(tmp_path / "served" / "1").signatures["serving_default"](tf.constant(TEXTS))
    expected = [list(answer["scores"].values()) for answer in answers]
    np.testing.assert_allclose(served["probabilities"].numpy(), expected, atol=1e-5)
    # Training continues with the same head, as ordinary fine-tuning.
    further = loaded.fit(TEXTS, targets, epochs=1, learning_rate=1e-9, verbose=False)
    np.testing.assert_allclose(head_of(further)[0], head_of(loaded)[0], atol=1e-6)


class Steps(keras.callbacks.Callback):
    """Counts the training steps, and ends the process, as it were, after some of them."""

    def __init__(self, last):
        super().__init__()
        self.last, self.count = last, 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count == self.last:
            raise InterruptedError


@pytest.mark.slow
def test_interrupted_pairs_resume(bert, tmp_path):
    options = {"method": "contrastive", "epochs": 3, "batch_size": 8, "learning_rate": 1e-3, "verbose": False}
    cut, rest = Steps(last=4), Steps(last=None)
    with pytest.raises(InterruptedError):
        bert.fit(TEXTS, CLASSES, output_dir=tmp_path, callbacks=[cut], **options)
    resumed = bert.fit(TEXTS, CLASSES, output_dir=tmp_path, callbacks=[rest], **options)
    assert rest.count == 4  # Two steps an epoch: after the first one, there was a snapshot.
    assert [answer["label"] for answer in resumed.predict(TEXTS)] == CLASSES


@pytest.mark.slow
def test_labels_are_checked_by_probes(bert):
    labels = [*CLASSES[:3], "x", *CLASSES[4:]]
    checks = bert.check_labels(TEXTS, labels, folds=2, method="probe", verbose=False)
    assert sorted(check["row"] for check in checks) == list(range(8))
    with pytest.raises(ValueError, match="`epochs`: the encoder is not trained"):
        bert.check_labels(TEXTS, labels, folds=2, method="probe", epochs=2, verbose=False)


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
    ("options", "message"),
    [
        ({"method": "setfit"}, "`method` must be one of"),
        ({"method": "probe", "epochs": 2}, "`epochs`: the encoder is not trained"),
        ({"method": "probe", "lora_rank": 2}, "`lora_rank`: only with method='full'"),
        ({"method": "auto", "teacher": "bert_tiny_books"}, "`teacher`: only with method='full'"),
        ({"method": "probe", "intermediate": (TEXTS, CLASSES)}, "`intermediate`: only with method='full'"),
        ({"method": "contrastive", "long_texts": "windows"}, "`long_texts`: 'windows' only with method='full'"),
        ({"method": "probe", "pack": True}, "`pack`: only with method='full'"),
        ({"method": "probe", "task": "tagging"}, "`method`: only for classification, several labels and regression"),
    ],
)
def test_what_a_method_refuses(bert, options, message):
    texts, targets = TEXTS, CLASSES
    if options.get("task"):
        texts, targets = [["a", "b"]] * 4, [["O", "B-K"]] * 4
    with pytest.raises(ValueError, match=message) as caught:
        bert.fit(texts, targets, verbose=False, **options)
    assert "\n" not in str(caught.value)


def test_rows_that_have_no_pairs(bert):
    with pytest.raises(ValueError, match="no two rows have a class in common"):
        bert.fit(TEXTS[:2], CLASSES[:2], method="contrastive", verbose=False)
    trained = bert.fit(TEXTS[:2], CLASSES[:2], method="probe", verbose=False)
    assert [answer["label"] for answer in trained.predict(TEXTS[:2])] == CLASSES[:2]
    assert METHODS == ("full", "probe", "contrastive", "auto")

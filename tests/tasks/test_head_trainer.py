"""Heads on vectors that are computed once: those of scikit-learn, with and without the names of the classes."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

pytest.importorskip("tensorflow")

from keras_bert.data.sources import PythonRows
from keras_bert.tasks.base import Start
from keras_bert.tasks.classification.data import own_data
from keras_bert.tasks.classification.task import ClassificationTask
from keras_bert.tasks.head_trainer import HeadTrainer, head_vectors
from keras_bert.tasks.linear_head import PENALTY
from tests.tasks.few_rows import CLASSES, TEXTS, head_of, sentence_encoder

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


@pytest.fixture(scope="module")
def bert(tmp_path_factory, config, pieces):
    return sentence_encoder(tmp_path_factory.mktemp("encoder"), config, pieces)


def make_task(bert, classes, **options):
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, classes, strict=True)]
    source = PythonRows("texts", rows)
    start = Start("start", bert, new_head=True, head="sentence_classification")
    settings = ClassificationTask.Settings(sequence_length=8, **options)
    return ClassificationTask(own_data("classification", source, source), start, settings)


def logistic_regression(vectors, classes, weights=None):
    """Returns scikit-learn's head of vectors of two classes."""
    scale = ((vectors - vectors.mean(0)) ** 2).sum(1).mean()
    head = LogisticRegression(C=1 / (PENALTY * scale), solver="newton-cholesky", tol=1e-10)
    return head.fit(vectors.astype("float64"), classes, sample_weight=weights)


def assert_head(bert, expected):
    """A head of two logits has the difference of scikit-learn's."""
    kernel, bias = head_of(bert)
    largest = abs(expected.coef_).max()
    np.testing.assert_allclose(kernel[:, 1] - kernel[:, 0], expected.coef_[0], atol=1e-3 * largest)
    np.testing.assert_allclose(bias[1] - bias[0], expected.intercept_[0], rtol=1e-3)


def assert_same_encoder(one, other):
    for weight, same in zip(one.encoder.weights, other.encoder.weights, strict=True):
        if "pooler" not in weight.path:  # Sentence encoders have none.
            np.testing.assert_array_equal(weight.numpy(), same.numpy())


def test_probe_is_logistic_regression_on_the_vectors_of_encode(bert):
    classes = ["1", "2"] * 4  # Numbers are no texts.
    trained = bert.fit(TEXTS, classes, method="probe", verbose=False)
    assert_same_encoder(trained, bert)
    vectors = bert.encode(TEXTS)
    expected = logistic_regression(vectors, classes)
    assert_head(trained, expected)
    scores = [[answer["scores"]["1"], answer["scores"]["2"]] for answer in trained.predict(TEXTS)]
    np.testing.assert_allclose(scores, expected.predict_proba(vectors), atol=1e-4)
    assert trained.results["setting"] == {"method": "probe", "seed": 1}
    evaluated = trained.evaluate(TEXTS, classes, verbose=False)
    assert trained.results["scores"]["accuracy"] == evaluated["accuracy"]
    again = bert.fit(TEXTS, classes, method="probe", verbose=False)
    np.testing.assert_array_equal(head_of(again)[0], head_of(trained)[0])


def test_names_of_classes_are_texts_where_they_lower_the_loss_of_held_out_rows(bert, capsys):
    """The fold of a row is its place in its class: rows 0 and 1, 2 and 3, and so on."""
    trained = bert.fit(TEXTS, ["a b", "d e"] * 4, method="probe")
    rows = bert.encode(TEXTS)
    classes = np.array([0, 1] * 4)
    all_vectors = np.concatenate([rows, bert.encode(["a b", "d e"])])
    all_classes = np.append(classes, [0, 1])
    weights = np.array([1.0] * 8 + [4.0] * 2)
    without_names = 0.0
    with_names = 0.0
    for fold in range(4):
        held = np.arange(8) // 2 == fold
        plain = logistic_regression(rows[~held], classes[~held])
        known = np.append(~held, [True, True])
        named = logistic_regression(all_vectors[known], all_classes[known], weights[known])
        without_names -= np.trace(plain.predict_log_proba(rows[held])) / 8
        with_names -= np.trace(named.predict_log_proba(rows[held])) / 8
    assert with_names < without_names
    losses = f"cross-validated loss {with_names:.3g}, without them {without_names:.3g}"
    assert f"class names: extra texts; {losses}" in capsys.readouterr().out
    assert_head(trained, logistic_regression(all_vectors, all_classes, weights))


def test_names_that_do_not_help_are_left_out(bert, capsys):
    """The same names for the other classes."""
    bert.fit(TEXTS, ["d e", "a b"] * 4, method="probe")
    assert "class names" not in capsys.readouterr().out


def test_losses_and_outputs_are_those_of_the_vectors(bert):
    task = make_task(bert, CLASSES, class_weight={"y": 3.0})
    model = task.training.build(bert)
    trainer = HeadTrainer(model, task)
    split = task.splits["train"][0]
    vectors = head_vectors(model, split.inputs)
    np.testing.assert_allclose(vectors, bert.encode(TEXTS), atol=1e-6)
    weights = np.array([1.0, 3.0] * 4)
    expected = logistic_regression(vectors, split.targets, weights)
    logs = expected.predict_log_proba(vectors)[np.arange(8), split.targets]
    results, outputs = trainer.evaluate_with_outputs(split.batches)
    assert results["loss"] == pytest.approx(-np.average(logs, weights=weights), rel=1e-3)
    assert trainer.evaluate(split.batches) == results
    np.testing.assert_array_equal(trainer.fitted_outputs(split.batches)["logits"], outputs["logits"])
    of_model = model(bert.preprocessor(8)(TEXTS))["logits"]
    np.testing.assert_allclose(outputs["logits"], of_model, atol=1e-5)


def test_batches_of_other_rows_are_refused(bert):
    task = make_task(bert, CLASSES)
    trainer = HeadTrainer(task.training.build(bert), task)
    other = make_task(bert, CLASSES)
    with pytest.raises(ValueError, match="`batches`"):
        trainer.predict(other.splits["train"][0].batches)

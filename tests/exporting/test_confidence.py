"""Temperature and threshold of a classifier in every runtime: probabilities by NumPy, and null for no label."""

import json

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

import keras_bert
from keras_bert.heads.answers import each_text, of_outputs
from keras_bert.tasks import prediction_files
from tests.runs.test_folds import OPTIONS, TEXTS

pytestmark = pytest.mark.tensorflow
LABELS = ["x", "y", "z"]
NAMES = ("temperature", "threshold")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, config, pieces):
    """A model whose temperature is 0.05, and whose threshold is the median of the probabilities of `TEXTS`."""
    folder = tmp_path_factory.mktemp("confidence")
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 3)
    keras_bert.save(model, folder, pieces, labels=LABELS, sequence_length=16)
    sure = expected(keras_bert.load(folder)).max(-1)
    settings = {"temperature": 0.05, "threshold": float(np.median(sure))}
    keras_bert.save(model, folder, pieces, labels=LABELS, sequence_length=16, confidence=settings)
    return folder


def expected(bert):
    """Returns the probabilities of `TEXTS`, by NumPy."""
    answers = bert.predict(TEXTS, logits=True, confidence=None)
    return softmax(np.array([answer["logits"] for answer in answers], "float64") / 0.05, -1)


def check(answers, probabilities, threshold, rtol=1e-4):
    found = np.array([list(answer["scores"].values()) for answer in answers])
    np.testing.assert_allclose(found, probabilities, rtol=rtol, atol=1e-6)
    labels = [LABELS[row.argmax()] if row.max() >= threshold else None for row in probabilities]
    assert [answer["label"] for answer in answers] == labels
    assert 0 < labels.count(None) < len(labels)
    assert [answer["score"] for answer in answers] == found.max(-1).tolist()


def test_predict_and_a_saved_model(folder, tmp_path):
    bert = keras_bert.load(folder)
    probabilities, threshold = expected(bert), bert.confidence["threshold"]
    answers = bert.predict(TEXTS, logits=True)
    check(answers, probabilities, threshold)
    raw = bert.predict(TEXTS, logits=True, confidence=None)
    assert [answer["logits"] for answer in raw] == [answer["logits"] for answer in answers]
    assert None not in [answer["label"] for answer in raw]
    np.testing.assert_allclose(
        [max(answer["scores"].values()) for answer in raw], softmax([a["logits"] for a in raw], -1).max(-1), rtol=1e-5
    )

    bert.export(tmp_path / "1")
    signature = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    outputs = {name: value.numpy() for name, value in signature(text=tf.constant(TEXTS)).items()}
    assert outputs["answered"].tolist() == (probabilities.max(-1) >= threshold).tolist()
    assert [label.decode() for label in outputs["label"]] == [answer["label"] or "" for answer in answers]
    # As a client converts them.
    rows = [{"text": text} for text in TEXTS]
    served = each_text(of_outputs(outputs), outputs, rows)
    check(served, probabilities, threshold)
    assert json.loads(prediction_files.json_line(rows[0], served[0]))["label"] == answers[0]["label"]
    cells = [line.split("\t")[0] for line in prediction_files.table(answers)]
    assert cells == ["label", *(answer["label"] or '""' for answer in answers)]

    # Copies and folders keep it.
    bert.save(tmp_path / "again")
    assert keras_bert.load(tmp_path / "again").confidence == bert.confidence
    assert json.loads((tmp_path / "again" / "config.json").read_text())["keras_bert"]["confidence"] == bert.confidence


@pytest.mark.slow
def test_int8(folder, tmp_path):
    bert = keras_bert.load(folder)
    bert.export(tmp_path / "1", precision="int8", logits=True)
    signature = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    outputs = {name: value.numpy() for name, value in signature(text=tf.constant(TEXTS)).items()}
    probabilities = softmax(outputs["logits"].astype("float64") / 0.05, -1)
    rows = [{"text": text} for text in TEXTS]
    answers = each_text(of_outputs(outputs), outputs, rows)
    np.testing.assert_allclose([list(answer["scores"].values()) for answer in answers], probabilities, rtol=1e-4)
    answered = probabilities.max(-1) >= bert.confidence["threshold"]
    assert [answer["label"] is not None for answer in answers] == answered.tolist()


def test_evaluate_tells_of_the_answers(folder):
    bert = keras_bert.load(folder)
    probabilities, golds = expected(bert), np.arange(12) % 3
    scores = bert.evaluate(TEXTS, [LABELS[gold] for gold in golds], verbose=False)
    answered = probabilities.max(-1) >= bert.confidence["threshold"]
    assert scores["answered"] == pytest.approx(answered.mean())
    assert scores["precision"] == pytest.approx((probabilities.argmax(-1) == golds)[answered].mean())
    assert scores["accuracy"] == pytest.approx((probabilities.argmax(-1) == golds).mean())
    with pytest.raises(ValueError, match="`calibrate` is an option of `fit`"):
        bert.evaluate(TEXTS, ["x", "y", "z"] * 4, calibrate=True)


@pytest.mark.slow
def test_fit_stores_what_it_chooses_on_validation(checkpoint, tmp_path, eager):
    texts, labels = TEXTS * 3, ["x", "y", "y"] * 12
    bert = keras_bert.load(checkpoint)
    options = {**OPTIONS, "validation": (texts, labels), "output_dir": tmp_path / "run"}
    trained = bert.fit(texts, labels, answer_at_precision=0.6, **options)
    logits = np.array([answer["logits"] for answer in trained.predict(texts, logits=True, confidence=None)])
    golds = np.array([0 if label == "x" else 1 for label in labels])
    losses = []
    grid = np.exp(np.linspace(np.log(0.05), np.log(20), 4000))
    for temperature in grid:
        losses.append(-np.log(softmax(logits / temperature, -1)[np.arange(36), golds]).mean())
    temperature = trained.confidence["temperature"]
    assert -np.log(softmax(logits / temperature, -1)[np.arange(36), golds]).mean() <= min(losses) + 1e-6
    sure = softmax(logits / temperature, -1).max(-1)
    assert trained.confidence["answers"] == pytest.approx((sure >= trained.confidence["threshold"]).mean())
    assert trained.confidence["precision"] == 0.6
    # The SavedModel of the run has it, too, and so has the report.
    signature = tf.saved_model.load(str(tmp_path / "run" / "saved_model" / "1")).signatures["serving_default"]
    found = signature(text=tf.constant(texts))["probabilities"].numpy()
    np.testing.assert_allclose(found, softmax(logits / temperature, -1), rtol=1e-4, atol=1e-6)
    report = (tmp_path / "run" / "report.html").read_text()
    assert "precision of the answers" in report[report.index('id="confidence"') :]


@pytest.mark.slow
def test_folds_fit_it_to_the_predictions_of_all_folds(checkpoint, tmp_path, eager):
    texts, labels = TEXTS, ["x", "y", "y"] * 4
    trained = keras_bert.load(checkpoint).fit(
        texts, labels, folds=3, calibrate=True, output_dir=tmp_path / "run", **OPTIONS
    )
    rows = (tmp_path / "run" / "out_of_fold.tsv").read_text().splitlines()
    assert len(rows) == 13
    temperature = trained.confidence["temperature"]
    logits = np.concatenate(
        [np.load(path)["classification"] for path in sorted((tmp_path / "run").glob("runs/*/*.npz"))]
    )
    folds = np.array([int(row.split("\t")[1]) for row in rows[1:]])
    golds = np.array([0 if label == "x" else 1 for label in labels])[np.argsort(folds, kind="stable")]
    losses = []
    for value in np.exp(np.linspace(np.log(0.05), np.log(20), 2000)):
        losses.append(-np.log(softmax(logits / value, -1)[np.arange(12), golds]).mean())
    assert -np.log(softmax(logits / temperature, -1)[np.arange(12), golds]).mean() <= min(losses) + 1e-6


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        (["x", "y"] * 6, {"calibrate": True}, "`calibrate` needs rows that the model is not trained on"),
        (["x", "y"] * 6, {"answer_at_precision": 0.95, "folds": 3}, "needs at least 97 labelled rows.* 12 rows"),
        (["x", "y"] * 6, {"answer_at_precision": 95, "folds": 3}, "must be a share from 0.5 to 0.999.*=95"),
        ([["x"], ["x", "y"], []] * 4, {"calibrate": True, "folds": 3}, "has no option 'calibrate'"),
        ([0.5, 1.5, 2.0] * 4, {"calibrate": True, "folds": 3}, "has no option 'calibrate'|is for classes"),
    ],
)
def test_settings_without_meaning(targets, options, message, checkpoint):
    with pytest.raises(ValueError, match=message):
        keras_bert.load(checkpoint).fit(TEXTS, targets, **OPTIONS, **options)


def test_a_wrong_confidence_is_refused_when_it_is_set(checkpoint):
    with pytest.raises(ValueError, match="`confidence` must be a dict of temperature, .* Received: .*'temp'"):
        keras_bert.load(checkpoint).confidence = {"temp": 1}

"""Temperature and threshold of a classifier in every runtime: probabilities by NumPy, and null for no label."""

import json

import numpy as np
import pytest
import tensorflow as tf
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.metrics import f1_score

import keras_bert
from keras_bert.answering import prediction_files
from keras_bert.heads.answers import each_text, of_outputs
from keras_bert.tasks import confidence
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
    probabilities = expected(bert)
    threshold = bert.confidence["threshold"]
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
    probabilities = expected(bert)
    golds = np.arange(12) % 3
    scores = bert.evaluate(TEXTS, [LABELS[gold] for gold in golds], verbose=False)
    answered = probabilities.max(-1) >= bert.confidence["threshold"]
    assert scores["answered"] == pytest.approx(answered.mean())
    assert scores["precision"] == pytest.approx((probabilities.argmax(-1) == golds)[answered].mean())
    assert scores["accuracy"] == pytest.approx((probabilities.argmax(-1) == golds).mean())
    with pytest.raises(ValueError, match="`calibrate` is an option of `fit`"):
        bert.evaluate(TEXTS, ["x", "y", "z"] * 4, calibrate=True)


@pytest.mark.slow
def test_fit_stores_what_it_chooses_on_validation(checkpoint, tmp_path, eager):
    texts = TEXTS * 3
    labels = ["x", "y", "y"] * 12
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
    texts = TEXTS
    labels = ["x", "y", "y"] * 4
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
        (
            [["x"], ["x", "y"], []] * 4,
            {"answer_at_precision": 0.9, "folds": 3},
            "no option 'answer_at_precision' .* `calibrate` is for tags and labels, too",
        ),
        ([0.5, 1.5, 2.0] * 4, {"calibrate": True, "folds": 3}, "has no option 'calibrate'|is for classes"),
    ],
)
def test_settings_without_meaning(targets, options, message, checkpoint):
    with pytest.raises(ValueError, match=message):
        keras_bert.load(checkpoint).fit(TEXTS, targets, **OPTIONS, **options)


def test_a_wrong_confidence_is_refused_when_it_is_set(checkpoint):
    with pytest.raises(ValueError, match="`confidence` must be a dict of temperature, .* Received: .*'temp'"):
        keras_bert.load(checkpoint).confidence = {"temp": 1}


def logits_of(bert, text):
    """Returns the logits of the model for a text or a dict with choices, an array with a row for each token."""
    preprocessor = bert.preprocessor(16, padding="longest")
    if isinstance(text, dict):
        inputs = preprocessor.with_choices([text["text"]], [text["choices"]])
    else:
        inputs = preprocessor([text])
    return bert.model()(inputs)["logits"].numpy()[0].astype("float64")


def several_labels(bert, text):
    return expit(logits_of(bert, text) / 0.5)


def tags(bert, text):
    """Each letter is a word, so that an entity is one word."""
    return softmax(logits_of(bert, text) / 0.5, -1)[1:-1].max(-1)


def choices(bert, text):
    return softmax(logits_of(bert, text) / 0.5)


QUESTIONS = [{"text": "a b", "choices": ["c", "d"]}, {"text": "c", "choices": ["e", "a"]}]
# The head, options of `save`, texts, the outputs with probabilities, and these by NumPy, at a temperature of 0.5.
OTHERS = {
    "multi_label": ({"labels": LABELS, "thresholds": 0.4}, ["a b", "c d"], "probabilities", several_labels),
    "token_classification": ({"labels": [*"abcdefgh", "O"]}, ["a b", "c d"], "scores", tags),
}


@pytest.mark.parametrize("name", ["multi_label", pytest.param("token_classification", marks=pytest.mark.slow)])
def test_other_heads(build, pieces, tmp_path, eager, name):
    """In Python, after `save`, and in a SavedModel; the labels are those of the answered probabilities."""
    settings, texts, output, expected = OTHERS[name]
    keras_bert.save(build(name), tmp_path / "model", pieces, sequence_length=16, **settings)
    bert = keras_bert.load(tmp_path / "model")
    bert.confidence = {"temperature": 0.5}
    bert.save(tmp_path / "again")
    bert = keras_bert.load(tmp_path / "again")
    assert bert.confidence == {"temperature": 0.5}
    bert.export(tmp_path / "1")
    signature = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    for text in texts:
        row = {"text": text}
        outputs = {
            key: value.numpy() for key, value in signature(**{k: tf.constant([v]) for k, v in row.items()}).items()
        }
        probabilities = expected(bert, text)
        np.testing.assert_allclose(outputs[output][0], probabilities, rtol=1e-4, atol=1e-6)
        (served,) = each_text(of_outputs(outputs), outputs, [row])
        answer = bert.predict(text)
        assert served.keys() == answer.keys()
        if name == "token_classification":
            scores = [entity["score"] for entity in answer["entities"]]
            assert all(min(abs(probabilities - score)) < 1e-4 for score in scores)
            continue
        np.testing.assert_allclose(list(answer["scores"].values()), probabilities, rtol=1e-4, atol=1e-6)
        assert answer["labels"] == [LABELS[place] for place in np.flatnonzero(probabilities >= 0.4)]
    bert.confidence = {"temperature": 0.5, "threshold": 0.9}
    with pytest.raises(ValueError, match="`confidence` must have temperature alone .* Received: threshold=0.9"):
        bert.predict(texts[0])
    with pytest.raises(ValueError, match="`confidence` must have temperature alone"):
        bert.save(tmp_path / "wrong")


def test_choices_below_the_threshold(build, pieces, tmp_path, eager):
    keras_bert.save(build("multiple_choice"), tmp_path / "model", pieces, sequence_length=16)
    bert = keras_bert.load(tmp_path / "model")
    sure = [choices(bert, text).max() for text in QUESTIONS]
    bert.confidence = {"temperature": 0.5, "threshold": float(np.mean(sure))}
    expected = [None, None]
    expected[np.argmax(sure)] = int(choices(bert, QUESTIONS[np.argmax(sure)]).argmax())
    assert [answer["choice"] for answer in bert.predict(QUESTIONS)] == expected
    bert.export(tmp_path / "1")
    signature = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    inputs = {name: tf.constant([row[name] for row in QUESTIONS]) for name in ("text", "choices")}
    outputs = {name: value.numpy() for name, value in signature(**inputs).items()}
    assert outputs["answered"].tolist() == [choice is not None for choice in expected]
    served = each_text(of_outputs(outputs), outputs, QUESTIONS)
    assert [answer["choice"] for answer in served] == expected
    found = [answer["scores"] for answer in served]
    np.testing.assert_allclose(found, [choices(bert, text) for text in QUESTIONS], rtol=1e-4, atol=1e-6)


WORDS = [["ab", "c"], ["d"], ["e", "f", "ab"]] * 2
TAGS = [["B-X" if word in "cd" else "B-Y" if word == "e" else "O" for word in words] for words in WORDS]
FITTED = {
    "multi_label": (TEXTS[:6], [["x"], ["x", "y"], ["y"]] * 2),
    "tagging": (WORDS, TAGS),
    "multiple_choice": ([{"text": text, "choices": ["a", "b c"]} for text in TEXTS[:6]], [0, 1, 1] * 2),
}


def decisions_of(name, bert, texts, targets):
    """Returns the logits of all decisions, of words those of first tokens, and the numbers of the right classes."""
    if name == "multi_label":
        logits = np.concatenate([logits_of(bert, text) for text in texts])
        return np.stack([0 * logits, logits], -1), [label in each for each in targets for label in bert.labels]
    if name == "multiple_choice":
        return np.array([logits_of(bert, text) for text in texts]), targets
    logits = []
    golds = []
    for words, tags in zip(texts, targets, strict=True):
        found = logits_of(bert, " ".join(words))
        places = 1 + np.cumsum([0, *map(len, words[:-1])])  # Letters are pieces.
        logits.append(found[places])
        golds += [bert.labels.index(tag) for tag in tags]
    return np.concatenate(logits), golds


@pytest.mark.slow
@pytest.mark.parametrize("name", FITTED)
def test_fit_calibrates_other_tasks(checkpoint, tmp_path, eager, name):
    """The temperature is that of SciPy on the logits of the trained model; it is fitted once."""
    texts, targets = FITTED[name]
    more = {"threshold": "shared"} if name == "multi_label" else {}
    calls = []
    fitted = confidence.fitted_temperature

    def counted(*arguments):
        calls.append(None)
        return fitted(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(confidence, "fitted_temperature", counted)
        trained = keras_bert.load(checkpoint).fit(
            texts, targets, validation=(texts, targets), calibrate=True, output_dir=tmp_path / "run", **more, **OPTIONS
        )
    assert len(calls) == 3  # To all rows, and to each half of them for the report.
    logits, golds = decisions_of(name, trained, texts, targets)

    def loss(temperature):
        return -log_softmax(logits / temperature, -1)[np.arange(len(golds)), np.array(golds, int)].mean()

    best = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-5})
    assert loss(trained.confidence["temperature"]) == pytest.approx(best.fun, abs=1e-6)
    report = (tmp_path / "run" / "report.html").read_text()
    assert "calibration error after" in report[report.index('id="confidence"') :]
    unit = {"multi_label": "labels of texts", "tagging": "words", "multiple_choice": "texts"}[name]
    assert f"negative log likelihood of the {unit} on dev" in report
    assert "the temperature of one half of them" in report
    scores = trained.evaluate(texts, targets, verbose=False)
    assert 0 <= scores["calibration_error"] < 1
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["confidence"] == trained.confidence
    if name == "multi_label":  # The threshold is one of the answered probabilities, also where it was chosen.
        answers = trained.predict(texts)
        found = [[answer["scores"][label] >= trained.thresholds for label in trained.labels] for answer in answers]
        golds = [[label in each for label in trained.labels] for each in targets]
        expected = f1_score(golds, found, average="micro")
        assert scores["micro_f1"] == pytest.approx(expected)
        assert results["scores"]["multi_label"]["micro_f1"] == pytest.approx(expected)

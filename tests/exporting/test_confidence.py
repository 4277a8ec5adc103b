"""Temperature and threshold in `predict`, `evaluate`, `fit`, folders and SavedModels: probabilities by NumPy."""

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

pytestmark = pytest.mark.tensorflow
TEXTS = [
    "a b c a a",
    "b c d b b",
    "c d e e c",
    "d e f j d",
    "e f g g e",
    "a b c f f",
    "b c d g g",
    "c d e j a",
    "d e f e b",
    "e f g b c",
    "a b c a d",
    "b c d b e",
]
LABELS = ["x", "y", "z"]
# Of `fit`.
OPTIONS = {"epochs": 1, "batch_size": 4, "learning_rate": 1e-3, "verbose": False}
TEMPERATURE = 0.05


@pytest.fixture(scope="module")
def folder(tmp_path_factory, config, pieces):
    """A model whose temperature is 0.05, and whose threshold is the median of the probabilities of `TEXTS`."""
    folder = tmp_path_factory.mktemp("confidence")
    model = keras_bert.build_classifier(keras_bert.build_encoder(config), 3)
    keras_bert.save(model, folder, pieces, labels=LABELS, sequence_length=16)
    sure = expected_probabilities(keras_bert.load(folder)).max(-1)
    settings = {"temperature": TEMPERATURE, "threshold": float(np.median(sure))}
    keras_bert.save(model, folder, pieces, labels=LABELS, sequence_length=16, confidence=settings)
    return folder


@pytest.fixture(scope="module")
def bert(folder):
    return keras_bert.load(folder)


@pytest.fixture(scope="module")
def probabilities(bert):
    return expected_probabilities(bert)


@pytest.fixture(scope="module")
def outputs(bert, tmp_path_factory):
    """What the SavedModel of the model answers to `TEXTS`."""
    folder = tmp_path_factory.mktemp("exported") / "1"
    bert.export(folder)
    return asked(folder, text=TEXTS)


def expected_probabilities(bert):
    """Returns the probabilities of `TEXTS`, by NumPy."""
    answers = bert.predict(TEXTS, logits=True, confidence=None)
    logits = np.array([answer["logits"] for answer in answers], "float64")
    return softmax(logits / TEMPERATURE, -1)


def asked(folder, **inputs):
    """Returns the outputs of a SavedModel, arrays by name."""
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    outputs = signature(**{name: tf.constant(values) for name, values in inputs.items()})
    return {name: value.numpy() for name, value in outputs.items()}


def as_a_client(outputs, rows):
    """Returns answers of the outputs of a SavedModel."""
    return each_text(of_outputs(outputs), outputs, rows)


def check(answers, probabilities, threshold):
    """Checks probabilities and scores, and that the label is `None` below the threshold."""
    found = np.array([list(answer["scores"].values()) for answer in answers])
    np.testing.assert_allclose(found, probabilities, rtol=1e-4, atol=1e-6)
    labels = []
    for row in probabilities:
        labels.append(LABELS[row.argmax()] if row.max() >= threshold else None)
    assert [answer["label"] for answer in answers] == labels
    assert 0 < labels.count(None) < len(labels)
    assert [answer["score"] for answer in answers] == found.max(-1).tolist()


ROWS = [{"text": text} for text in TEXTS]


def test_predict(bert, probabilities):
    answers = bert.predict(TEXTS, logits=True)
    check(answers, probabilities, bert.confidence["threshold"])


def test_predict_without_confidence(bert):
    """The probabilities are those of the logits, and each text has a label."""
    answers = bert.predict(TEXTS, logits=True)
    raw = bert.predict(TEXTS, logits=True, confidence=None)
    logits = [answer["logits"] for answer in raw]
    assert logits == [answer["logits"] for answer in answers]
    assert None not in [answer["label"] for answer in raw]
    scores = [max(answer["scores"].values()) for answer in raw]
    np.testing.assert_allclose(scores, softmax(logits, -1).max(-1), rtol=1e-5)


def test_a_saved_model(bert, probabilities, outputs):
    """Its label is empty below the threshold; a client makes `None` of it."""
    threshold = bert.confidence["threshold"]
    is_answered = probabilities.max(-1) >= threshold
    assert outputs["answered"].tolist() == is_answered.tolist()
    assert (outputs["label"] != b"").tolist() == is_answered.tolist()
    check(as_a_client(outputs, ROWS), probabilities, threshold)


def test_files_of_predictions(bert, outputs):
    """No label is `null` in JSON, and an empty cell of a table."""
    answers = bert.predict(TEXTS, logits=True)
    served = as_a_client(outputs, ROWS)
    for row, answer, expected in zip(ROWS, served, answers, strict=True):
        assert json.loads(prediction_files.json_line(row, answer))["label"] == expected["label"]
    header, *cells = (line.split("\t")[0] for line in prediction_files.table(answers))
    assert header == "label"
    assert cells == [answer["label"] or '""' for answer in answers]


def test_copies_and_folders_keep_it(bert, tmp_path):
    bert.save(tmp_path)
    assert keras_bert.load(tmp_path).confidence == bert.confidence
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["keras_bert"]["confidence"] == bert.confidence


@pytest.mark.slow
def test_int8(bert, tmp_path):
    bert.export(tmp_path / "1", precision="int8", logits=True)
    outputs = asked(tmp_path / "1", text=TEXTS)
    probabilities = softmax(outputs["logits"].astype("float64") / TEMPERATURE, -1)
    answers = as_a_client(outputs, ROWS)
    scores = [list(answer["scores"].values()) for answer in answers]
    np.testing.assert_allclose(scores, probabilities, rtol=1e-4)
    is_answered = probabilities.max(-1) >= bert.confidence["threshold"]
    assert [answer["label"] is not None for answer in answers] == is_answered.tolist()


def test_evaluate_tells_of_the_answers(bert, probabilities):
    golds = np.arange(12) % 3
    scores = bert.evaluate(TEXTS, [LABELS[gold] for gold in golds], verbose=False)
    is_answered = probabilities.max(-1) >= bert.confidence["threshold"]
    is_right = probabilities.argmax(-1) == golds
    assert scores["answered"] == pytest.approx(is_answered.mean())
    assert scores["precision"] == pytest.approx(is_right[is_answered].mean())
    assert scores["accuracy"] == pytest.approx(is_right.mean())


def test_evaluate_does_not_calibrate(bert):
    with pytest.raises(ValueError, match="`calibrate` is an option of `fit`"):
        bert.evaluate(TEXTS, LABELS * 4, calibrate=True)


def loss_of(logits, golds, temperature):
    """The cross-entropy of probabilities at a temperature."""
    golds = np.array(golds, int)
    return -log_softmax(logits / temperature, -1)[np.arange(len(golds)), golds].mean()


def check_lowest_loss(logits, golds, temperature):
    """Checks that no other temperature of a grid has a lower loss."""
    grid = np.exp(np.linspace(np.log(0.05), np.log(20), 2000))
    lowest = min(loss_of(logits, golds, value) for value in grid)
    assert loss_of(logits, golds, temperature) <= lowest + 1e-6


@pytest.mark.slow
def test_fit_stores_what_it_chooses_on_validation(checkpoint, tmp_path, eager):
    """The SavedModel of the run has it, too, and so has the report."""
    texts = TEXTS * 3
    labels = ["x", "y", "y"] * 12
    trained = keras_bert.load(checkpoint).fit(
        texts,
        labels,
        validation=(texts, labels),
        answer_at_precision=0.6,
        output_dir=tmp_path / "run",
        **OPTIONS,
    )
    answers = trained.predict(texts, logits=True, confidence=None)
    logits = np.array([answer["logits"] for answer in answers])
    golds = np.array([0, 1, 1] * 12)
    temperature = trained.confidence["temperature"]
    check_lowest_loss(logits, golds, temperature)
    probabilities = softmax(logits / temperature, -1)
    is_answered = probabilities.max(-1) >= trained.confidence["threshold"]
    assert trained.confidence["answers"] == pytest.approx(is_answered.mean())
    assert trained.confidence["precision"] == 0.6

    outputs = asked(tmp_path / "run" / "saved_model" / "1", text=texts)
    np.testing.assert_allclose(outputs["probabilities"], probabilities, rtol=1e-4, atol=1e-6)
    report = (tmp_path / "run" / "report.html").read_text()
    assert "precision of the answers" in report[report.index('id="confidence"') :]


@pytest.mark.slow
def test_folds_fit_it_to_the_predictions_of_all_folds(checkpoint, tmp_path, eager):
    labels = ["x", "y", "y"] * 4
    bert = keras_bert.load(checkpoint)
    trained = bert.fit(TEXTS, labels, folds=3, calibrate=True, output_dir=tmp_path / "run", **OPTIONS)
    rows = (tmp_path / "run" / "out_of_fold.tsv").read_text().splitlines()
    assert len(rows) == 13
    # The logits are those of one fold after another.
    parts = []
    for path in sorted((tmp_path / "run").glob("runs/*/*.npz")):
        parts.append(np.load(path)["classification"])
    folds = np.array([int(row.split("\t")[1]) for row in rows[1:]])
    golds = np.array([0, 1, 1] * 4)[np.argsort(folds, kind="stable")]
    check_lowest_loss(np.concatenate(parts), golds, trained.confidence["temperature"])


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        (["x", "y"] * 6, {"calibrate": True}, "`calibrate` needs rows that the model is not trained on"),
        (["x", "y"] * 6, {"answer_at_precision": 0.95, "folds": 3}, "needs at least 97 labeled rows.* 12 rows"),
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


def test_a_wrong_confidence_is_refused_when_it_is_set(bert):
    with pytest.raises(ValueError, match="`confidence` must be a dict of temperature, .* Received: .*'temp'"):
        setattr(bert, "confidence", {"temp": 1})  # noqa: B010


# ---- Other heads


def logits_of(bert, text):
    """Returns the logits of the model for a text or a dict with choices, an array with a row for each token."""
    preprocessor = bert.preprocessor(16, padding="longest")
    if isinstance(text, dict):
        inputs = preprocessor.with_choices([text["text"]], [text["choices"]])
    else:
        inputs = preprocessor([text])
    return bert.model()(inputs)["logits"].numpy()[0].astype("float64")


@pytest.fixture
def with_confidence(build, pieces, tmp_path):
    """Saves the model of a head with a temperature of 0.5, and loads it."""

    def make(head, **settings):
        folder = tmp_path / head
        keras_bert.save(build(head), folder, pieces, sequence_length=16, confidence={"temperature": 0.5}, **settings)
        return keras_bert.load(folder)

    return make


def test_several_labels(with_confidence, tmp_path, eager):
    """In Python and in a SavedModel; the labels are those of the answered probabilities."""
    bert = with_confidence("multi_label", labels=LABELS, thresholds=0.4)
    texts = ["a b", "c d"]
    bert.export(tmp_path / "1")
    outputs = asked(tmp_path / "1", text=texts)
    served = as_a_client(outputs, [{"text": text} for text in texts])
    for row, text in enumerate(texts):
        probabilities = expit(logits_of(bert, text) / 0.5)
        np.testing.assert_allclose(outputs["probabilities"][row], probabilities, rtol=1e-4, atol=1e-6)
        answer = bert.predict(text)
        assert served[row].keys() == answer.keys()
        np.testing.assert_allclose(list(answer["scores"].values()), probabilities, rtol=1e-4, atol=1e-6)
        assert answer["labels"] == [LABELS[place] for place in np.flatnonzero(probabilities >= 0.4)]


@pytest.mark.slow
def test_tags(with_confidence, tmp_path, eager):
    """Each letter is a word, so that an entity is one word."""
    bert = with_confidence("token_classification", labels=[*"abcdefgh", "O"])
    texts = ["a b", "c d"]
    bert.export(tmp_path / "1")
    outputs = asked(tmp_path / "1", text=texts)
    served = as_a_client(outputs, [{"text": text} for text in texts])
    for row, text in enumerate(texts):
        probabilities = softmax(logits_of(bert, text) / 0.5, -1)[1:-1].max(-1)
        np.testing.assert_allclose(outputs["scores"][row], probabilities, rtol=1e-4, atol=1e-6)
        answer = bert.predict(text)
        assert served[row].keys() == answer.keys()
        for entity in answer["entities"]:
            assert min(abs(probabilities - entity["score"])) < 1e-4


def test_several_labels_have_no_threshold_of_answers(with_confidence, monkeypatch, tmp_path):
    bert = with_confidence("multi_label", labels=LABELS, thresholds=0.4)
    monkeypatch.setattr(bert, "confidence", {"temperature": 0.5, "threshold": 0.9})
    with pytest.raises(ValueError, match="`confidence` must have temperature alone .* Received: threshold=0.9"):
        bert.predict("a b")
    with pytest.raises(ValueError, match="`confidence`"):
        bert.save(tmp_path / "wrong")


def test_a_confidence_that_is_set_is_saved(with_confidence, monkeypatch, tmp_path):
    bert = with_confidence("multi_label", labels=LABELS)
    monkeypatch.setattr(bert, "confidence", {"temperature": 0.25})
    bert.save(tmp_path / "again")
    assert keras_bert.load(tmp_path / "again").confidence == {"temperature": 0.25}


QUESTIONS = [{"text": "a b", "choices": ["c", "d"]}, {"text": "c", "choices": ["e", "a"]}]


def test_choices_below_the_threshold(with_confidence, monkeypatch, tmp_path, eager):
    """One of two questions has an answer."""
    bert = with_confidence("multiple_choice")
    probabilities = np.array([softmax(logits_of(bert, question) / 0.5) for question in QUESTIONS])
    sure = probabilities.max(-1)
    monkeypatch.setattr(bert, "confidence", {"temperature": 0.5, "threshold": float(np.mean(sure))})
    expected = [None, None]
    surest = np.argmax(sure)
    expected[surest] = int(probabilities[surest].argmax())
    assert [answer["choice"] for answer in bert.predict(QUESTIONS)] == expected

    bert.export(tmp_path / "1")
    texts = [question["text"] for question in QUESTIONS]
    choices = [question["choices"] for question in QUESTIONS]
    outputs = asked(tmp_path / "1", text=texts, choices=choices)
    assert outputs["answered"].tolist() == [choice is not None for choice in expected]
    served = as_a_client(outputs, QUESTIONS)
    assert [answer["choice"] for answer in served] == expected
    np.testing.assert_allclose([answer["scores"] for answer in served], probabilities, rtol=1e-4, atol=1e-6)


WORDS = [["ab", "c"], ["d"], ["e", "f", "ab"]] * 2
TAGS = [["O", "B-X"], ["B-X"], ["B-Y", "O", "O"]] * 2
CHOICES = [{"text": text, "choices": ["a", "b c"]} for text in TEXTS[:6]]


def label_decisions(bert, texts, targets):
    """Returns the logits of "no" and "yes" for each label of each text, and which of them is right."""
    logits = np.concatenate([logits_of(bert, text) for text in texts])
    golds = []
    for labels in targets:
        golds += [label in labels for label in bert.labels]
    return np.stack([0 * logits, logits], -1), golds


def choice_decisions(bert, texts, targets):
    return np.array([logits_of(bert, text) for text in texts]), targets


def tag_decisions(bert, texts, targets):
    """Returns the logits of the first token of each word, and the numbers of the right tags. Letters are pieces."""
    logits = []
    golds = []
    for words, tags in zip(texts, targets, strict=True):
        found = logits_of(bert, " ".join(words))
        first = 1
        for word, tag in zip(words, tags, strict=True):
            logits.append(found[first])
            golds.append(bert.labels.index(tag))
            first += len(word)
    return np.array(logits), golds


def check_calibrated(trained, calls, run, decisions, unit, data):
    """Checks that a model that was fitted to data has the best temperature, and that the report tells of it."""
    texts, targets = data
    assert len(calls) == 3  # To all rows, and to each half of them for the report.
    logits, golds = decisions(trained, texts, targets)

    def loss(temperature):
        return loss_of(logits, golds, temperature)

    best = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-5})
    assert loss(trained.confidence["temperature"]) == pytest.approx(best.fun, abs=1e-6)
    report = (run / "report.html").read_text()
    assert "calibration error after" in report[report.index('id="confidence"') :]
    assert f"negative log likelihood of the {unit} on dev" in report
    assert "the temperature of one half of them" in report
    assert json.loads((run / "results.json").read_text())["confidence"] == trained.confidence


@pytest.fixture
def calls(monkeypatch):
    """A list with an element for each time that a temperature is fitted."""
    calls = []
    fitted = confidence.fitted_temperature

    def counted(*arguments):
        calls.append(None)
        return fitted(*arguments)

    monkeypatch.setattr(confidence, "fitted_temperature", counted)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "decisions", "unit"),
    [((WORDS, TAGS), tag_decisions, "words"), ((CHOICES, [0, 1, 1] * 2), choice_decisions, "texts")],
    ids=["tagging", "multiple_choice"],
)
def test_fit_calibrates_tags_and_choices(checkpoint, tmp_path, eager, calls, data, decisions, unit):
    """The temperature is that of SciPy on the logits of the trained model; it is fitted once."""
    bert = keras_bert.load(checkpoint)
    trained = bert.fit(*data, validation=data, calibrate=True, output_dir=tmp_path / "run", **OPTIONS)
    check_calibrated(trained, calls, tmp_path / "run", decisions, unit, data)
    scores = trained.evaluate(*data, verbose=False)
    assert 0 <= scores["calibration_error"] < 1


@pytest.mark.slow
def test_fit_calibrates_labels(checkpoint, tmp_path, eager, calls):
    """The threshold is one of the answered probabilities, also where it was chosen."""
    texts = TEXTS[:6]
    targets = [["x"], ["x", "y"], ["y"]] * 2
    data = (texts, targets)
    run = tmp_path / "run"
    bert = keras_bert.load(checkpoint)
    trained = bert.fit(*data, validation=data, calibrate=True, threshold="shared", output_dir=run, **OPTIONS)
    check_calibrated(trained, calls, run, label_decisions, "labels of texts", data)
    found = []
    golds = []
    for answer, labels in zip(trained.predict(texts), targets, strict=True):
        found.append([answer["scores"][label] >= trained.thresholds for label in trained.labels])
        golds.append([label in labels for label in trained.labels])
    expected = f1_score(golds, found, average="micro")
    scores = trained.evaluate(*data, verbose=False)
    assert 0 <= scores["calibration_error"] < 1
    assert scores["micro_f1"] == pytest.approx(expected)
    results = json.loads((run / "results.json").read_text())
    assert results["scores"]["multi_label"]["micro_f1"] == pytest.approx(expected)

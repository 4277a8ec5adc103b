"""Long texts of which a model reads a part: from `fit` to the SavedModel."""

import copy
import json

import numpy as np
import pytest

import keras_bert
from keras_bert.text.token_counts import TOKENS

tf = pytest.importorskip("tensorflow")

LENGTH = 12


@pytest.fixture(scope="module")
def rows():
    """Texts whose last word is their label."""
    rng = np.random.default_rng(0)
    words = np.array(["the", "cat", "sat", "on", "a", "mat"])
    labels = [["good", "bad"][number % 2] for number in range(128)]
    texts = [f"{' '.join(rng.choice(words, rng.integers(2, 40)))} {label}" for label in labels]
    return texts, labels


@pytest.fixture(scope="module")
def model(rows):
    """A model that reads the last tokens."""
    bert = keras_bert.load("bert_tiny_books", num_layers=1)
    options = {"epochs": 4, "learning_rate": 1e-3, "verbose": False}
    return bert.fit(*rows, sequence_length=LENGTH, long_texts="tail", **options)


def test_the_tail_is_read_everywhere(model, rows, tmp_path):
    texts, labels = rows
    answers = model.predict(texts)
    right = np.mean([answer["label"] == label for answer, label in zip(answers, labels, strict=True)])
    assert right > 0.9  # The first tokens do not tell the label.
    assert model.evaluate(texts, labels, verbose=False)["accuracy"] == pytest.approx(right)
    assert model.evaluate(texts, labels, long_texts="head", verbose=False)["accuracy"] < 0.8
    tokens = model.preprocessor(512, padding="longest").counted(texts)[1][TOKENS]
    assert [answer["tokens"] for answer in answers] == tokens.numpy().tolist()
    assert {answer["tokens_read"] for answer in answers if answer["tokens"] > LENGTH} == {LENGTH}
    # A model that reads all tokens of the tail alone.
    tails = [" ".join(text.split()[-LENGTH + 2 :]) for text in texts]
    np.testing.assert_array_equal(model.encode(texts[:20], batch_size=1), model.encode(tails[:20], batch_size=1))

    model.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["keras_bert"]["long_texts"] == "tail"
    loaded = keras_bert.load(tmp_path / "model")
    assert loaded.long_texts == "tail"
    assert loaded.predict(texts) == answers  # In the same batches: some kernels round by the place in a batch.
    loaded.export(tmp_path / "exported" / "1")
    signature = tf.saved_model.load(tmp_path / "exported" / "1").signatures["serving_default"]
    served = signature(tf.constant(texts))
    assert [label.decode() for label in served["label"].numpy()] == [answer["label"] for answer in answers]


def test_long_texts_are_refused(model, rows, tmp_path):
    texts, labels = rows
    message = r"texts\[\d+\] has \d+ tokens, more than the 12 that the model reads, and `long_texts` is 'refuse'"
    for call in (model.predict, model.encode):
        with pytest.raises(ValueError, match=message):
            call(texts, long_texts="refuse", batch_size=1)
    assert len(model.predict(["a cat", "bad"], long_texts="refuse")) == 2
    with pytest.raises(ValueError, match=message):
        model.fit(texts, labels, long_texts="refuse", sequence_length=LENGTH, verbose=False)
    with pytest.raises(ValueError, match="`sequence_length` must be at least .* for long_texts='refuse'"):
        model.export(tmp_path / "refusing", long_texts="refuse")


def test_files_that_say_something_else(model, tmp_path):
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["keras_bert"]["long_texts"] = "middle"
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="config.json: `long_texts` must be one of head, tail, head_tail"):
        keras_bert.load(tmp_path / "model")
    tagger = keras_bert.build_token_classifier(model.encoder, 3)
    with pytest.raises(ValueError, match="with head='token_classification', they read all of it"):
        keras_bert.save(tagger, tmp_path / "tagger", model.vocabulary, long_texts="tail")


@pytest.fixture(scope="module")
def documents(rows):
    """Texts with their labels, of which the first ones say the label at the start."""
    return [f"{label} {text}" if number % 2 else text for number, (text, label) in enumerate(zip(*rows, strict=True))]


@pytest.fixture(scope="module")
def reader(documents, rows):
    """A model that reads whole documents, in windows."""
    bert = keras_bert.load("bert_tiny_books", num_layers=1)
    options = {"sequence_length": LENGTH, "long_texts": "windows", "overlap": 2, "verbose": False}
    return bert.fit(documents, rows[1], epochs=1, learning_rate=1e-3, batch_size=16, **options)


def by_hand(model, texts):
    """Returns the joined logits of the windows of each text, their number, and the strongest one, by a plain loop."""
    preprocessor = model.preprocessor(LENGTH)
    start, end = (preprocessor.vocabulary.id(token) for token in ("[CLS]", "[SEP]"))
    room = LENGTH - 2
    joined = []
    counts = []
    strongest = []
    for ids, begins, ends in zip(*(part.to_list() for part in preprocessor.tokenizer.with_offsets(texts)), strict=True):
        starts = [0]
        while starts[-1] + room < len(ids):
            starts.append(starts[-1] + room - 2)
        logits = []
        for first in starts:
            window = np.array([[start, *ids[first : first + room], end]])
            inputs = {"token_ids": window, "segment_ids": 0 * window, "padding_mask": 0 * window + 1}
            logits.append(model.model()(inputs, training=False)["logits"].numpy()[0])
        joined.append(np.log(np.mean(np.exp(np.array(logits, "float64")), 0)))
        counts.append(len(starts))
        probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        first = starts[probabilities[:, joined[-1].argmax()].argmax()]
        strongest.append({"start": begins[first], "end": ends[min(first + room, len(ids)) - 1]})  # All is ASCII.
    return np.array(joined), counts, strongest


@pytest.mark.parametrize("projection", [None, 16])
def test_vectors_of_windows_have_length_1_where_those_of_texts_have(reader, documents, tmp_path, projection):
    model = keras_bert.build_embedder(reader.encoder, normalize=True, projection=projection)
    options = {"sequence_length": LENGTH, "long_texts": "windows"}
    keras_bert.save(model, tmp_path / "model", reader.vocabulary, **options)
    embedder = keras_bert.load(tmp_path / "model")
    vectors = embedder.encode(documents[:8])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    windows = embedder.preprocessor(LENGTH).windows(documents[:8])
    mean = windows.mean(embedder.model()(windows.packed(), training=False)["embedding"]).numpy()
    assert np.linalg.norm(mean, axis=1).min() < 0.99
    np.testing.assert_allclose(vectors, mean / np.linalg.norm(mean, axis=1, keepdims=True), atol=1e-5)


@pytest.mark.slow
def test_intermediate_texts_are_read_in_the_same_way_where_they_can_be(reader, documents, rows):
    texts = documents[:16]
    labels = rows[1][:16]
    words = [text.split()[:3] for text in texts]
    tags = [["O", "B-X", "O"][: len(row)] for row in words]
    options = {"sequence_length": LENGTH, "epochs": 1, "verbose": False}
    bert = keras_bert.load("bert_tiny_books", num_layers=1)
    before = [(texts, labels), (words, tags)]
    assert bert.fit(texts, labels, intermediate=before, long_texts="windows", **options).long_texts == "windows"
    # A model of documents is where heads of texts start.
    assert reader.fit(texts, labels, intermediate=before[:1], long_texts="tail", **options).long_texts == "tail"


def test_options_of_windows_go_with_them(reader, documents, tmp_path):
    hand_set = copy.copy(reader)
    hand_set.long_texts = "tail"
    assert (hand_set.overlap, hand_set.predict(documents[0])) == (None, reader.predict(documents[0], long_texts="tail"))
    keras_bert.save(reader.model(), tmp_path / "model", reader.preprocessor(LENGTH), long_texts="tail")
    assert keras_bert.load(tmp_path / "model").overlap is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"overlap": -1}, "`overlap` must be an integer of at least 0. Received: overlap=-1"),
        ({"max_windows": 0}, "`max_windows` must be a positive integer. Received: max_windows=0"),
        ({"overlap": LENGTH}, "`overlap` must be less than the 10 tokens of a window. .*=12, sequence_length=12"),
        ({"long_texts": "tail", "overlap": 1}, "`overlap` is an option of long_texts='windows'. .*='tail', overlap=1"),
    ],
)
def test_stored_options_that_cannot_be(reader, tmp_path, wrong, message):
    options = {"long_texts": "windows", "sequence_length": LENGTH, **wrong}
    with pytest.raises(ValueError, match=message):
        keras_bert.save(reader.model(), tmp_path / "model", reader.vocabulary, **options)
    reader.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["keras_bert"] |= wrong
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=f"config.json: {message}"):
        keras_bert.load(tmp_path / "model")


def test_windows_are_read_everywhere(reader, documents, rows, tmp_path):
    documents = documents[:40]
    labels = rows[1][:40]
    logits, counts, strongest = by_hand(reader, documents)
    answers = reader.predict(documents, logits=True)
    assert [answer["strongest"] for answer in answers] == strongest
    np.testing.assert_allclose([answer["logits"] for answer in answers], logits, atol=1e-5)
    assert [answer["windows"] for answer in answers] == counts
    assert all(answer["tokens_read"] == answer["tokens"] for answer in answers)
    scores = reader.evaluate(documents, labels, verbose=False)
    guesses = np.array(reader.labels)[logits.argmax(1)]
    assert scores["accuracy"] == pytest.approx(np.mean(guesses == np.array(labels)))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    right = probabilities[np.arange(len(labels)), [reader.labels.index(label) for label in labels]]
    assert scores["loss"] == pytest.approx(-np.log(right).mean(), abs=1e-5)  # Each document counts once.

    reader.save(tmp_path / "model")
    loaded = keras_bert.load(tmp_path / "model")
    assert (loaded.long_texts, loaded.overlap, loaded.max_windows) == ("windows", 2, None)
    assert loaded.predict(documents, logits=True) == answers
    first = loaded.predict(documents, max_windows=1)
    assert {answer["windows"] for answer in first} == {1}
    loaded.export(tmp_path / "exported" / "1")
    signature = tf.saved_model.load(tmp_path / "exported" / "1").signatures["serving_default"]
    served = signature(tf.constant(documents))
    np.testing.assert_allclose(served["probabilities"].numpy(), probabilities, atol=1e-5)
    assert served["windows"].numpy().tolist() == counts
    assert served["strongest_end"].numpy().tolist() == [window["end"] for window in strongest]


@pytest.mark.slow
def test_other_tasks_start_from_a_model_that_reads_windows(reader, documents):
    options = {"sequence_length": 8, "epochs": 1, "verbose": False}
    questions = [{"text": text, "choices": ["a cat", "a mat"]} for text in documents[:8]]
    chooser = reader.fit(questions, [0] * 8, task="multiple_choice", **options)
    answer = chooser.predict(questions[0])
    assert (chooser.long_texts, chooser.overlap, answer["tokens_read"]) == ("windows", 2, answer["tokens"])
    words = [["a", "cat"]] * 8
    tagger = reader.fit(words, [["O", "B-ANIMAL"]] * 8, **{**options, "sequence_length": 4})  # Less than the overlap.
    assert tagger.long_texts is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"overlap": LENGTH - 2}, "`overlap` must be less than the 10 tokens of a window. Received: overlap=10"),
        ({"long_texts": "tail", "overlap": 2}, "`overlap` is an option of long_texts='windows'"),
        ({"pack": True}, "`pack`: several windows are one text"),
    ],
)
def test_windows_that_cannot_be(documents, rows, options, message):
    bert = keras_bert.load("bert_tiny_books", num_layers=1)
    given = {"long_texts": "windows", "sequence_length": LENGTH, "verbose": False, **options}
    with pytest.raises(ValueError, match=message):
        bert.fit(documents, rows[1], **given)

"""Long texts of which a model reads a part: from `fit` to the SavedModel."""

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
    bert = keras_bert.load("bert_tiny_books")
    return bert.fit(*rows, epochs=4, sequence_length=LENGTH, long_texts="tail", verbose=False)


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
    np.testing.assert_array_equal(model.encode(texts[:20]), model.encode(tails[:20]))

    model.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["keras_bert"]["long_texts"] == "tail"
    loaded = keras_bert.load(tmp_path / "model")
    assert loaded.long_texts == "tail"
    assert loaded.predict(texts[:20]) == answers[:20]
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

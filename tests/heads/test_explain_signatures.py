"""The signature `explain` of SavedModels answers as `LoadedBert.explain`."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

import keras_bert  # noqa: E402
from keras_bert.heads.answers import character_offsets  # noqa: E402
from tests.conftest import TRANSFORMER  # noqa: E402

TEXTS = ["abc é, d", "", "b a"]


@pytest.fixture
def signature(tmp_path):
    """Exports a loaded model and returns its signature."""
    kept = []  # A signature does not keep its model alive.

    def load(bert, **options):
        folder = tmp_path / "1"
        bert.export(folder, explain=True, **options)
        model = tf.saved_model.load(str(folder))
        kept.append(model)
        return model.signatures["explain"]

    return load


@pytest.fixture
def loaded(build, pieces, tmp_path):
    def load(head, **settings):
        keras_bert.save(build(head), tmp_path / "model", pieces, **settings)
        return keras_bert.load(tmp_path / "model")

    return load


def assert_same(outputs, explanations, inputs):
    """Byte offsets are those of the characters; all else is the same."""
    outputs = {name: value.numpy() for name, value in outputs.items()}
    for row, explanation in enumerate(explanations):
        of_row = {name: values[row] for name, values in outputs.items()}
        texts = {name: strings[row] for name, strings in inputs.items()}
        assert_same_words(of_row, explanation["words"], texts)
        for name in ("value", "baseline", "difference", "delta"):
            np.testing.assert_allclose(of_row[name], explanation[name], atol=5e-6)
        assert of_row["tokens"] == explanation["tokens"]
        assert of_row["tokens_read"] == explanation["tokens_read"]


def assert_same_words(outputs, words, texts):
    """Compares the words of a row; behind them there is only padding."""
    count = len(words)
    assert outputs["word_count"] == count
    assert not outputs["scores"][count:].any()
    for index, word in enumerate(words):
        assert outputs["words"][index].decode() == word["text"]
        np.testing.assert_allclose(outputs["scores"][index], word["score"], atol=2e-6)
        assert outputs["inputs"][index].decode() == word["input"]
        offsets = character_offsets(texts[word["input"]])
        assert offsets[outputs["starts"][index]] == word["start"]
        assert offsets[outputs["ends"][index]] == word["end"]


def test_a_classifier(loaded, signature):
    bert = loaded("classification", labels=["x", "y", "z"])
    explain = signature(bert, sequence_length=6)
    outputs = explain(text=tf.constant(TEXTS))
    expected = bert.explain(TEXTS, sequence_length=6)
    assert_same(outputs, expected, {"text": TEXTS})
    targets = [name.decode() for name in outputs["target"].numpy()]
    assert targets == [explanation["target"] for explanation in expected]


@pytest.mark.slow
def test_windows_of_pairs(loaded, signature):
    bert = loaded("regression", pair=True)
    options = {"sequence_length": 8, "long_texts": "windows"}
    pairs = ["a b c d e f g h", "c", "é"]
    explain = signature(bert, **options)
    outputs = explain(text=tf.constant(TEXTS), pair=tf.constant(pairs))
    expected = bert.explain(list(zip(TEXTS, pairs, strict=True)), **options)
    assert_same(outputs, expected, {"text": TEXTS, "pair": pairs})
    windows = outputs["windows"].numpy().tolist()
    assert windows == [explanation["windows"] for explanation in expected]
    assert "target" not in outputs


@pytest.mark.slow
def test_tags(loaded, signature):
    bert = loaded("token_classification", labels=["O", *"abcdefgh"])
    explain = signature(bert)
    outputs = explain(text=tf.constant(TEXTS))
    expected = bert.explain(TEXTS)
    assert_same(outputs, expected, {"text": TEXTS})
    words = outputs["word"].numpy().tolist()
    assert words == [expected[0]["word"], -1, expected[2]["word"]]  # The second text has no word.
    targets = [name.decode() for name in outputs["target"].numpy()]
    assert targets == [explanation["target"] or "" for explanation in expected]


@pytest.mark.slow
def test_choices(loaded, signature):
    bert = loaded("multiple_choice")
    texts = ["a b", "é"]
    choices = [["b", "c d"], ["é", "a"]]
    explain = signature(bert)
    outputs = explain(text=tf.constant(texts), choices=tf.constant(choices))
    rows = [{"text": texts[0], "choices": choices[0]}, {"text": texts[1], "choices": choices[1]}]
    expected = bert.explain(rows)
    targets = [explanation["target"] for explanation in expected]
    assert outputs["target"].numpy().tolist() == targets
    chosen = [choices[0][targets[0]], choices[1][targets[1]]]
    assert_same(outputs, expected, {"text": texts, "choice": chosen})


def test_models_without_logits(build, pieces, reversible, tmp_path):
    layer = keras_bert.TextPreprocessor(pieces, 20)
    with pytest.raises(ValueError, match="`explain` needs logits"):
        keras_bert.export(build("question_answering"), layer, tmp_path / "1", explain=True)
    translator = keras_bert.translation.build_transformer(TRANSFORMER)
    with pytest.raises(ValueError, match="`explain`"):
        keras_bert.export(translator, reversible, tmp_path / "1", explain=True)
    assert not (tmp_path / "1").exists()

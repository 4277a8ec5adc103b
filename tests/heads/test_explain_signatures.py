"""The signature `explain` of SavedModels answers as `LoadedBert.explain`."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.heads.answers import character_offsets  # noqa: E402
from tests.conftest import TRANSFORMER  # noqa: E402

TEXTS = ["abc é, d", "", "b a"]


@pytest.fixture
def signature(tmp_path):
    """Exports a loaded model and returns its signature."""
    kept = []

    def load(bert, **options):
        bert.export(tmp_path / "1", explain=True, **options)
        kept.append(tf.saved_model.load(str(tmp_path / "1")))
        return kept[0].signatures["explain"]

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
        words = explanation["words"]
        count = outputs["word_count"][row]
        assert count == len(words)
        assert [word.decode() for word in outputs["words"][row][:count]] == [word["text"] for word in words]
        np.testing.assert_allclose(outputs["scores"][row][:count], [word["score"] for word in words], atol=2e-6)
        assert not outputs["scores"][row][count:].any()
        for index, word in enumerate(words):
            assert outputs["inputs"][row][index].decode() == word["input"]
            offsets = character_offsets(inputs[word["input"]][row])
            assert offsets[outputs["starts"][row][index]] == word["start"]
            assert offsets[outputs["ends"][row][index]] == word["end"]
        for name in ("value", "baseline", "difference", "delta"):
            np.testing.assert_allclose(outputs[name][row], explanation[name], atol=5e-6)
        assert outputs["tokens"][row] == explanation["tokens"]
        assert outputs["tokens_read"][row] == explanation["tokens_read"]


def test_a_classifier(loaded, signature):
    bert = loaded("classification", labels=["x", "y", "z"])
    outputs = signature(bert, sequence_length=6)(text=tf.constant(TEXTS))
    found = bert.explain(TEXTS, sequence_length=6)
    assert_same(outputs, found, {"text": TEXTS})
    assert [name.decode() for name in outputs["target"].numpy()] == [each["target"] for each in found]


@pytest.mark.slow
def test_windows_of_pairs(loaded, signature):
    bert = loaded("regression", pair=True)
    options = {"sequence_length": 8, "long_texts": "windows"}
    pairs = ["a b c d e f g h", "c", "é"]
    outputs = signature(bert, **options)(text=tf.constant(TEXTS), pair=tf.constant(pairs))
    found = bert.explain(list(zip(TEXTS, pairs, strict=True)), **options)
    assert_same(outputs, found, {"text": TEXTS, "pair": pairs})
    assert outputs["windows"].numpy().tolist() == [each["windows"] for each in found]
    assert "target" not in outputs


@pytest.mark.slow
def test_tags(loaded, signature):
    bert = loaded("token_classification", labels=["O", *"abcdefgh"])
    outputs = signature(bert)(text=tf.constant(TEXTS))
    found = bert.explain(TEXTS)
    assert_same(outputs, found, {"text": TEXTS})
    assert outputs["word"].numpy().tolist() == [found[0]["word"], -1, found[2]["word"]]
    assert [name.decode() for name in outputs["target"].numpy()] == [each["target"] or "" for each in found]


@pytest.mark.slow
def test_choices(loaded, signature):
    bert = loaded("multiple_choice")
    choices = [["b", "c d"], ["é", "a"]]
    outputs = signature(bert)(text=tf.constant(["a b", "é"]), choices=tf.constant(choices))
    found = bert.explain([{"text": "a b", "choices": choices[0]}, {"text": "é", "choices": choices[1]}])
    chosen = [row[each["target"]] for row, each in zip(choices, found, strict=True)]
    assert_same(outputs, found, {"text": ["a b", "é"], "choice": chosen})
    assert outputs["target"].numpy().tolist() == [each["target"] for each in found]


def test_models_without_logits(build, pieces, reversible, tmp_path):
    layer = keras_bert.TextPreprocessor(pieces, 20)
    with pytest.raises(ValueError, match="`explain` needs logits"):
        keras_bert.export(build("question_answering"), layer, tmp_path / "1", explain=True)
    translator = keras_bert.translation.build_transformer(TRANSFORMER)
    with pytest.raises(ValueError, match="`explain` must be False for a model with head="):
        keras_bert.export(translator, reversible, tmp_path / "1", explain=True)
    assert not (tmp_path / "1").exists()

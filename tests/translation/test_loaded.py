"""A loaded encoder-decoder: what it says of itself, its translations, and folders that are none."""

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.translation.config import TransformerConfig
from keras_bert.translation.model import build_transformer


@pytest.fixture(scope="module")
def folder(reversible, tmp_path_factory):
    """A folder of a model with random weights and the vocabulary of `reversible`."""
    keras.utils.set_random_seed(1)
    vocabulary = reversible.vocabulary
    config = TransformerConfig(len(vocabulary), 16, 1, 2, 2, 32, dropout=0.0, max_position_embeddings=7)
    path = tmp_path_factory.mktemp("model")
    keras_bert.save(build_transformer(config), path, vocabulary)
    return path


@pytest.fixture(scope="module")
def bert(folder):
    return keras_bert.translation.load(folder)


def test_what_it_says_of_itself(bert, folder):
    assert repr(bert) == f"LoadedTransformer({str(folder)!r}, L=1 + 2 H=16)"
    assert bert.head == "translation"
    assert bert.model() is bert.model()
    assert bert.config.max_position_embeddings == 7
    assert len(bert.vocabulary) == bert.config.vocab_size


@pytest.mark.tensorflow
def test_translations(bert, eager):
    """One text, several, the best ones; a text is cut off at the positions of the model."""
    (one, empty, long) = bert.predict(["a b", "", "a " * 60], n_best=2)
    assert [len(each["translations"]) for each in (one, empty, long)] == [2, 2, 2]
    assert one["score"] == one["translations"][0]["score"] >= one["translations"][1]["score"]
    assert empty["translation"] == ""
    assert long["truncated"] is True
    assert "truncated" not in one
    assert (long["tokens"], long["tokens_read"]) == (121, 7)  # With the end.
    again = bert.predict("a b", beam_size=4)
    assert again["translation"] == one["translation"]
    np.testing.assert_allclose(again["score"], one["score"], atol=1e-5)
    assert bert.predict([]) == []


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("texts", "options", "argument"),
    [
        ({"question": "a", "context": "b"}, {}, "text"),
        ("a", {"n_best": 0}, "n_best=0"),
        ("a", {"beam_size": 2, "n_best": 3}, "n_best=3"),
        ("a", {"beam_size": 0}, "size=0"),
    ],
)
def test_wrong_arguments(bert, texts, options, argument):
    with pytest.raises(ValueError, match=argument):
        bert.predict(texts, **options)


@pytest.mark.tensorflow
def test_without_a_vocabulary_there_are_ids_alone(folder, tmp_path):
    keras_bert.save(keras_bert.translation.load(folder).model(), tmp_path, None)
    loaded = keras_bert.translation.load(tmp_path)
    assert loaded.vocabulary is None
    with pytest.raises(ValueError, match=f"{tmp_path} has no vocab.txt .* model\\(\\) on token ids"):
        loaded.predict("a")


def test_folders_that_are_no_model(tmp_path, folder):
    with pytest.raises(FileNotFoundError, match="config.json"):
        keras_bert.translation.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such checkpoint"):
        keras_bert.translation.load(tmp_path / "missing")
    with pytest.raises(ValueError, match="revision='main'"):
        keras_bert.translation.load(folder, revision="main")


def test_another_precision(folder):
    model = keras_bert.translation.load(folder, dtype="bfloat16").model()
    assert {str(weight.dtype) for weight in model.trainable_weights} == {"bfloat16"}

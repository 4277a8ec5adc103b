"""What `keras_bert.load` returns: its vectors and copies, and what it refuses.

Its answers are tested in tests/answering, its files in tests/checkpoints, `fit` and `evaluate` in tests/runs.
"""

import copy

import keras
import numpy as np
import pytest

import keras_bert

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


@pytest.fixture(scope="module")
def bert(checkpoint):
    """A model that answers questions."""
    return keras_bert.load(checkpoint)


@pytest.fixture(scope="module")
def encoder(checkpoint):
    """The same one without its head."""
    return keras_bert.load(checkpoint, head="encoder")


def cosine(first, second):
    return first @ second / np.sqrt((first @ first) * (second @ second))


def test_vectors_of_a_list_and_of_a_text(bert):
    """They are the mean over all tokens, for a checkpoint that does not say how to pool."""
    vectors = bert.encode(["a b", "c"])
    assert vectors.shape == (2, 32)
    assert vectors.dtype == np.float32

    outputs = bert.encoder(bert.preprocessor(4)(["a b"]), training=False)
    expected = np.mean(outputs["sequence_output"][0], 0)
    np.testing.assert_allclose(vectors[0], expected, atol=1e-5)
    np.testing.assert_allclose(bert.encode("a b"), expected, atol=1e-5)


def test_vectors_of_any_head(bert, encoder):
    np.testing.assert_allclose(bert.encode("a b"), encoder.encode("a b"), atol=1e-6)


def test_vectors_of_length_1(bert):
    """With the option, whatever the model does."""
    vector = bert.encode("a b")
    assert np.linalg.norm(vector) > 1.1
    np.testing.assert_allclose(bert.encode("a b", normalize=True), vector / np.linalg.norm(vector), atol=1e-6)


def test_no_texts_have_no_vectors(bert):
    assert bert.encode([]).shape == (0, 32)


def test_similarity_of_texts(bert):
    """Each text is compared with each other one; the cosine is the default."""
    first, second, third = bert.encode(["a", "b", "c d"])
    found = bert.similarity(["a", "b"], "c d")
    np.testing.assert_allclose(found, [[cosine(first, third)], [cosine(second, third)]], atol=1e-5)


def test_similarity_of_vectors(bert):
    """They stay as they are, and one vector is a row."""
    first = np.array([3.0, 4.0], "float32")
    others = np.array([[6.0, 8.0], [-4.0, 3.0], [-3.0, -4.0]], "float32")
    np.testing.assert_allclose(bert.similarity(first, others), [[1.0, 0.0, -1.0]], atol=1e-6)


def test_similarity_of_a_text_and_vectors_of_another_width(bert):
    with pytest.raises(ValueError, match="32 and 5"):
        bert.similarity("a", np.zeros((2, 5), "float32"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": "x", "prompt_name": "y"}, "`prompt`.*`prompt_name`, not both"),
        ({"prompt_name": "y"}, "`prompt_name` must be the name of a prompt: none"),
    ],
)
def test_prompts_that_a_model_does_not_have(bert, options, message):
    with pytest.raises(ValueError, match=message):
        bert.encode("a", **options)


def test_what_explain_has_no_logit_for(bert, encoder):
    """Spans and vectors have none of a class."""
    with pytest.raises(ValueError, match="`explain`.*head='question_answering'"):
        bert.explain({"question": "a", "context": "b"})
    with pytest.raises(ValueError, match="`explain`.*head='encoder'"):
        encoder.explain("a")
    with pytest.raises(ValueError, match="`method`.*'gradient'"):
        bert.explain("a", method="gradient")


@pytest.mark.parametrize("text", [("a", "b", "c"), 3, None, ("a", 3)])
def test_attention_is_of_one_text_or_pair(bert, text):
    with pytest.raises(ValueError, match="`text`"):
        bert.attention(text)


def test_attention_sums_to_1(bert):
    tokens, attention = bert.attention("a bc")
    assert tokens == ["[CLS]", "a", "b", "##c", "[SEP]"]
    assert attention.shape == (1, 4, 5, 5)
    np.testing.assert_allclose(attention.sum(-1), 1.0, atol=1e-5)


def test_a_copy_shares_the_model(bert):
    other = copy.copy(bert)
    assert other.encoder is bert.encoder
    assert other.model() is bert.model()


def test_a_copy_has_what_a_user_added(bert, monkeypatch):
    """What is added to the copy is its own."""
    monkeypatch.setattr(bert, "note", "mine", raising=False)
    other = copy.copy(bert)
    assert other.note == "mine"
    monkeypatch.setattr(other, "note", "another")
    assert bert.note == "mine"


def test_labels_of_a_copy_are_its_own(bert, monkeypatch):
    other = copy.copy(bert)
    monkeypatch.setattr(other, "labels", ["a", "b"])
    assert bert.labels is None


def test_a_model_that_was_not_trained_here_has_no_results(bert):
    assert bert.results is None


def test_the_model_of_a_run_keeps_its_results(bert):
    """Its name, which messages show, is that of the model it started from; files are not read again."""
    trained = copy.copy(bert)
    trained.keep_in_memory("my_model", {"scores": {"f1": 0.5}})
    assert trained.name == "my_model"
    assert repr(trained).startswith("LoadedBert('my_model', L=1 H=32 A=4, ")
    assert trained.results == {"scores": {"f1": 0.5}}
    assert copy.copy(trained).results == {"scores": {"f1": 0.5}}


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("predict", ["a"]),
        ("explain", ["a"]),
        ("encode", ["a"]),
        ("fit", [["a", "b"], ["x", "y"]]),
        ("check_labels", [["a", "b"], ["x", "y"]]),
        ("evaluate", [["a"], ["x"]]),
        ("export", ["folder"]),
    ],
)
def test_methods_that_need_tensorflow(bert, monkeypatch, method, arguments):
    """Other backends have no graphs of texts: the error names the variable to set."""
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(ValueError, match="needs the TensorFlow backend.*KERAS_BACKEND=jax"):
        getattr(copy.copy(bert), method)(*arguments)


@pytest.mark.parametrize(("dtype", "expected"), [("half", "float16"), ("fp32", "float32"), ("float12", "bfloat16")])
def test_names_of_dtypes_of_other_programs(checkpoint, dtype, expected):
    with pytest.raises(ValueError, match=f"`dtype`.*'{expected}'.*dtype='{dtype}'"):
        keras_bert.load(checkpoint, dtype=dtype)

"""Text-in models hold the preprocessor's and the model's numbers, wherever they run."""

import numpy as np
import pytest

import keras_bert

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

TEXTS = ["a b", "c!", "", "d e f g"]
PAIRS = ["x", "y z", "a", ""]


@pytest.fixture
def preprocessor(pieces):
    return keras_bert.TextPreprocessor(pieces, 10, padding="longest")


def softmax(logits):
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


@pytest.mark.parametrize("pair", [False, True])
def test_text_model(build, preprocessor, pair):
    model = build("classification")
    inputs = {"text": np.array(TEXTS, object), **({"pair": np.array(PAIRS, object)} if pair else {})}
    expected = model(preprocessor((TEXTS, PAIRS) if pair else TEXTS))["logits"]
    text_model = keras_bert.build_text_model(model, preprocessor, pair=pair)
    np.testing.assert_allclose(text_model.predict(inputs, verbose=0)["logits"], expected, atol=1e-5)


@pytest.mark.parametrize("pair", [False, True])
def test_export_of_a_classifier(build, preprocessor, tmp_path, pair):
    model, labels = build("classification"), ["no", "yes", "maybe"]
    keras_bert.export(model, preprocessor, tmp_path / "here" / "1", labels=labels, pair=pair)
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["1"]
    (tmp_path / "here").rename(tmp_path / "there")
    served = tf.saved_model.load(tmp_path / "there" / "1").signatures["serving_default"]
    answers = served(text=tf.constant(TEXTS), **({"pair": tf.constant(PAIRS)} if pair else {}))
    expected = softmax(model(preprocessor((TEXTS, PAIRS) if pair else TEXTS))["logits"].numpy())
    np.testing.assert_allclose(answers["probabilities"], expected, atol=1e-5)
    assert [label.decode() for label in answers["label"].numpy()] == [labels[i] for i in expected.argmax(-1)]


def test_export_of_regression_replaces_what_was_there(build, preprocessor, tmp_path):
    keras_bert.export(build("classification"), preprocessor, tmp_path / "1")
    model = build("regression")
    keras_bert.export(model, preprocessor, tmp_path / "1")
    answers = tf.saved_model.load(tmp_path / "1").signatures["serving_default"](text=tf.constant(TEXTS))
    assert list(answers) == ["score"]
    np.testing.assert_allclose(answers["score"], model(preprocessor(TEXTS))["logits"][:, 0], atol=1e-5)


def test_without_labels_there_is_no_label(build, preprocessor, tmp_path):
    keras_bert.export(build("classification"), preprocessor, tmp_path / "1")
    served = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    assert list(served.structured_outputs) == ["probabilities"]


@pytest.mark.parametrize(
    ("head", "labels", "message"),
    [
        ("classification", ["a", "b"], r"`labels` must be names of the 3 classes. Received: labels=\['a', 'b'\]"),
        ("regression", ["a"], "`labels` must be names of the 1 classes"),
        ("encoder", None, "`model` must have one of the heads classification. Received: head='encoder'"),
    ],
)
def test_what_cannot_be_exported(build, preprocessor, tmp_path, head, labels, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.export(build(head), preprocessor, tmp_path / "1", labels=labels)

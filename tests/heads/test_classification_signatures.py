"""The signatures of classifiers: what makes an answer of logits. All of a SavedModel is in tests/exporting."""

import numpy as np
import pytest
from scipy.special import expit, softmax

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

import keras_bert  # noqa: E402
from keras_bert.heads.classification_signatures import (  # noqa: E402
    classifier,
    multi_label_classifier,
    regressor,
)

LABELS = ["x", "y", "z"]


@pytest.fixture
def preprocessor(pieces):
    return keras_bert.TextPreprocessor(pieces, 12)


def answers(signatures, *texts):
    """Returns the outputs of `serving_default` for one text or pair."""
    inputs = [tf.constant([text]) for text in texts]
    outputs = signatures["serving_default"](*inputs)
    return {name: values.numpy()[0] for name, values in outputs.items()}


def test_a_class_is_only_answered_above_the_threshold(build, preprocessor):
    """With a temperature, which divides the logits."""
    model = build("classification")

    def answer(threshold):
        confidence = {"temperature": 2.0, "threshold": threshold}
        signatures = classifier(model, preprocessor, LABELS, pair=False, logits=True, confidence=confidence)
        return answers(signatures, "a b c")

    sure = answer(threshold=0.0)
    probabilities = softmax(sure["logits"] / 2)
    np.testing.assert_allclose(sure["probabilities"], probabilities, atol=1e-6)
    assert sure["answered"]
    assert sure["label"].decode() == LABELS[probabilities.argmax()]
    unsure = answer(threshold=2.0)
    assert not unsure["answered"]
    assert unsure["label"] == b""


def test_labels_above_their_thresholds(build, preprocessor):
    model = build("multi_label")

    def answer(thresholds):
        signatures = multi_label_classifier(model, preprocessor, LABELS, False, thresholds, logits=True)
        return answers(signatures, "a b c")

    halves = answer(thresholds=None)
    probabilities = expit(halves["logits"])
    np.testing.assert_allclose(halves["probabilities"], probabilities, atol=1e-6)
    assert halves["predicted"].tolist() == (probabilities >= 0.5).tolist()
    below_and_above = [probabilities[0] - 1e-3, probabilities[1] + 1e-3, 0.001]
    assert answer(thresholds=below_and_above)["predicted"].tolist() == [True, False, True]


def test_numbers_of_pairs(config, preprocessor):
    """Scores between 0 and 1 are sigmoids."""
    encoder = keras_bert.build_encoder(config)
    model = keras_bert.build_classifier(encoder, 1, score_activation="sigmoid")
    signatures = regressor(model, preprocessor, True, keras_bert.describe(model), logits=True)
    assert set(signatures) == {"serving_default", "regress"}
    found = answers(signatures, "a b", "c")
    np.testing.assert_allclose(found["value"], expit(found["logits"][0]), atol=1e-6)


def test_zero_shot_classification_needs_pairs(build, preprocessor):
    with pytest.raises(ValueError, match="pair=False"):
        classifier(build("classification"), preprocessor, LABELS, pair=False, zero_shot=keras_bert.ZeroShot())

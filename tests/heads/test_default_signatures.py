"""The signature of heads without signatures of their own: what `respond` gets and answers."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

import keras_bert  # noqa: E402
from keras_bert.heads.default_signatures import calibrated_responder, responder  # noqa: E402


@pytest.fixture
def signature(build, pieces):
    """Builds the signature of a classifier."""
    model = build("classification")
    description = keras_bert.describe(model)
    preprocessor = keras_bert.TextPreprocessor(pieces, 12)

    def make(build_signatures, labels=None, pair=False, **options):
        signatures = build_signatures(model, preprocessor, labels, pair, description, **options)
        return signatures["serving_default"]

    return make


def test_it_answers_what_respond_makes(signature):
    given = []

    def respond(outputs, labels):
        given.append((sorted(outputs), labels))
        return {"highest": tf.reduce_max(outputs["logits"], -1)}

    answer = signature(responder(respond, "logits"))
    outputs = answer(tf.constant(["a b", "c"]))
    assert outputs["highest"].shape == (2,)
    assert outputs["tokens"].numpy().tolist() == [4, 3]  # With [CLS] and [SEP].
    assert given[-1] == (["logits"], ["LABEL_0", "LABEL_1", "LABEL_2"])


def test_a_temperature_divides_the_logits(signature):
    build = calibrated_responder(lambda outputs, labels: {"scores": outputs["logits"]}, "logits", "logits")
    texts = tf.constant(["a b"])
    logits = signature(build)(texts)["scores"]
    cooler = signature(build, confidence={"temperature": 4.0})(texts)["scores"]
    np.testing.assert_allclose(cooler, logits / 4, rtol=1e-6)
    with pytest.raises(ValueError, match="threshold"):
        signature(build, confidence={"threshold": 0.5})


def test_pairs(signature):
    build = responder(lambda outputs, labels: outputs, "logits")
    outputs = signature(build, labels=["x", "y", "z"], pair=True)(tf.constant(["a b"]), tf.constant(["c"]))
    assert outputs["logits"].shape == (1, 3)
    assert outputs["tokens"].numpy().tolist() == [6]

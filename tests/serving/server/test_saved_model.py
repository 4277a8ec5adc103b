"""A session over a SavedModel gives what TensorFlow's own loader gives."""

import numpy as np
import pytest

import keras_bert

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

TEXTS = ["a b", "c!", "", "d e f g"]


@pytest.mark.slow
def test_an_exported_classifier(build, pieces, tmp_path):
    """With its tokenizer, its tables and its variables."""
    from keras_bert.serving.server.shelf import load_version

    preprocessor = keras_bert.TextPreprocessor(pieces, 10, padding="longest")
    keras_bert.export(build("classification"), preprocessor, tmp_path / "1", labels=["no", "yes", "maybe"])
    expected = tf.saved_model.load(tmp_path / "1").signatures["serving_default"](text=tf.constant(TEXTS))
    model = load_version(tmp_path / "1")
    signature = model.signature()
    assert signature.joinable
    assert signature.describe_inputs() == "`text` string (batch,)"
    answers = signature({"text": np.array(TEXTS, object)})
    assert answers["label"].tolist() == expected["label"].numpy().tolist()
    np.testing.assert_allclose(answers["probabilities"], expected["probabilities"], atol=1e-6)
    model.close()


def test_what_may_be_joined(toys):
    from keras_bert.serving.server.saved_model import SavedModel

    model = SavedModel(toys / "many" / "1")
    joinable = {name for name, signature in model.signatures.items() if signature.joinable}
    assert set(model.signatures) - joinable == {"whole"}
    methods = {name: signature.method for name, signature in model.signatures.items()}
    assert methods["ids"] == "tensorflow/serving/predict"
    assert methods["classify"] == "tensorflow/serving/classify"
    assert "__saved_model_init_op" not in methods
    model.close()

"""The files beside the graph of a SavedModel: facts, probes and warm-up requests."""

import hashlib
import importlib.metadata
import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

import keras_bert
from keras_bert.exporting import assets
from tests.conftest import eagerly
from tests.exporting.conftest import LABELS

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def classifier(exported):
    """The folder of the SavedModel of a classifier, which replaced an older one."""
    return exported("classification")


def test_an_older_export_is_gone(classifier):
    assert [path.name for path in classifier.parent.iterdir()] == ["1"]
    assert not (classifier / "assets.extra" / "old").exists()


def test_facts(classifier, pieces):
    folder = classifier / "assets.extra"
    facts = json.loads((folder / "keras_bert.json").read_text())
    assert facts["head"] == "classification"
    assert facts["labels"] == LABELS
    assert facts["pair"] is False
    assert facts["sequence_length"] == 20
    assert facts["precision"] == "float32"
    assert facts["lowercase"] is True
    sha256 = hashlib.sha256("\n".join(pieces).encode()).hexdigest()
    assert facts["vocabulary"] == {"pieces": 50, "sha256": sha256}
    assert facts["ops"] == sorted(set(facts["ops"]))
    assert {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets", "ParseExampleV2"} <= set(facts["ops"])
    assert not any(name.startswith("__") for name in facts["ops"])  # Functions are not ops.
    assert set(facts["signatures"]) == {"serving_default", "classify", "tokens"}
    assert facts["signatures"]["serving_default"] == {
        "inputs": {"text": ["string", 1]},
        "outputs": {
            "label": ["string", 1],
            "probabilities": ["float32", 2],
            "labels": ["string", 2],
            "tokens": ["int32", 1],
            "tokens_read": ["int32", 1],
        },
    }
    for package in ("keras", "tensorflow", "tensorflow-text"):
        assert facts["versions"][package] == importlib.metadata.version(package)
    assert facts["versions"]["keras_bert"] == keras_bert.__version__
    assert facts["config"]["hidden_size"] == 32


def test_warmup_requests_run(classifier, loaded_classifier):
    """TensorFlow Serving takes one for each signature of Predict."""
    records = tf.data.TFRecordDataset(str(classifier / "assets.extra" / "tf_serving_warmup_requests"))
    requests = {}
    for record in records.as_numpy_iterator():
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        requests[request.model_spec.signature_name] = request
    assert set(requests) == {"serving_default", "tokens"}
    for name, request in requests.items():
        inputs = {key: tf.constant(tf.make_ndarray(value)) for key, value in request.inputs.items()}
        assert loaded_classifier.signatures[name](**inputs)


def test_ops_are_those_of_the_graph_and_of_its_functions(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def function(numbers):
        if tf.size(numbers) > 3:  # The ops of a branch are in a function of its own.
            return tf.math.erf(numbers)
        return numbers

    tf.saved_model.save(tf.Module(), str(tmp_path), {"serving_default": function})
    names = assets.ops(tmp_path)
    assert names == sorted(set(names))
    assert {"Erf", "Greater", "Size"} <= set(names)
    assert not any(name.startswith("__") for name in names)  # Calls of functions are none.


def test_answers_that_are_not_finite_are_not_exported(model_of, preprocessor, pieces, tmp_path):
    keras_bert.save(model_of("regression"), tmp_path / "model", pieces)
    bert = keras_bert.load(tmp_path / "model")
    bert.model().get_layer("classifier").bias.assign([np.nan])
    message = "not finite. Expected .* Received: serving_default.outputs.value.0.=nan"
    with eagerly(), pytest.raises(ValueError, match=message):
        bert.export(tmp_path / "1")
    assert not (tmp_path / "1").exists()

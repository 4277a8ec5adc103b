"""Warm-up requests: the first run of a graph is slow, so they run before a version is served."""

import pathlib

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_bert.files import WARMUP_REQUESTS


def warm_up(model, path):
    """Replays the predict requests that TensorFlow Serving finds in a folder; one that fails is an error."""
    file = pathlib.Path(path) / WARMUP_REQUESTS
    records = tf.data.TFRecordDataset(str(file)).as_numpy_iterator() if file.is_file() else ()
    for number, record in enumerate(records, 1):
        try:
            log = prediction_log_pb2.PredictionLog.FromString(record)
            if log.WhichOneof("log_type") != "predict_log":
                continue
            request = log.predict_log.request
            signature = model.signature(request.model_spec.signature_name)
            signature.check_names(request.inputs)
            signature({name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()})
        except Exception as error:
            raise ValueError(f"{WARMUP_REQUESTS}: request {number} fails: {error}") from error

"""First requests, run while a model loads, since a first run is slow: a graph is optimised and tables are built."""

import logging
import pathlib

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_bert.serving.server.examples import serialize

WARMUP_FILE = pathlib.Path("assets.extra") / "tf_serving_warmup_requests"
_LOG = logging.getLogger("keras_bert.serving")


def warm_up(model, path):
    """Replays the warm-up requests of a SavedModel's folder, or makes one up where there are none.

    A recorded request that fails is an error: the model does not do what its maker saw it do.

    Args:
        model: a `SavedModel`.
        path: its folder, with perhaps `assets.extra/tf_serving_warmup_requests`: `PredictionLog`s in a TFRecord file.
    """
    file = pathlib.Path(path) / WARMUP_FILE
    if not file.is_file():
        _make_up(model)
        return
    for number, record in enumerate(tf.data.TFRecordDataset(str(file)).as_numpy_iterator(), 1):
        try:
            _replay(model, prediction_log_pb2.PredictionLog.FromString(record))
        except Exception as error:
            raise ValueError(f"{WARMUP_FILE}: request {number} fails: {error}") from error


def _replay(model, log):
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        request = log.predict_log.request
        inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
    elif kind in ("classify_log", "regress_log"):
        request = getattr(log, kind).request
        inputs = {"inputs": serialize(request.input)}
    else:
        _LOG.warning("a warm-up request of the kind %s is left out", kind)
        return
    signature = model.signature(request.model_spec.signature_name)
    if set(inputs) != set(signature.inputs):
        raise ValueError(f"expected the inputs {signature.describe_inputs()}. Received: {', '.join(sorted(inputs))}")
    signature(inputs)


def _make_up(model):
    """One row for each signature. It may be nonsense to the model, so that its errors mean nothing."""
    for signature in model.signatures.values():
        inputs = {}
        for name, spec in signature.inputs.items():
            shape = [1] if spec.shape is None else [size or 1 for size in spec.shape]
            text = spec.dtype == tf.string
            inputs[name] = np.full(shape, b"A text.", object) if text else np.zeros(shape, spec.dtype.as_numpy_dtype)
        try:
            signature(inputs)
        except Exception as error:
            _LOG.debug("a made-up warm-up request fails: %s", error)

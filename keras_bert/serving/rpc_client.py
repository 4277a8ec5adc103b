"""The client's gRPC transport. TensorFlow Serving's protocol buffers require TensorFlow."""

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_bert.serving.errors import RequestError, one_line

# By default, gRPC rejects responses larger than 4 MB.
_OPTIONS = [("grpc.max_receive_message_length", -1)]


class RpcTransport:
    """gRPC over one channel, which reconnects automatically."""

    def __init__(self, address, timeout):
        if "://" in address:
            raise ValueError(f"`address` must be host:port for gRPC. Received: address={address!r}")
        self._address = address
        self._timeout = timeout
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._models = model_service_pb2_grpc.ModelServiceStub(self._channel)

    def predict(self, model, inputs, version, signature, input_dtypes, _):
        request = predict_pb2.PredictRequest()
        _set_model(request, model, version)
        request.model_spec.signature_name = signature
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(_to_tensor(name, value, input_dtypes.get(name)))
        answer = self._send(self._prediction.Predict, request)
        return {name: _to_array(name, tensor) for name, tensor in answer.outputs.items()}

    def status(self, model):
        request = get_model_status_pb2.GetModelStatusRequest()
        _set_model(request, model, None)
        return to_dict(self._send(self._models.GetModelStatus, request))

    def metadata(self, model, version):
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        _set_model(request, model, version)
        return to_dict(self._send(self._prediction.GetModelMetadata, request))

    def about(self, model):
        return {}

    def close(self):
        self._channel.close()

    def _send(self, method, request):
        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            code = error.code().name
            message = one_line(error.details())
        if code == "DEADLINE_EXCEEDED":
            raise TimeoutError(f"{self._address} did not answer within {self._timeout} seconds")
        if code == "UNAVAILABLE" and "http1" in message:
            fix = "Use its gRPC port (8500 by default), or `protocol`=rest"
            raise ConnectionError(f"{self._address} does not answer in gRPC: it is a REST port. {fix}")
        if code == "UNAVAILABLE" and "failed to connect" in message.lower():
            raise ConnectionRefusedError(f"no server is listening at {self._address}: {message}")
        raise RequestError(code, message)


def _set_model(request, model, version):
    request.model_spec.name = model
    if version is not None:
        request.model_spec.version.value = int(version)


def to_dict(message):
    """Converts a message to the dict that TensorFlow Serving's REST API returns."""
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _to_tensor(name, value, dtype):
    """Converts a value to a tensor with the input's dtype. The server rejects unknown names."""
    try:
        if dtype is None:
            return tf.make_tensor_proto(np.array(value))
        wanted = tf.dtypes.as_dtype(types_pb2.DataType.Value(dtype))
        if wanted == tf.string:
            array = np.array(value, object)
            if any(isinstance(leaf, list) for leaf in array.reshape(-1)):
                raise ValueError('lists at the same depth must have the same length. Pad shorter ones with ""')
        else:
            array = np.array(value)
            if array.size and not _fits(array, wanted):
                raise ValueError("expected values in its range")
        return tf.make_tensor_proto(array, wanted)
    except (TypeError, ValueError) as error:
        raise ValueError(f"input `{name}` must be {dtype or 'a tensor'}: {one_line(error)}") from error


def _fits(array, wanted):
    """Whether the values are of the type of a dtype and in its range."""
    if wanted.is_bool:
        kinds = "b"
    elif wanted.is_integer:
        kinds = "iu"
    else:
        kinds = "iuf"
    if array.dtype.kind not in kinds:
        return False
    with np.errstate(over="ignore"):
        values = array.astype(wanted.as_numpy_dtype)
    if wanted.is_floating:
        return (np.isfinite(values) == np.isfinite(array)).all()
    return (values == array).all()


def _to_array(name, tensor):
    values = tf.make_ndarray(tensor)
    if values.dtype != object or name.endswith("_bytes"):
        return values
    return np.vectorize(lambda text: text.decode("utf-8", "replace"), [object])(values)

"""The client's gRPC side, apart because its stubs bring TensorFlow along."""

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_bert.serving.client import to_text
from keras_bert.serving.errors import CODES, RequestError, one_line

# Answers may be larger than what gRPC takes by itself, 4 MB.
_OPTIONS = [("grpc.max_receive_message_length", -1)]


class RpcWire:
    """gRPC over one channel, which connects again by itself."""

    def __init__(self, address, timeout):
        if "://" in address:
            raise ValueError(f"`address` must be host:port for gRPC. Received: address={address!r}")
        self._address, self._timeout = address, timeout
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._models = model_service_pb2_grpc.ModelServiceStub(self._channel)

    def predict(self, model, inputs, version, signature, inputs_of, outputs_of):
        request = predict_pb2.PredictRequest()
        _name(request, model, version)
        request.model_spec.signature_name = signature
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(_to_tensor(name, value, inputs_of.get(name)))
        answer = self._send(self._prediction.Predict, request)
        arrays = {name: tf.make_ndarray(tensor) for name, tensor in answer.outputs.items()}
        return {name: to_text(name, value) if value.dtype == object else value for name, value in arrays.items()}

    def status(self, model):
        request = get_model_status_pb2.GetModelStatusRequest()
        _name(request, model, None)
        answer = self._send(self._models.GetModelStatus, request)
        return [
            {
                "version": each.version,
                "state": get_model_status_pb2.ModelVersionStatus.State.Name(each.state),
                "error_code": CODES[each.status.error_code],
                "error_message": each.status.error_message,
            }
            for each in answer.model_version_status
        ]

    def metadata(self, model, version):
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        _name(request, model, version)
        answer = self._send(self._prediction.GetModelMetadata, request)
        signatures = get_model_metadata_pb2.SignatureDefMap.FromString(answer.metadata["signature_def"].value)
        return {
            "version": answer.model_spec.version.value,
            "signatures": {
                name: {
                    "method": signature.method_name,
                    "inputs": {key: _info(info) for key, info in signature.inputs.items()},
                    "outputs": {key: _info(info) for key, info in signature.outputs.items()},
                }
                for name, signature in signatures.signature_def.items()
            },
        }

    def _send(self, method, request):
        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            code, message = error.code().name, one_line(error.details())
        if code == "DEADLINE_EXCEEDED":
            raise TimeoutError(f"{self._address} did not answer within {self._timeout} seconds")
        if code == "UNAVAILABLE" and "failed to connect" in message.lower():
            raise ConnectionRefusedError(f"nobody listens at {self._address}: {message}")
        raise RequestError(code, message)

    def close(self):
        self._channel.close()


def _name(request, model, version):
    request.model_spec.name = model
    if version is not None:
        request.model_spec.version.value = int(version)


def _info(info):
    shape = info.tensor_shape
    sizes = [None if dim.size < 0 else dim.size for dim in shape.dim]
    return {"dtype": types_pb2.DataType.Name(info.dtype), "shape": None if shape.unknown_rank else sizes}


def _to_tensor(name, value, dtype):
    """A tensor of an input's dtype; a name that the signature lacks is the server's to refuse."""
    try:
        kind = None if dtype is None else tf.dtypes.as_dtype(types_pb2.DataType.Value(dtype))
        value = np.array(value, object) if kind == tf.string else value
        return tf.make_tensor_proto(value, kind)
    except (TypeError, ValueError) as error:
        raise ValueError(f"input `{name}` must be {dtype or 'a tensor'}: {one_line(error)}") from error

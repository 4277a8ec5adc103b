"""TensorFlow Serving's gRPC services PredictionService and ModelService, on grpcio."""

import grpc
import tensorflow as tf
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from tensorflow_serving.apis.get_model_metadata_pb2 import GetModelMetadataRequest
from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusRequest
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

from keras_bert.serving.errors import RequestError, bad, one_line

_REPEATED = 1 << 16  # Values of a request that a message may shorten by repetition.


class Rpc:
    """gRPC handlers of a `Service`."""

    def __init__(self, service):
        self._service = service

    def server(self):
        """Returns a gRPC server; the caller adds a port and starts it."""
        limit = self._service.settings.max_body_bytes
        server = grpc.aio.server(
            # Without `so_reuseport=0`, two servers could share a port and split the requests.
            options=[("grpc.max_receive_message_length", limit), ("grpc.so_reuseport", 0)]
        )
        handlers = []
        for service, methods in self._services().items():
            name = f"tensorflow.serving.{service}"
            handlers.append(grpc.method_handlers_generic_handler(name, methods))
        server.add_generic_rpc_handlers(handlers)
        return server

    def _services(self):
        """Returns the handlers of the methods of each service, by name."""
        return {
            "PredictionService": {
                "Predict": self._handler("predict", PredictRequest, self._predict),
                "GetModelMetadata": self._handler("metadata", GetModelMetadataRequest, self._metadata),
                "Classify": self._handler("classify", Empty, self._refuse),
                "Regress": self._handler("regress", Empty, self._refuse),
                "MultiInference": self._handler("multiinference", Empty, self._refuse),
            },
            "ModelService": {
                "GetModelStatus": self._handler("status", GetModelStatusRequest, self._status),
                "HandleReloadConfigRequest": self._handler("reload", Empty, self._refuse),
            },
        }

    def _handler(self, api, message, answer):
        """Returns the handler of a method. It parses requests itself: grpcio logs a traceback if one is malformed."""

        async def handle(body, context):
            try:
                with self._service.observed(f"grpc:{api}") as call:
                    response = await answer(call, _parsed(message, body))
                    return response.SerializeToString()
            except RequestError as error:
                code = getattr(grpc.StatusCode, error.code)
                details = one_line(error)
            await context.abort(code, details)  # Raises, outside of the handling of the other error.

        return grpc.unary_unary_rpc_method_handler(handle)

    async def _refuse(self, call, request):
        raise RequestError(
            "UNIMPLEMENTED", "the development server has only Predict, GetModelMetadata and GetModelStatus over gRPC"
        )

    async def _predict(self, call, request):
        version = self._service.version(call, *_target(request))
        signature = version.model.signature(request.model_spec.signature_name)
        wanted = _wanted_outputs(request, signature)
        specs = {name: _spec(name, tensor) for name, tensor in request.inputs.items()}
        self._service.check(call, signature, specs)
        _check_size(request, specs)
        inputs = {name: _array(name, tensor) for name, tensor in request.inputs.items()}
        outputs = await self._service.run(call, version, signature, inputs)
        response = PredictResponse()
        response.model_spec.CopyFrom(call.model_spec(signature.name))
        for name in wanted:
            response.outputs[name].CopyFrom(tf.make_tensor_proto(outputs[name]))
        return response

    async def _metadata(self, call, request):
        if list(request.metadata_field) != ["signature_def"]:
            received = ", ".join(request.metadata_field) or "none"
            raise bad(f"`metadata_field` must be signature_def. Received: {received}")
        return self._service.metadata(call, *_target(request))

    async def _status(self, call, request):
        return self._service.status(call, *_target(request))


def _wanted_outputs(request, signature):
    """Returns the names of the outputs that a request asks for, by default all of them."""
    wanted = request.output_filter or signature.outputs
    unknown = set(wanted) - set(signature.outputs)
    if unknown:
        expected = ", ".join(signature.outputs)
        raise bad(f"unknown output(s) {', '.join(sorted(unknown))}. Expected some of: {expected}")
    return wanted


def _check_size(request, specs):
    """Raises an error if short inputs declare many values: a tensor may repeat its last value for gigabytes."""
    values = sum(spec.shape.num_elements() for spec in specs.values())
    size = request.ByteSize()
    if values > max(size, _REPEATED):
        raise bad(f"the inputs have {values} values, too many for a message of {size} bytes. Expected each in full")


def _spec(name, tensor):
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    if min(shape, default=0) < 0:
        raise bad(f"input `{name}` has the shape {tuple(shape)}, which is invalid")
    try:
        return tf.TensorSpec(shape, tensor.dtype)
    except TypeError as error:
        raise bad(f"input `{name}` is not a valid tensor: {one_line(error)}") from error


def _array(name, tensor):
    try:
        array = tf.make_ndarray(tensor)
    except (TypeError, ValueError, OverflowError) as error:
        raise bad(f"input `{name}` is not a valid tensor: {one_line(error)}") from error
    if array.dtype.kind in "SU":
        return array.astype(object)
    return array


def _parsed(message, body):
    try:
        return message.FromString(body)
    except DecodeError as error:
        raise bad(f"the request is malformed: {one_line(error)}") from error


def _target(request):
    """Returns the requested model name and version number."""
    spec = request.model_spec
    if not spec.name:
        raise bad("`model_spec.name` is missing")
    if spec.version_label:
        raise RequestError("UNIMPLEMENTED", "version labels are not supported; use the version number")
    number = spec.version.value if spec.HasField("version") else None
    return spec.name, number

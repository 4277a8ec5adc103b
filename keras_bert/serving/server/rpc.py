"""TensorFlow Serving's gRPC services PredictionService and ModelService, on grpcio."""

import math

import grpc
import tensorflow as tf
from tensorflow_serving.apis import model_service_pb2_grpc, predict_pb2, prediction_service_pb2_grpc

from keras_bert.serving.errors import RequestError, bad, one_line


class Rpc(prediction_service_pb2_grpc.PredictionServiceServicer, model_service_pb2_grpc.ModelServiceServicer):
    """gRPC handlers of a `Service`; all other methods return UNIMPLEMENTED."""

    def __init__(self, service):
        self._service = service

    def server(self):
        """Returns a gRPC server; the caller adds a port and starts it."""
        limit = self._service.max_body_bytes
        server = grpc.aio.server(
            # Without `so_reuseport=0`, two servers could share a port and split the requests.
            options=[("grpc.max_receive_message_length", limit), ("grpc.so_reuseport", 0)]
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(self, server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(self, server)
        return server

    async def Predict(self, request, context):
        return await self._answer("predict", self._predict, request, context)

    async def GetModelMetadata(self, request, context):
        return await self._answer("metadata", self._metadata, request, context)

    async def GetModelStatus(self, request, context):
        return await self._answer("status", self._status, request, context)

    async def _answer(self, api, handler, request, context):
        try:
            with self._service.observed(f"grpc:{api}") as call:
                return await handler(call, request)
        except RequestError as error:
            refusal = getattr(grpc.StatusCode, error.code), one_line(error)
        await context.abort(*refusal)

    async def _predict(self, call, request):
        with self._service.lease(call, *_target(request)) as version:
            signature = version.model.signature(request.model_spec.signature_name)
            wanted = request.output_filter or signature.outputs
            if unknown := set(wanted) - set(signature.outputs):
                expected = ", ".join(signature.outputs)
                raise bad(f"unknown output(s) {', '.join(sorted(unknown))}. Expected some of: {expected}")
            inputs = {name: self._array(name, tensor) for name, tensor in request.inputs.items()}
            outputs = await self._service.run(call, version, signature, inputs)
        response = predict_pb2.PredictResponse()
        response.model_spec.CopyFrom(call.model_spec(signature.name))
        for name in wanted:
            response.outputs[name].CopyFrom(tf.make_tensor_proto(outputs[name]))
        return response

    def _array(self, name, tensor):
        shape = [dim.size for dim in tensor.tensor_shape.dim]
        # A tensor may declare a huge shape and contain a single value.
        if min(shape, default=0) < 0 or math.prod(shape) > self._service.max_body_bytes:
            raise bad(f"input `{name}` has the shape {tuple(shape)}, which is invalid or too large")
        try:
            array = tf.make_ndarray(tensor)
        except (TypeError, ValueError) as error:
            raise bad(f"input `{name}` is not a valid tensor: {one_line(error)}") from error
        return array.astype(object) if array.dtype.kind in "SU" else array

    async def _metadata(self, call, request):
        if list(request.metadata_field) != ["signature_def"]:
            received = ", ".join(request.metadata_field) or "none"
            raise bad(f"`metadata_field` must be signature_def. Received: {received}")
        return self._service.metadata(call, *_target(request))

    async def _status(self, call, request):
        return self._service.status(call, *_target(request))


def _target(request):
    """Returns the requested model name and version number."""
    spec = request.model_spec
    if not spec.name:
        raise bad("`model_spec.name` is missing")
    if spec.version_label:
        raise RequestError("UNIMPLEMENTED", "version labels are not supported; use the version number")
    return spec.name, spec.version.value if spec.HasField("version") else None

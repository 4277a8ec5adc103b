"""TensorFlow Serving's gRPC services: PredictionService and ModelService. On grpcio."""

import math

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from keras_bert.serving.errors import CODES, RequestError, bad, one_line
from keras_bert.serving.server.saved_model import CLASSIFY, REGRESS


class Rpc(prediction_service_pb2_grpc.PredictionServiceServicer, model_service_pb2_grpc.ModelServiceServicer):
    """The handlers of a `Service`; what is not here answers UNIMPLEMENTED.

    Args:
        service: the `Service`.
    """

    def __init__(self, service):
        self._service = service

    def server(self):
        """A gRPC server, to be given an address and started."""
        limit = self._service.limits.body_bytes
        server = grpc.aio.server(
            # Without the second, two servers may share a port and each get half of the requests.
            options=[("grpc.max_receive_message_length", limit), ("grpc.so_reuseport", 0)]
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(self, server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(self, server)
        return server

    async def Predict(self, request, context):
        return await self._answer("predict", self._predict, request, context)

    async def Classify(self, request, context):
        return await self._answer("classify", self._classify, request, context)

    async def Regress(self, request, context):
        return await self._answer("regress", self._regress, request, context)

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
                raise bad(f"there is no output {', '.join(sorted(unknown))}. Expected some of: {expected}")
            inputs = {name: self._array(name, tensor) for name, tensor in request.inputs.items()}
            outputs = await self._service.run(call, version, signature, inputs)
        response = predict_pb2.PredictResponse()
        _name(response.model_spec, call, signature.name)
        for name in wanted:
            response.outputs[name].CopyFrom(tf.make_tensor_proto(outputs[name]))
        return response

    def _array(self, name, tensor):
        shape = [dim.size for dim in tensor.tensor_shape.dim]
        # A tensor may say its one value and a shape of any size.
        if min(shape, default=0) < 0 or math.prod(shape) > self._service.limits.body_bytes:
            raise bad(f"input `{name}` has the shape {tuple(shape)}, which is impossible or too large")
        try:
            array = tf.make_ndarray(tensor)
        except (TypeError, ValueError) as error:
            raise bad(f"input `{name}` is no tensor: {one_line(error)}") from error
        return array.astype(object) if array.dtype.kind in "SU" else array

    async def _classify(self, call, request):
        response = classification_pb2.ClassificationResponse()
        for pairs in await self._examples(call, request, CLASSIFY, response):
            row = response.result.classifications.add()
            for label, score in pairs:
                row.classes.add(label=label, score=score)
        return response

    async def _regress(self, call, request):
        response = regression_pb2.RegressionResponse()
        for value in await self._examples(call, request, REGRESS, response):
            response.result.regressions.add(value=value)
        return response

    async def _examples(self, call, request, method, response):
        with self._service.lease(call, *_target(request)) as version:
            signature = version.model.signature(request.model_spec.signature_name)
            _name(response.model_spec, call, signature.name)
            return await self._service.run_examples(call, version, signature, method, request.input)

    async def _metadata(self, call, request):
        if list(request.metadata_field) != ["signature_def"]:
            raise bad(
                f"`metadata_field` must be signature_def. Received: {', '.join(request.metadata_field) or 'none'}"
            )
        with self._service.lease(call, *_target(request)) as version:
            signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=version.model.definitions)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        _name(response.model_spec, call, "")
        response.metadata["signature_def"].Pack(signatures)
        return response

    async def _status(self, call, request):
        response = get_model_status_pb2.GetModelStatusResponse()
        statuses = self._service.shelf.status(*_target(request))
        call.model = request.model_spec.name
        for status in statuses:
            said = response.model_version_status.add(version=status.version, state=status.state)
            said.status.error_code = CODES.index(status.code)
            said.status.error_message = status.message
        return response


def _target(request):
    """Name, version and label that a request asks for."""
    spec = request.model_spec
    if not spec.name:
        raise bad("`model_spec.name` is missing")
    choice = spec.WhichOneof("version_choice")
    return (
        spec.name,
        spec.version.value if choice == "version" else None,
        spec.version_label if choice == "version_label" else None,
    )


def _name(spec, call, signature):
    spec.name, spec.signature_name = call.model, signature
    spec.version.value = int(call.version)

"""The gRPC services, called with TensorFlow Serving's stubs; test_client.py covers the calls of `Client`."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
grpc = pytest.importorskip("grpc")
pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def apis():
    from tensorflow_serving import apis
    from tensorflow_serving.apis import (  # noqa: F401
        classification_pb2,
        get_model_metadata_pb2,
        get_model_status_pb2,
        model_service_pb2_grpc,
        predict_pb2,
        prediction_service_pb2_grpc,
    )

    return apis


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        yield channel


@pytest.fixture(scope="module")
def stub(apis, channel):
    return apis.prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.fixture(scope="module")
def predict(apis, stub):
    """Sends a Predict request."""

    def send(model, signature="", version=None, label=None, only=(), timeout=20, **inputs):
        request = apis.predict_pb2.PredictRequest(output_filter=only)
        request.model_spec.name, request.model_spec.signature_name = model, signature
        if version is not None:
            request.model_spec.version.value = version
        if label is not None:
            request.model_spec.version_label = label
        for key, value in inputs.items():
            request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
        return stub.Predict(request, timeout=timeout)

    return send


def test_responses_have_a_model_spec_and_the_filtered_outputs(predict):
    answer = predict("text", text=["a"], only=["vector"], version=2)
    spec = answer.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("text", 2, "serving_default")
    assert list(answer.outputs) == ["vector"]
    np.testing.assert_allclose(tf.make_ndarray(answer.outputs["vector"]), [[1, 0.1, 2]], rtol=1e-6)


def test_status_and_metadata_of_a_version(apis, channel, stub):
    models = apis.model_service_pb2_grpc.ModelServiceStub(channel)
    request = apis.get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name, request.model_spec.version.value = "text", 2
    (status,) = models.GetModelStatus(request, timeout=20).model_version_status
    available = apis.get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert (status.version, status.state, status.status.error_code) == (2, available, 0)
    request.model_spec.version.value = 9
    message = "model text has no version 9. Expected one of: 2"
    refused(lambda: models.GetModelStatus(request, timeout=20), "NOT_FOUND", message)
    request = apis.get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "text"
    refused(lambda: stub.GetModelMetadata(request, timeout=20), "INVALID_ARGUMENT", "`metadata_field` must be")


def refused(send, code, message):
    with pytest.raises(grpc.RpcError) as error:
        send()
    assert message in error.value.details()
    assert error.value.code() == getattr(grpc.StatusCode, code)


def bomb(size):
    """Returns a tensor with one value and a shape of another size."""
    tensor = tf.make_tensor_proto(["a"])
    tensor.tensor_shape.dim[0].size = size
    return tensor


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        ({"model": "../" * 5000}, "NOT_FOUND", "model ../../"),
        ({"model": ""}, "INVALID_ARGUMENT", "`model_spec.name` is missing"),
        ({"model": "text", "label": "new"}, "UNIMPLEMENTED", "version labels are not supported"),
        ({"model": "text"}, "INVALID_ARGUMENT", "expected the input(s) `text` string (batch,). Received: none"),
        ({"model": "text", "text": [1]}, "INVALID_ARGUMENT", "`text` must be string (batch,). Received: dtype=int32"),
        ({"model": "text", "text": ["a"], "only": ["b"]}, "INVALID_ARGUMENT", "unknown output(s) b. Expected some of"),
        ({"model": "text", "text": bomb(1 << 40)}, "INVALID_ARGUMENT", "which is invalid or too large"),
        ({"model": "text", "text": bomb(-1)}, "INVALID_ARGUMENT", "which is invalid or too large"),
        ({"model": "text", "text": ["a" * (9 << 20)]}, "RESOURCE_EXHAUSTED", "larger than max"),
    ],
)
def test_codes_and_messages_of_invalid_requests(predict, request_, code, message):
    refused(lambda: predict(**request_), code, message)


def test_unimplemented_methods(apis, stub):
    request = apis.classification_pb2.ClassificationRequest()
    refused(lambda: stub.Classify(request, timeout=20), "UNIMPLEMENTED", "not implemented")


def test_requests_past_their_deadline_leave_the_queue(predict, server, gate, until):
    batcher = server.batcher
    for running, waiting in ((1, 0), (2, 0), (2, 0)):  # The first two occupy both threads.
        refused(lambda: predict("many", "wait", x=np.array([1], "int32"), timeout=0.15), "DEADLINE_EXCEEDED", "")
        until(lambda running=running, waiting=waiting: (batcher.running, batcher.waiting) == (running, waiting))
    gate.set()
    until(lambda: batcher.idle)


def test_ports_in_use(running, toys, server):
    with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{server.grpc_port} for gRPC"):
        running(toys, grpc_port=server.grpc_port).__enter__()
    with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{server.port} for REST: Address already in use"):
        running(toys, port=server.port).__enter__()

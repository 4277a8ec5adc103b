"""The gRPC services, called with TensorFlow Serving's stubs; test_client.py covers the calls of `Client`."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
grpc = pytest.importorskip("grpc")
pytestmark = pytest.mark.tensorflow

from tensorflow.core.framework import tensor_pb2  # noqa: E402
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2  # noqa: E402
from tensorflow_serving.apis.model_service_pb2_grpc import ModelServiceStub  # noqa: E402
from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub  # noqa: E402


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        yield channel


@pytest.fixture(scope="module")
def stub(channel):
    return PredictionServiceStub(channel)


@pytest.fixture(scope="module")
def predict(stub):
    """Sends a Predict request."""

    def send(model, signature="", version=None, label=None, only=(), timeout=20, **inputs):
        version = None if version is None else {"value": version}
        spec = {"name": model, "signature_name": signature, "version": version, "version_label": label}
        tensors = {key: tf.make_tensor_proto(value) for key, value in inputs.items()}
        request = predict_pb2.PredictRequest(model_spec=spec, inputs=tensors, output_filter=only)
        return stub.Predict(request, timeout=timeout)

    return send


def test_responses_have_a_model_spec_and_the_filtered_outputs(predict):
    answer = predict("text", text=["a"], only=["vector"], version=2)
    spec = answer.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("text", 2, "serving_default")
    assert list(answer.outputs) == ["vector"]
    np.testing.assert_allclose(tf.make_ndarray(answer.outputs["vector"]), [[1, 0.1, 2]], rtol=1e-6)


def test_status_and_metadata_of_a_version(channel, stub):
    models = ModelServiceStub(channel)
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name, request.model_spec.version.value = "text", 2
    assert len(models.GetModelStatus(request, timeout=20).model_version_status) == 1
    request.model_spec.version.value = 9
    message = "model text has no version 9. Expected one of: 2"
    refused(lambda: models.GetModelStatus(request, timeout=20), "NOT_FOUND", message)
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "text"
    refused(lambda: stub.GetModelMetadata(request, timeout=20), "INVALID_ARGUMENT", "`metadata_field` must be")


def refused(send, code, message):
    with pytest.raises(grpc.RpcError) as error:
        send()
    assert message in error.value.details()
    assert error.value.code() == getattr(grpc.StatusCode, code)


def odd(**fields):
    """Returns a tensor of one row of any dtype."""
    return tensor_pb2.TensorProto(tensor_shape=tf.TensorShape([1]).as_proto(), **fields)


def bomb(*shape):
    """Returns a tensor with one value and a shape of another size."""
    tensor = tf.make_tensor_proto(["a"] if len(shape) == 1 else np.ones([1, 1], "int32"))
    for dim, size in zip(tensor.tensor_shape.dim, shape, strict=True):
        dim.size = size
    return tensor


def short():
    """Returns a tensor with fewer bytes than its shape has."""
    tensor = tf.make_tensor_proto(np.ones([1, 2], "int32"))
    tensor.tensor_shape.dim[1].size = 3
    return tensor


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        ({"model": ""}, "INVALID_ARGUMENT", "`model_spec.name` is missing"),
        ({"model": "text", "label": "new"}, "UNIMPLEMENTED", "version labels are not supported"),
        ({"model": "text", "text": [1]}, "INVALID_ARGUMENT", "`text` must be string (batch,). Received: dtype=int32"),
        ({"model": "text", "text": ["a"], "only": ["b"]}, "INVALID_ARGUMENT", "unknown output(s) b. Expected some of"),
        ({"model": "text", "text": bomb(1 << 40)}, "RESOURCE_EXHAUSTED", "the request has 1099511627776 rows. Exp"),
        ({"model": "text", "text": bomb(-1)}, "INVALID_ARGUMENT", "`text` has the shape (-1,), which is invalid"),
        ({"model": "many", "signature": "ids", "token_ids": bomb(1, 1 << 22)}, "INVALID_ARGUMENT", "4194304 values"),
        # Names and dtypes are checked before tensors are built.
        ({"model": "text", "a": odd(dtype="DT_INT8", int_val=[300])}, "INVALID_ARGUMENT", "(batch,). Received: `a`"),
        ({"model": "text", "text": odd(dtype="DT_VARIANT")}, "INVALID_ARGUMENT", "(batch,). Received: dtype=variant"),
        ({"model": "text", "text": odd(dtype="DT_QINT8")}, "INVALID_ARGUMENT", "Received: dtype=qint8"),
        ({"model": "text", "text": odd(dtype=999)}, "INVALID_ARGUMENT", "not a valid tensor: Cannot convert"),
        ({"model": "many", "signature": "ids", "token_ids": short()}, "INVALID_ARGUMENT", "not a valid tensor: cannot"),
        ({"model": "text", "text": ["a" * (9 << 20)]}, "RESOURCE_EXHAUSTED", "larger than max"),
    ],
)
def test_codes_and_messages_of_invalid_requests(predict, request_, code, message):
    refused(lambda: predict(**request_), code, message)


def test_repeated_values_may_be_shortened(predict):
    answer = predict("many", "ids", token_ids=tf.make_tensor_proto(1, shape=[2, 100]))
    assert tf.make_ndarray(answer.outputs["total"]).tolist() == [100, 100]


def test_unsupported_methods_and_malformed_requests(channel, caplog):
    for method, body, code, message in (
        ("PredictionService/Classify", b"", "UNIMPLEMENTED", "has only Predict, GetModelMetadata and GetModelStatus"),
        ("PredictionService/Regress", b"", "UNIMPLEMENTED", "has only Predict"),
        ("ModelService/HandleReloadConfigRequest", b"", "UNIMPLEMENTED", "has only Predict"),
        ("PredictionService/Other", b"", "UNIMPLEMENTED", ""),
        *((f"PredictionService/{name}", b"\xff", "INVALID_ARGUMENT", "malformed") for name in ("Predict", "Classify")),
        ("PredictionService/GetModelMetadata", b"\x0a\x02", "INVALID_ARGUMENT", "malformed"),
        ("ModelService/GetModelStatus", b"\x0a\x02", "INVALID_ARGUMENT", "the request is malformed: Error parsing"),
    ):
        send = channel.unary_unary(f"/tensorflow.serving.{method}")
        refused(lambda send=send, body=body: send(body, timeout=20), code, message)
    assert not any(record.exc_info for record in caplog.records)


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

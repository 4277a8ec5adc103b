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
        number = None if version is None else {"value": version}
        spec = {"name": model, "signature_name": signature, "version": number, "version_label": label}
        tensors = {name: tf.make_tensor_proto(value) for name, value in inputs.items()}
        request = predict_pb2.PredictRequest(model_spec=spec, inputs=tensors, output_filter=only)
        return stub.Predict(request, timeout=timeout)

    return send


def check_refused(code, message, send, *arguments, **options):
    """Checks the code and a part of the details of a call."""
    with pytest.raises(grpc.RpcError) as error:
        send(*arguments, **options)
    assert message in error.value.details()
    assert error.value.code().name == code


def test_responses_have_a_model_spec_and_the_filtered_outputs(predict):
    answer = predict("text", text=["a"], only=["vector"], version=2)
    assert answer.model_spec.name == "text"
    assert answer.model_spec.version.value == 2
    assert answer.model_spec.signature_name == "serving_default"
    assert list(answer.outputs) == ["vector"]
    np.testing.assert_allclose(tf.make_ndarray(answer.outputs["vector"]), [[1, 0.1, 2]], rtol=1e-6)


def status_request(version):
    spec = {"name": "text", "version": {"value": version}}
    return get_model_status_pb2.GetModelStatusRequest(model_spec=spec)


def test_status_of_a_version(channel):
    models = ModelServiceStub(channel)
    answer = models.GetModelStatus(status_request(2), timeout=20)
    assert len(answer.model_version_status) == 1
    message = "model text has no version 9. Expected one of: 2"
    check_refused("NOT_FOUND", message, models.GetModelStatus, status_request(9), timeout=20)


def test_metadata_need_a_field(stub):
    request = get_model_metadata_pb2.GetModelMetadataRequest(model_spec={"name": "text"})
    check_refused("INVALID_ARGUMENT", "`metadata_field` must be", stub.GetModelMetadata, request, timeout=20)


def odd(**fields):
    """Returns a tensor of one row of any dtype."""
    return tensor_pb2.TensorProto(tensor_shape=tf.TensorShape([1]).as_proto(), **fields)


def with_shape(tensor, shape):
    """Returns a tensor whose shape has another size than its values."""
    sizes = [{"size": size} for size in shape]
    return tensor_pb2.TensorProto(
        dtype=tensor.dtype,
        tensor_shape={"dim": sizes},
        tensor_content=tensor.tensor_content,
        int_val=tensor.int_val,
        string_val=tensor.string_val,
    )


def bomb(*shape):
    """Returns a tensor with one value and a shape of another size."""
    if len(shape) == 1:
        return with_shape(tf.make_tensor_proto(["a"]), shape)
    return with_shape(tf.make_tensor_proto(np.ones([1, 1], "int32")), shape)


def short():
    """Returns a tensor with fewer bytes than its shape has."""
    return with_shape(tf.make_tensor_proto(np.ones([1, 2], "int32")), [1, 3])


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
    check_refused(code, message, predict, **request_)


def test_repeated_values_may_be_shortened(predict):
    answer = predict("many", "ids", token_ids=tf.make_tensor_proto(1, shape=[2, 100]))
    assert tf.make_ndarray(answer.outputs["total"]).tolist() == [100, 100]


@pytest.mark.parametrize(
    ("method", "body", "code", "message"),
    [
        ("PredictionService/Classify", b"", "UNIMPLEMENTED", "has only Predict, GetModelMetadata and GetModelStatus"),
        ("PredictionService/Regress", b"", "UNIMPLEMENTED", "has only Predict"),
        ("PredictionService/MultiInference", b"", "UNIMPLEMENTED", "has only Predict"),
        ("ModelService/HandleReloadConfigRequest", b"", "UNIMPLEMENTED", "has only Predict"),
        ("PredictionService/Other", b"", "UNIMPLEMENTED", ""),
        ("PredictionService/Predict", b"\xff", "INVALID_ARGUMENT", "malformed"),
        ("PredictionService/Classify", b"\xff", "INVALID_ARGUMENT", "malformed"),
        ("PredictionService/GetModelMetadata", b"\x0a\x02", "INVALID_ARGUMENT", "malformed"),
        ("ModelService/GetModelStatus", b"\x0a\x02", "INVALID_ARGUMENT", "the request is malformed: Error parsing"),
    ],
)
def test_unsupported_methods_and_malformed_requests(channel, caplog, method, body, code, message):
    """They leave no traceback in the log."""
    send = channel.unary_unary(f"/tensorflow.serving.{method}")
    check_refused(code, message, send, body, timeout=20)
    assert not any(record.exc_info for record in caplog.records)


def test_requests_past_their_deadline_leave_the_queue(predict, server, gate, until):
    """The first two occupy both threads."""
    batcher = server.batcher
    x = np.array([1], "int32")
    for running in (1, 2, 2):
        check_refused("DEADLINE_EXCEEDED", "", predict, "many", "wait", x=x, timeout=0.15)
        expected = (running, 0)
        until(lambda expected=expected: (batcher.running, batcher.waiting) == expected)
    gate.set()
    until(lambda: batcher.idle)

"""The gRPC services, asked with the stubs of TensorFlow Serving."""

import time

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
        inference_pb2,
        model_service_pb2_grpc,
        predict_pb2,
        prediction_service_pb2_grpc,
        regression_pb2,
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
        name(request.model_spec, model, signature, version, label)
        for key, value in inputs.items():
            request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
        return stub.Predict(request, timeout=timeout)

    return send


def name(spec, model, signature="", version=None, label=None):
    spec.name, spec.signature_name = model, signature
    if version is not None:
        spec.version.value = version
    if label is not None:
        spec.version_label = label


def test_predict(predict):
    answer = predict("text", text=["a", "a longer one"])
    spec = answer.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("text", 2, "serving_default")
    arrays = {key: tf.make_ndarray(tensor) for key, tensor in answer.outputs.items()}
    assert arrays["length"].tolist() == [1, 12]
    assert arrays["label"].tolist() == [b"short", b"long"]
    assert arrays["echo_bytes"].tolist() == [b"a", b"a longer one"]
    np.testing.assert_allclose(arrays["vector"], [[1, 0.1, 2], [12, 1.2, 2]], rtol=1e-6)


@pytest.mark.parametrize(("target", "number"), [({}, 2), ({"version": 1}, 1), ({"label": "old"}, 1)])
def test_versions_and_labels(predict, target, number):
    answer = predict("text", text=["a"], only=["vector"], **target)
    assert answer.model_spec.version.value == number
    assert list(answer.outputs) == ["vector"]
    assert tf.make_ndarray(answer.outputs["vector"])[0, 2] == number


def test_other_dtypes(predict):
    answer = predict("many", "ids", token_ids=np.array([[1, 2], [3, 4]], "int32"))
    assert tf.make_ndarray(answer.outputs["total"]).tolist() == [3, 7]
    answer = predict("many", "whole", text=["a", "b"])  # What cannot be joined is no trouble where there are no rows.
    assert tf.make_ndarray(answer.outputs["count"]).tolist() == 2


def test_classify_and_regress(apis, stub):
    request = apis.classification_pb2.ClassificationRequest()
    name(request.model_spec, "many", "classify")
    example = request.input.example_list.examples.add()
    example.features.feature["x"].float_list.value.append(0.25)
    answer = stub.Classify(request, timeout=20)
    assert answer.model_spec.version.value == 1
    (row,) = answer.result.classifications
    assert [(each.label, each.score) for each in row.classes] == [("low", 0.75), ("high", 0.25)]
    request = apis.regression_pb2.RegressionRequest()
    name(request.model_spec, "many", "regress")
    given = request.input.example_list_with_context
    given.context.features.feature["x"].float_list.value.append(0.5)
    given.examples.add()
    given.examples.add().CopyFrom(example)
    answer = stub.Regress(request, timeout=20)
    assert [each.value for each in answer.result.regressions] == [1.0, 0.5]


def test_metadata(apis, stub):
    request = apis.get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    name(request.model_spec, "text")
    answer = stub.GetModelMetadata(request, timeout=20)
    assert (answer.model_spec.name, answer.model_spec.version.value) == ("text", 2)
    signatures = apis.get_model_metadata_pb2.SignatureDefMap()
    assert answer.metadata["signature_def"].Unpack(signatures)
    assert list(signatures.signature_def["serving_default"].inputs) == ["text"]
    del request.metadata_field[:]
    refused(lambda: stub.GetModelMetadata(request, timeout=20), "INVALID_ARGUMENT", "`metadata_field` must be")


def test_status(apis, channel):
    stub = apis.model_service_pb2_grpc.ModelServiceStub(channel)
    request = apis.get_model_status_pb2.GetModelStatusRequest()
    name(request.model_spec, "text")
    answer = stub.GetModelStatus(request, timeout=20)
    available = apis.get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert [(each.version, each.state, each.status.error_code) for each in answer.model_version_status] == [
        (2, available, 0),
        (1, available, 0),
    ]
    name(request.model_spec, "text", version=9)
    refused(
        lambda: stub.GetModelStatus(request, timeout=20),
        "NOT_FOUND",
        "model text has no version 9. Expected one of: 2, 1",
    )


def refused(send, code, message):
    with pytest.raises(grpc.RpcError) as error:
        send()
    assert message in error.value.details()
    assert error.value.code() == getattr(grpc.StatusCode, code)


def bomb(*sizes):
    tensor = tf.make_tensor_proto(["a"])
    del tensor.tensor_shape.dim[:]
    for size in sizes:
        tensor.tensor_shape.dim.add(size=size)
    return tensor


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        ({"model": "other"}, "NOT_FOUND", "there is no such model. Expected one of: many, text"),
        ({"model": "../" * 5000}, "NOT_FOUND", "model ../../"),
        ({"model": ""}, "INVALID_ARGUMENT", "`model_spec.name` is missing"),
        ({"model": "text", "version": 9}, "NOT_FOUND", "version 9 of model text is not loaded"),
        ({"model": "text", "label": "new"}, "INVALID_ARGUMENT", "no version label new"),
        ({"model": "text", "signature": "x"}, "INVALID_ARGUMENT", "no signature `x`. Expected one of: serving_default"),
        ({"model": "text"}, "INVALID_ARGUMENT", "expected the input(s) `text` string (batch,). Received: none"),
        ({"model": "text", "text": [1]}, "INVALID_ARGUMENT", "`text` must be string (batch,). Received: dtype=int32"),
        ({"model": "text", "text": [["a"]]}, "INVALID_ARGUMENT", "Received: shape=(1, 1)"),
        ({"model": "text", "text": ["a"] * 1025}, "INVALID_ARGUMENT", "there are 1025 rows. Expected at most 1024"),
        ({"model": "text", "text": ["a"], "only": ["b"]}, "INVALID_ARGUMENT", "there is no output b. Expected some of"),
        ({"model": "text", "text": bomb(1 << 40)}, "INVALID_ARGUMENT", "which is impossible or too large"),
        ({"model": "text", "text": bomb(-1)}, "INVALID_ARGUMENT", "which is impossible or too large"),
        ({"model": "text", "text": ["a" * (9 << 20)]}, "RESOURCE_EXHAUSTED", "larger than max"),
        ({"model": "many", "signature": "picky", "text": ["spoilt"]}, "INVALID_ARGUMENT", "a spoilt text"),
    ],
)
def test_a_bad_request_has_its_code_and_says_what_is_wrong(predict, request_, code, message):
    refused(lambda: predict(**request_), code, message)


def test_what_is_not_for_classify_and_what_is_not_there(apis, stub):
    request = apis.classification_pb2.ClassificationRequest()
    name(request.model_spec, "text")
    refused(lambda: stub.Classify(request, timeout=20), "INVALID_ARGUMENT", "is not for classify: expected the method")
    with pytest.raises(grpc.RpcError) as error:
        stub.MultiInference(apis.inference_pb2.MultiInferenceRequest(), timeout=20)
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_deadline_leaves_the_queue(predict, server, until):
    batcher = server.server.batcher
    start = time.monotonic()
    for turns in (400000, 400000, 1 << 30):  # The first two keep the threads busy.
        refused(
            lambda turns=turns: predict("many", "burn", turns=np.array([turns], "int32"), timeout=0.15),
            "DEADLINE_EXCEEDED",
            "",
        )
    until(lambda: batcher.idle)
    assert time.monotonic() - start < 15


def test_a_port_that_is_taken(running, toys, server):
    with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{server.grpc_port} for gRPC"):
        running(toys, grpc_port=server.grpc_port).__enter__()
    with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{server.port} for REST: Address already in use"):
        running(toys, port=server.port).__enter__()

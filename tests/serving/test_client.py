"""The client over REST and gRPC: both give the same answers and errors."""

import math
import pathlib

import numpy as np
import pytest

from keras_bert.serving import Client, RequestError

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def port_of(server, protocol):
    if protocol == "grpc":
        return server.grpc_port
    return server.port


@pytest.fixture(params=["rest", "grpc"])
def protocol(request):
    return request.param


@pytest.fixture
def client(protocol, server):
    with Client(f"127.0.0.1:{port_of(server, protocol)}", protocol, timeout=20) as client:
        yield client


@pytest.mark.parametrize("inputs", [["a", "a longer öne"], {"text": np.array(["a", "a longer öne"])}])
def test_texts(client, inputs):
    """A list is that of the only input."""
    answer = client.predict("text", inputs)
    assert set(answer) == {"length", "label", "vector", "echo_bytes"}
    assert answer["length"].dtype == np.int32
    assert answer["length"].tolist() == [1, 13]
    assert answer["label"].tolist() == ["short", "long"]
    assert answer["echo_bytes"].tolist() == [b"a", "a longer öne".encode()]
    assert answer["vector"].dtype == np.float32
    np.testing.assert_allclose(answer["vector"], [[1, 0.1, 2], [13, 1.3, 2]], rtol=1e-6)


def test_bytes_and_a_version(client):
    answer = client.predict("text", {"text": [b"\xff\x00"]}, version=2)
    assert answer["echo_bytes"].tolist() == [b"\xff\x00"]


def test_several_inputs_and_other_signatures(client):
    answer = client.predict("many", {"text": ["a"], "pair": ["b"]})
    assert answer["joined"].tolist() == ["a+b"]
    answer = client.predict("many", [[1, 2], [3, 4]], signature="ids")
    assert answer["total"].tolist() == [3, 7]
    padded = client.predict("many", [["a", ""], ["b", "c"]], signature="lists")
    assert padded["joined"].tolist() == ["a+", "b+c"]


def test_infinity(client):
    numbers = {"x": [0, 3.0, -math.inf], "flip": [False, True, False]}
    answer = client.predict("many", numbers, signature="divide")
    np.testing.assert_array_equal(answer["quotient"], np.array([np.inf, -1 / 3, 0], "float32"))


def test_status_and_metadata(client):
    assert client.status("text") == [{"version": 2, "state": "AVAILABLE", "error_code": "OK", "error_message": ""}]
    found = client.metadata("many")
    assert found["version"] == 1
    assert found["signatures"]["ids"] == {
        "method": "tensorflow/serving/predict",
        "inputs": {"token_ids": {"dtype": "DT_INT32", "shape": [None, None]}},
        "outputs": {"total": {"dtype": "DT_INT32", "shape": [None]}},
    }


@pytest.mark.parametrize(
    ("model", "inputs", "signature", "code", "message"),
    [
        ("other", ["a"], None, "NOT_FOUND", "unknown model. Expected one of: many, text"),
        ("text", ["a"], "x", "INVALID_ARGUMENT", "unknown signature `x`. Expected one of: serving_def"),
        ("text", {"txt": ["a"]}, None, "INVALID_ARGUMENT", r"the input\(s\) `text` string \(batch,\). Received: `txt`"),
        ("many", ["spoilt"], "picky", "INVALID_ARGUMENT", "a spoilt text"),
        ("many", [[], []], "lists", "INVALID_ARGUMENT", "^`labels` must not be empty lists$"),
    ],
)
def test_invalid_requests_raise(client, model, inputs, signature, code, message):
    with pytest.raises(RequestError, match=message) as error:
        client.predict(model, inputs, signature=signature)
    assert error.value.code == code


def test_several_inputs_need_names(client):
    with pytest.raises(ValueError, match="`inputs` must be a dict of pair, text. Received: list"):
        client.predict("many", ["a"])


def test_ragged_lists_raise(client):
    with pytest.raises(ValueError, match='^input `labels` .* Pad shorter ones with ""$'):
        client.predict("many", [["a"], ["b", "c"]], signature="lists")


@pytest.mark.parametrize("value", ["a", 1 << 40, 1.5, True, None, float("nan")])
def test_what_is_no_integer_raises(client, value):
    with pytest.raises(ValueError, match="`token_ids`"):
        client.predict("many", [[value]], signature="ids")


@pytest.mark.parametrize("value", ["1", 1e39, 10**99, True, None])
def test_what_is_no_float_raises(client, value):
    with pytest.raises(ValueError, match="`x`"):
        client.predict("many", {"x": [value], "flip": [True]}, signature="divide")


@pytest.mark.parametrize("depth", [33, 5000])
def test_deep_lists_raise(client, depth):
    """NumPy's arrays have at most 32 axes."""
    deep = "a"
    for _ in range(depth):
        deep = [deep]
    with pytest.raises(ValueError, match="input"):
        client.predict("text", deep)


@pytest.mark.parametrize("inputs", [{"text": {"a"}}, [pathlib.Path("a")]])
def test_other_objects_raise(client, inputs):
    with pytest.raises(ValueError, match="input"):
        client.predict("text", inputs)


def test_timeout(protocol, server, gate, until):
    address = f"127.0.0.1:{port_of(server, protocol)}"
    client = Client(address, protocol, timeout=0.2)
    with pytest.raises(TimeoutError, match=f"{address} did not answer within 0.2 seconds"):
        client.predict("many", np.array([1]), signature="wait")
    gate.set()
    until(lambda: server.batcher.idle)


def test_an_unknown_protocol():
    with pytest.raises(ValueError, match="`protocol` must be rest or grpc. Received: protocol='soap'"):
        Client("localhost:1", "soap")

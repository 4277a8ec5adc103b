"""The client, over REST and gRPC."""

import http.server
import math
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

import keras_bert
from keras_bert.serving import Client, RequestError

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.fixture(params=["rest", "grpc"])
def client(request, server):
    port = server.port if request.param == "rest" else server.grpc_port
    with Client(f"127.0.0.1:{port}", request.param, timeout=20) as client:
        yield client


def test_predict(client):
    for inputs in (["a", "a longer öne"], {"text": np.array(["a", "a longer öne"])}):
        answer = client.predict("text", inputs)
        assert set(answer) == {"length", "label", "vector", "echo_bytes"}
        assert (answer["length"].dtype, answer["vector"].dtype) == (np.int32, np.float32)
        assert answer["length"].tolist() == [1, 13]
        assert answer["label"].tolist() == ["short", "long"]
        assert answer["echo_bytes"].tolist() == [b"a", "a longer öne".encode()]
        np.testing.assert_allclose(answer["vector"], [[1, 0.1, 2], [13, 1.3, 2]], rtol=1e-6)
    assert client.predict("text", {"text": [b"\xff\x00"]}, version=2)["echo_bytes"].tolist() == [b"\xff\x00"]
    assert client.predict("many", {"text": ["a"], "pair": ["b"]})["joined"].tolist() == ["a+b"]
    assert client.predict("many", [[1, 2], [3, 4]], signature="ids")["total"].tolist() == [3, 7]
    divided = client.predict("many", {"x": [0, 3.0, -math.inf], "flip": [False, True, False]}, signature="divide")
    np.testing.assert_array_equal(divided["quotient"], np.array([np.inf, -1 / 3, 0], "float32"))
    padded = client.predict("many", [["a", ""], ["b", "c"]], signature="lists")
    assert padded["joined"].tolist() == ["a+", "b+c"]


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
    ("model", "inputs", "options", "code", "message"),
    [
        ("other", ["a"], {}, "NOT_FOUND", "unknown model. Expected one of: many, text"),
        ("text", ["a"], {"signature": "x"}, "INVALID_ARGUMENT", "unknown signature `x`. Expected one of: serving_def"),
        ("text", {"txt": ["a"]}, {}, "INVALID_ARGUMENT", r"the input\(s\) `text` string \(batch,\). Received: `txt`"),
        ("many", ["spoilt"], {"signature": "picky"}, "INVALID_ARGUMENT", "a spoilt text"),
        ("many", [[], []], {"signature": "lists"}, "INVALID_ARGUMENT", "^`labels` must not be empty lists$"),
        ("many", ["a"], {}, None, "`inputs` must be a dict of pair, text. Received: list"),
    ],
)
def test_invalid_requests_raise(client, model, inputs, options, code, message):
    with pytest.raises(RequestError if code else ValueError, match=message) as error:
        client.predict(model, inputs, **options)
    assert getattr(error.value, "code", None) == code


@pytest.mark.parametrize(
    ("signature", "values", "make", "message"),
    [
        ("lists", [[["a"], ["b", "c"]]], list, '^input `labels` .* Pad shorter ones with ""$'),
        ("ids", ["a", 1 << 40, 1.5, True, None, float("nan")], lambda value: [[value]], "`token_ids`"),
        ("divide", ["1", 1e39, 10**99, True, None], lambda value: {"x": [value], "flip": [True]}, "`x`"),
    ],
)
def test_other_values_raise(client, signature, values, make, message):
    for value in values:
        with pytest.raises(ValueError, match=message):
            client.predict("many", make(value), signature=signature)


def test_deep_lists_and_other_objects_raise(client):
    deep = ["a", "a"]
    for place, depth in enumerate((33, 5000)):
        for _ in range(depth):
            deep[place] = [deep[place]]
    for inputs in (*deep, {"text": {"a"}}, [pathlib.Path("a")]):
        with pytest.raises(ValueError, match="input"):
            client.predict("text", inputs)


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_connection_refused(two_addresses, protocol):
    client = Client(two_addresses[0], protocol, timeout=5)
    with pytest.raises(ConnectionRefusedError, match=f"no server is listening at {two_addresses[0]}"):
        client.status("text")


def test_the_port_of_the_other_protocol(server):
    for protocol, port, other in (
        ("rest", server.grpc_port, "REST port .8501"),
        ("grpc", server.port, "gRPC port .8500"),
    ):
        with pytest.raises(
            ConnectionError, match=rf"^127.0.0.1:{port} does not answer in .* Use its {other} by default"
        ):
            Client(f"127.0.0.1:{port}", protocol, timeout=20).status("text")


def test_timeout(server, gate, until):
    for protocol, port in (("rest", server.port), ("grpc", server.grpc_port)):
        client = Client(f"127.0.0.1:{port}", protocol, timeout=0.2)
        with pytest.raises(TimeoutError, match=f"127.0.0.1:{port} did not answer within 0.2 seconds"):
            client.predict("many", np.array([1]), signature="wait")
    gate.set()
    until(lambda: server.batcher.idle)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("localhost:1", "soap"), "`protocol` must be rest or grpc. Received: protocol='soap'"),
        (("ftp://localhost", "rest"), "`address` must be host:port or an HTTP\\(S\\) URL. Received: address='ftp"),
        (("http://localhost:1", "grpc"), "`address` must be host:port for gRPC. Received: address='http"),
    ],
)
def test_invalid_constructor_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        Client(*arguments)


class Fickle(http.server.BaseHTTPRequestHandler):
    """Answers the first request of each connection, then closes it without announcing it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append(self.path)
        body = b'{"model_version_status": []}' if self.path.endswith("/text") else b"<html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_):
        pass


def test_closed_keep_alive_connections_are_reopened():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fickle) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(f"http://127.0.0.1:{server.server_port}/", timeout=10)
        assert [client.status("text") for _ in range(3)] == [[], [], []]
        assert server.asked == ["/v1/models/text"] * 3
        with pytest.raises(RequestError, match=r"did not return JSON \(HTTP 200\): <html>"):
            client.status("a b/c")
        assert server.asked[-1] == "/v1/models/a%20b%2Fc"
        server.shutdown()


@pytest.mark.slow
def test_rest_needs_only_urllib3_and_numpy(server):
    folder = pathlib.Path(keras_bert.__file__).parent
    # The package's `__init__` needs Keras; it is replaced here.
    program = f"""
import sys, types
sys.modules["keras_bert"] = types.ModuleType("keras_bert")
sys.modules["keras_bert"].__path__ = [{str(folder)!r}]
from keras_bert.serving import Client
print(Client("127.0.0.1:{server.port}").predict("text", ["abc"])["length"])
third = {{name.split(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
assert not third & {{"tensorflow", "keras", "grpc", "aiohttp", "tensorflow_serving"}}, third
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "[3]\n", done.stderr

"""The client over REST: connections, errors of the network, and JSON."""

import contextlib
import http.server
import pathlib
import subprocess
import sys
import threading
import typing

import numpy as np
import pytest

import keras_bert
from keras_bert.serving import Client, RequestError
from keras_bert.serving.rest_client import RestTransport


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers with the content of a path, and closes the connection after each answer without announcing it."""

    protocol_version = "HTTP/1.1"
    contents: typing.ClassVar[dict] = {}
    asked: typing.ClassVar[list] = []

    def do_GET(self):
        self.asked.append(self.path)
        status, body = self.contents.get(self.path, (404, b'{"error": "no such path"}'))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def answering():
    """Starts a server with contents, `(status, body)` by path; returns its URL and the paths that it is asked for."""
    with contextlib.ExitStack() as stack:

        def start(contents):
            handler = type("Handler", (Answers,), {"contents": contents, "asked": []})
            server = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
            threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}", handler.asked

        yield start


def test_closed_keep_alive_connections_are_reopened(answering):
    path = "/v1/models/text"
    url, asked = answering({path: (200, b'{"model_version_status": []}')})
    with Client(f"{url}/", timeout=10) as client:
        for _ in range(3):
            assert client.status("text") == []
    assert asked == [path] * 3


def test_names_of_models_are_quoted(answering):
    url, asked = answering({})
    with pytest.raises(RequestError, match="no such path"):
        Client(url, timeout=10).status("a b/c")
    assert asked == ["/v1/models/a%20b%2Fc"]


def test_the_path_of_a_proxy_comes_first(answering):
    url, asked = answering({})
    with pytest.raises(RequestError, match="no such path"):
        Client(f"{url}/proxy/", timeout=10).metadata("text", version=3)
    assert asked == ["/proxy/v1/models/text/versions/3/metadata"]


@pytest.mark.parametrize(
    ("status", "body", "code", "message"),
    [
        (200, b"<html>", "INTERNAL", r"did not return JSON \(HTTP 200\): <html>"),
        (404, b'{"error": "unknown model"}', "NOT_FOUND", "^unknown model$"),
        (413, b'{"error": "too long"}', "RESOURCE_EXHAUSTED", "^too long$"),
        (503, b"[]", "UNAVAILABLE", "^HTTP status 503$"),
        (418, b"{}", "UNKNOWN", "^HTTP status 418$"),
    ],
)
def test_answers_that_are_errors(answering, status, body, code, message):
    url, _ = answering({"/v1/models/text": (status, body)})
    with pytest.raises(RequestError, match=message) as error:
        Client(url, timeout=10).status("text")
    assert error.value.code == code


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("DT_BFLOAT16", "[0.5]", np.array([0.5], "float32")),
        ("DT_UINT8", "[[1, 2]]", np.array([[1, 2]], "uint8")),
        ("DT_BOOL", "[true]", np.array([True])),
        ("DT_FLOAT", "[NaN, -Infinity]", np.array([np.nan, -np.inf], "float32")),
        ("DT_STRING", '[["a", {"b64": "/wA="}]]', np.array([["a", b"\xff\0"]], object)),
        ("DT_STRING", "[]", np.array([], object)),
    ],
)
def test_outputs_have_the_dtype_of_the_signature(answering, dtype, value, expected):
    """An output that is the only one has no name."""
    url, _ = answering({"/v1/models/m:predict": (200, f'{{"outputs": {value}}}'.encode())})
    found = RestTransport(url, 10).predict("m", {}, None, "s", {}, {"only": dtype})
    assert found["only"].dtype == expected.dtype
    np.testing.assert_array_equal(found["only"], expected)


def test_a_server_without_facts_about_a_model(answering):
    """TensorFlow Serving has no such request."""
    url, _ = answering({"/about/text": (200, b'{"head": "encoder"}')})
    client = Client(url, timeout=10)
    assert client.about("text") == {"head": "encoder"}
    assert client.about("other") == {}


@pytest.mark.parametrize("address", ["ftp://localhost", "http://", "https:///path"])
def test_an_address_that_is_no_host(address):
    with pytest.raises(ValueError, match=r"`address` must be host:port or an HTTP\(S\) URL. Received: address='"):
        RestTransport(address, 1)


def test_no_server(two_addresses):
    address, _ = two_addresses
    with pytest.raises(ConnectionRefusedError, match=f"no server is listening at {address}"):
        RestTransport(address, 5).status("text")


@pytest.mark.tensorflow
def test_the_port_of_grpc(server):
    address = f"127.0.0.1:{server.grpc_port}"
    with pytest.raises(ConnectionError, match=rf"^{address} does not answer in HTTP.* Use its REST port .8501"):
        RestTransport(address, 20).status("text")


@pytest.mark.tensorflow
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

"""The REST API as documented by TensorFlow Serving, and the source of the web page."""

import base64
import contextlib
import gzip
import hashlib
import http.client
import math
import re
import shutil
import socket
import threading

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

A = {"length": 1, "label": "short", "vector": [1.0, 0.1, 2.0], "echo_bytes": {"b64": "YQ=="}}
COLUMNS = {"length": [1], "label": ["short"], "vector": [[1.0, 0.1, 2.0]], "echo_bytes": [{"b64": "YQ=="}]}
ODD = {"b64": base64.b64encode(b"\xff\xfe \xe2").decode()}
ODD_ANSWER = {"length": 4, "label": "short", "vector": [4.0, 0.4, 2.0], "echo_bytes": ODD}


@pytest.mark.parametrize(
    ("model", "body", "answer"),
    [
        ("text", {"instances": ["a", "a"]}, {"predictions": [A, A]}),
        ("text", {"instances": [{"text": "a"}]}, {"predictions": [A]}),
        ("text", {"inputs": ["a"]}, {"outputs": COLUMNS}),
        ("text", {"inputs": {"text": ["a"]}}, {"outputs": COLUMNS}),
        ("text", {"instances": [ODD]}, {"predictions": [ODD_ANSWER]}),
        ("text", {"instances": [{"text": ODD}]}, {"predictions": [ODD_ANSWER]}),
        # A single output has no name.
        ("many", {"instances": [{"text": "a", "pair": ""}]}, {"predictions": ["a+"]}),
        ("many", {"signature_name": "ids", "inputs": [[1, 2], [3, 4]]}, {"outputs": [3, 7]}),
    ],
)
def test_rows_and_columns(server, model, body, answer):
    assert server.predict(model, body) == (200, answer)


def test_nan_and_infinity(server):
    flips = b'"flip": [false, false, true, true, true]'
    body = b'{"signature_name": "divide", "inputs": {"x": [0, -0.0, NaN, Infinity, 3], ' + flips + b"}}"
    status, answer = server.predict("many", body)
    assert status == 200
    np.testing.assert_equal(answer["outputs"], [math.inf, -math.inf, math.nan, -0.0, -0.33333334])


@pytest.mark.parametrize("where", ["text", "text/versions/2"])
def test_a_version_has_a_path(server, where):
    status, answer = server.predict(where, {"instances": ["a"]})
    assert status == 200
    assert answer["predictions"][0]["vector"][2] == 2
    version = {"version": "2", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert server.send("GET", f"/v1/models/{where}") == (200, {"model_version_status": [version]})
    status, answer = server.send("GET", f"/v1/models/{where}/metadata")
    assert status == 200
    assert answer["model_spec"] == {"name": "text", "signature_name": "", "version": "2"}


def test_metadata(server):
    _, answer = server.send("GET", "/v1/models/text/metadata")
    assert set(answer["metadata"]["signature_def"]) == {"signature_def"}
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    text = signature["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert set(signature["outputs"]) == {"length", "label", "vector", "echo_bytes"}


def test_paths_of_this_server(server):
    """TensorFlow Serving has none of them."""
    assert server.send("GET", "/v1/models") == (200, {"models": ["many", "text"]})
    assert server.send("GET", "/about/text") == (200, {})
    status, _ = server.send("GET", "/about/no")
    assert status == 404
    assert server.send("GET", "/nothing") == (404, {"error": "404 Not Found: GET /nothing"})


def test_classify(server):
    low = [["low", 0.75], ["high", 0.25]]
    high = [["low", 0.0], ["high", 1.0]]
    request = {"signature_name": "classify", "examples": [{"x": 0.25}, {"x": [1.0]}]}
    assert server.predict("many", request, "classify") == (200, {"results": [low, high]})
    request = {"signature_name": "classify", "context": {"x": 0.25}, "examples": [{}, {"x": 1.0}, {"other": True}]}
    assert server.predict("many", request, "classify") == (200, {"results": [low, high, low]})


def test_regress(server):
    examples = [{"x": 0.5, "y": "z"}, {"x": 1.0, "b": {"b64": "YQ=="}}]
    request = {"signature_name": "regress", "examples": examples}
    assert server.predict("many", request, "regress") == (200, {"results": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is not JSON: Expecting property name"),
        (b"\xff", "the body is not JSON: 'utf-8' codec can't decode byte 0xff in position 0"),
        (b"[" * 100000, "the body is not JSON: maximum recursion depth exceeded"),
        ([], "the body must be a JSON object. Received: list"),
        ({"instances": ["a"], "signature_name": 3}, '"signature_name" must be a string'),
        ({"inputs": []}, "the request has no rows. Expected at least one"),
        ({"instances": ["a", 3]}, 'input `text`: value 1 must be a string or {"b64": "..."}: received 3'),
        (b'{"instances": ["\\ud800"]}', "surrogates not allowed"),
        (b'{"inputs": ' + b"[" * 900 + b'"a"' + b"]" * 900 + b"}", "string (batch,). Received: shape=(1,"),
    ],
)
def test_bodies_that_are_no_requests(server, body, message):
    """The values of a request have tests in test_tensors.py."""
    status, answer = server.predict("text", body)
    assert status == 400
    assert message in answer["error"]
    assert "\n" not in answer["error"]


@pytest.mark.parametrize(
    ("signature", "inputs", "status", "message"),
    [
        ("serving_default", {"text": ["a"], "pair": ["b", "c"]}, 400, "number of rows. Received: `pair` 2, `text` 1"),
        ("ids", [1], 400, "must be int32 (batch, any). Received: shape=(1,)"),
        ("classify", [{"b64": "/w=="}], 400, "Could not parse example input"),
        ("unique", ["a", "a"], 500, "output `words` has the shape (1,): its"),
    ],
)
def test_inputs_and_outputs_that_do_not_suit_the_signature(server, signature, inputs, status, message):
    found_status, answer = server.predict("many", {"signature_name": signature, "inputs": inputs})
    assert found_status == status
    assert message in answer["error"]
    assert "\n" not in answer["error"]


def test_outputs_without_rows(server):
    status, answer = server.predict("many", {"signature_name": "whole", "instances": ["a", "b"]})
    assert status == 500
    assert "output `count` has the shape (): its first dim" in answer["error"]


@pytest.mark.parametrize(
    ("model", "status", "message"),
    [
        ("text/versions/9", 404, "version 9 of model text is not loaded. Expected one of: 2"),
        ("", 400, "Malformed request: POST /v1/models/:predict: expected GET /v1/models/NAME[/vers"),
        (f"text/versions/{2**63}", 400, "Malformed request: the version 9223372036854775808 is no"),
        ("text/versions/" + "9" * 5000, 400, "Malformed request: POST /v1/models/text/versions/99"),
    ],
)
def test_models_and_versions_that_are_not_served(server, model, status, message):
    found_status, answer = server.predict(model, {"inputs": ["a"]})
    assert found_status == status
    assert message in answer["error"]


@pytest.mark.parametrize(
    ("signature", "examples", "message"),
    [
        ("ids", [{"x": 1.0}], "signature `ids` is not for classify: expected the method"),
        ("classify", [{"\ud83d": 1.0}], "feature `?` of example 0: "),
        ("classify", [{"y": 1.0}], "model execution failed"),
    ],
)
def test_invalid_examples(server, signature, examples, message):
    status, answer = server.predict("many", {"signature_name": signature, "examples": examples}, "classify")
    assert status == 400
    assert message in answer["error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models/text:predict"),
        ("POST", "/v1/models/text"),
        ("POST", "/v1/models/text:summarize"),
        ("GET", "/v1/models/text/versions/one"),
        ("GET", "/v1/models/text/metadata/more"),
        ("GET", "/v1/models/"),
        ("GET", "/v1/"),
    ],
)
def test_malformed_requests(server, method, path):
    """As in TensorFlow Serving, paths below /v1/ that match no pattern are malformed requests."""
    status, answer = server.send(method, path, {} if method == "POST" else None)
    assert status == 400
    assert answer["error"].startswith(f"Malformed request: {method} {path}: ")


@pytest.mark.parametrize(
    ("request_", "api"),
    [
        ({"instances": [1] * 1001}, "predict"),
        ({"inputs": [1] * 1001}, "predict"),
        ({"inputs": {"text": [1] * 1001}}, "predict"),
        ({"examples": [1] * 1001}, "classify"),
    ],
    ids=["instances", "inputs", "columns", "examples"],
)
def test_too_many_rows_are_refused_before_they_are_read(server, request_, api):
    """Not one of the rows is valid."""
    status, answer = server.predict("text", request_, api)
    assert status == 413
    message = "the request has 1001 rows. Expected at most 1000 (--max_request_rows): send several requests"
    assert answer["error"] == message


def ask(server, method="GET", **headers):
    """Returns the status and the error of a request with these headers; without a `Host` in HTTP/1.0."""
    version = "1.1" if "Host" in headers else "1.0"
    lines = [f"{method} /v1/models HTTP/{version}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += ["Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall("\r\n".join(lines).encode())
        answer = received(connection).decode()
    return int(answer.split()[1]), answer.rpartition("\r\n")[2]


def received(connection):
    """Returns all bytes until the other side closes the connection."""
    return b"".join(iter(lambda: connection.recv(1000), b""))


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:{port}", "127.0.0.1:{port}", "[::1]:{port}", "[::1]", "10.1.2.3:80"]
)
def test_pages_of_this_server(server, host):
    host = host.format(port=server.port)
    status, _ = ask(server, Host=host)
    assert status == 200
    status, _ = ask(server, Host=host, Origin=f"http://{host}")
    assert status == 200


def test_requests_without_a_host(server):
    """As of probes; browsers send one."""
    status, _ = ask(server)
    assert status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8501", "localhost.evil.example", "127.0.0.1.evil.example", "[", "a@b"],
)
def test_names_of_other_hosts_are_refused(server, host):
    """A browser sends the name of the page's host, which the owner of the name may lead to this machine."""
    status, error = ask(server, Host=host)
    assert status == 403
    assert f"the host {host} is not" in error
    assert "--allowed_hosts" in error


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:3000", "http://10.1.2.3", "http://["]
)
def test_pages_of_other_hosts_are_refused(server, origin):
    status, error = ask(server, "POST", Host=f"localhost:{server.port}", Origin=origin)
    assert status == 403
    assert f"a page of another host, {origin}." in error


@pytest.fixture(scope="module")
def impatient(running, toys, tmp_path_factory):
    """A server that waits 0.3 seconds for clients, and has a name."""
    folder = tmp_path_factory.mktemp("impatient")
    shutil.copytree(toys / "text" / "1", folder / "text" / "1")
    with running(folder, read_seconds=0.3, allowed_hosts=["Models.example"], grpc_port=None) as server:
        yield server


def test_clients_that_do_not_finish_their_headers_are_disconnected(impatient):
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        assert connection.recv(1000) == b""


def test_clients_that_do_not_finish_their_body_are_disconnected(impatient):
    with raw(impatient, "Content-Length: 100", b"{") as connection:
        answer = connection.recv(1000)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not arrive within 0.3 seconds" in answer


@pytest.mark.parametrize(
    "headers", [{"Host": "models.example:80"}, {"Host": "localhost", "Origin": "https://models.example"}]
)
def test_allowed_hosts(impatient, headers):
    status, _ = ask(impatient, **headers)
    assert status == 200


def test_all_hosts_are_allowed(running, tmp_path):
    with running(tmp_path, allowed_hosts=["*"], ready=False, grpc_port=None) as server:
        status, _ = ask(server, Host="any.example", Origin="http://other.example")
    assert status == 200


def raw(server, headers, body, model="text"):
    """Returns a connection that has sent the headers and possibly only a part of the body of a predict request."""
    head = f"POST /v1/models/{model}:predict HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n"
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    connection.sendall(head.encode() + body)
    return connection


BOMB = gzip.compress(b" " * (9 << 20))


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Content-Length: 9000000", b""),  # Before any of it is read.
        ("Transfer-Encoding: chunked", b"900000\r\n" + b" " * (9 << 20)),
        (f"Content-Encoding: gzip\r\nContent-Length: {len(BOMB)}", BOMB),
    ],
    ids=["length", "chunked", "gzip"],
)
def test_large_bodies_are_rejected(server, headers, body):
    with raw(server, headers, body) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Content-Encoding: deflate\r\nContent-Length: 20", b'{"instances": ["a"]}'),
        ("Transfer-Encoding: chunked", b"none\r\n"),
        ("no header\r\nContent-Length: 0", b""),
    ],
)
def test_malformed_http_is_logged_in_one_line(server, caplog, headers, body):
    caplog.set_level("INFO")
    with raw(server, headers, body) as connection:
        answer = received(connection)
    assert answer.split()[1] == b"400"
    assert re.search("(malformed HTTP|the body cannot be read): 400, message: ", caplog.text)
    assert not any(record.exc_info for record in caplog.records)


def test_disconnected_clients_leave_the_queue(server, gate, until):
    body = b'{"signature_name": "wait", "inputs": [1]}'
    headers = f"Content-Length: {len(body)}"
    batcher = server.batcher
    running = []
    for count in (1, 2):  # One for each thread.
        running.append(raw(server, headers, body, "many"))
        until(lambda count=count: batcher.running == count)
    waiting = raw(server, headers, body, "many")
    until(lambda: batcher.waiting == 1)
    waiting.close()
    until(lambda: batcher.waiting == 0)
    gate.set()
    for connection in running:
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        connection.close()
    until(lambda: batcher.idle)


def test_full_queue(running, toys, until, gate):
    request = {"signature_name": "wait", "inputs": [1]}
    with running(toys, max_queue=1, grpc_port=None) as server:
        batcher = server.batcher
        threads = []
        for running_requests, waiting_requests in ((1, 0), (2, 0), (2, 1)):
            thread = threading.Thread(target=server.predict, args=["many", request])
            thread.start()
            threads.append(thread)
            expected = (running_requests, waiting_requests)
            until(lambda expected=expected: (batcher.running, batcher.waiting) == expected)
        status, answer = server.predict("text", {"instances": ["a"]})
        assert status == 429
        assert "1 requests are waiting" in answer["error"]
        gate.set()
        for thread in threads:
            thread.join()


def test_the_page_is_self_contained(server):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("GET", "/")
        response = connection.getresponse()
        page = response.read().decode()
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert not re.search(r"https?://|src=|@import|\burl\(|innerHTML|outerHTML|insertAdjacent|document\.write", page)
    assert set(re.findall(r'href="(.*?)"', page)) == {"data:,"}
    policy = dict(part.split(" ", 1) for part in response.headers["Content-Security-Policy"].split("; "))
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy.pop(f"{tag}-src") == f"'sha256-{digest}'"
    none = ("default-src", "base-uri", "form-action", "frame-ancestors")
    others = {"connect-src": "'self'", "img-src": "data:", "require-trusted-types-for": "'script'"}
    assert policy == dict.fromkeys(none, "'none'") | others
    assert response.headers["X-Content-Type-Options"] == "nosniff"

"""The REST API as documented by TensorFlow Serving, and the source of the web page."""

import base64
import contextlib
import gzip
import hashlib
import http.client
import math
import os
import re
import socket
import threading

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

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


def test_versions_status_and_metadata(server):
    version = {"version": "2", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    for where in ("", "/versions/2"):
        status, answer = server.predict(f"text{where}", {"instances": ["a"]})
        assert (status, answer["predictions"][0]["vector"][2]) == (200, 2)
        assert server.send("GET", f"/v1/models/text{where}") == (200, {"model_version_status": [version]})
        status, answer = server.send("GET", f"/v1/models/text{where}/metadata")
        assert (status, answer["model_spec"]) == (200, {"name": "text", "signature_name": "", "version": "2"})
    assert set(answer["metadata"]["signature_def"]) == {"signature_def"}
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    text = signature["inputs"]["text"]
    shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert (text["dtype"], text["tensor_shape"]) == ("DT_STRING", shape)
    assert set(signature["outputs"]) == {"length", "label", "vector", "echo_bytes"}
    assert server.send("GET", "/v1/models") == (200, {"models": ["many", "text"]})
    assert server.send("GET", "/about/text") == (200, {})
    assert server.send("GET", "/about/no")[0] == 404
    assert server.send("GET", "/nothing") == (404, {"error": "404 Not Found: GET /nothing"})


def test_classify_and_regress(server):
    from keras_bert.serving.server.saved_model import CLASSIFY
    from keras_bert.serving.server.tensors import labels_or_numbers

    examples = [{"x": 0.25}, {"x": [1.0]}]
    asked = {"signature_name": "classify", "examples": examples}
    rows = [[["low", 0.75], ["high", 0.25]], [["low", 0.0], ["high", 1.0]]]
    assert server.predict("many", asked, "classify") == (200, {"results": rows})
    asked = {"signature_name": "classify", "context": {"x": 0.25}, "examples": [{}, {"x": 1.0}, {"other": True}]}
    assert server.predict("many", asked, "classify")[1]["results"] == [*rows, rows[0]]
    asked = {"signature_name": "regress", "examples": [{"x": 0.5, "y": "z"}, {"x": 1.0, "b": {"b64": "YQ=="}}]}
    assert server.predict("many", asked, "regress") == (200, {"results": [1.0, 2.0]})
    # A model may return only labels or only scores.
    assert labels_or_numbers(CLASSIFY, {"scores": np.array([[0.25]])}, 1) == [[("", 0.25)]]
    assert labels_or_numbers(CLASSIFY, {"classes": np.array([[b"low"]], object)}, 1) == [[("low", 0.0)]]


TEXT = "`text` string (batch,)"
PAIR = "`pair` string (batch,), `text` string (batch,)"


@pytest.mark.parametrize(
    ("model", "body", "message"),
    [
        ("text", b"{", "the body is not JSON: Expecting property name"),
        ("text", b"\xff", "the body is not JSON: 'utf-8' codec can't decode byte 0xff in position 0"),
        ("text", b"[" * 100000, "the body is not JSON: maximum recursion depth exceeded"),
        ("text", [], "the body must be a JSON object. Received: list"),
        ("text", {}, 'expected either "instances" (rows) or "inputs" (columns) in the request'),
        ("text", {"instances": []}, '"instances" must be a list of at least one row'),
        ("text", {"inputs": []}, "the request has no rows. Expected at least one"),
        ("text", {"instances": ["a"], "signature_name": 3}, '"signature_name" must be a string'),
        ("text", {"instances": [{"txt": "a"}]}, f"row 0: expected the input(s) {TEXT}. Received: `txt`"),
        ("text", {"instances": [{"text": "a"}, "b"]}, f"row 1: expected the input(s) {TEXT}. Received: not an"),
        ("text", {"instances": ["a", {"text": "b"}]}, "value 1 must be a string or"),
        ("many", {"inputs": ["a"]}, f'"inputs" must name the inputs of the signature: {PAIR}. Received: plain'),
        ("many", {"inputs": {"text": ["a"], "pair": ["b", "c"]}}, "number of rows. Received: `pair` 2, `text` 1"),
        ("text", {"instances": ["a", 3]}, 'input `text`: value 1 must be a string or {"b64": "..."}: received 3'),
        ("text", {"instances": [{"b64": "a"}]}, 'value 0 must be a string or {"b64": "..."}: Invalid base64'),
        ("text", b'{"instances": ["\\ud800"]}', "surrogates not allowed"),
        ("text", {"instances": [["a"]]}, f"input {TEXT.replace(' ', ' must be ', 1)}. Received: shape=(1, 1)"),
        ("text", b'{"inputs": ' + b"[" * 900 + b'"a"' + b"]" * 900 + b"}", "string (batch,). Received: shape=(1,"),
        ("many:ids", {"inputs": [[1], [2, 3]]}, "input `token_ids` is ragged"),
        ("many:ids", {"inputs": [1]}, "must be int32 (batch, any). Received: shape=(1,)"),
        ("many:ids", {"inputs": [[1.5]]}, "value 0 must be an integer. Received: 1.5"),
        ("many:ids", {"inputs": [[1 << 31]]}, "a value is out of range for int32"),
        ("many:divide", {"inputs": {"x": [1e39], "flip": [True]}}, "range for float32"),
        ("many:divide", {"inputs": {"x": [1], "flip": [1]}}, "value 0 must be true or false"),
        ("many:whole", {"instances": ["a", "b"]}, "500 output `count` has the shape (): its first dim"),
        ("many:unique", {"inputs": ["a", "a"]}, "500 output `words` has the shape (1,): its"),
        ("many:classify", {"inputs": [{"b64": "/w=="}]}, "Could not parse example input"),
        ("text/versions/9", {"inputs": ["a"]}, "404 version 9 of model text is not loaded. Expected one of: 2"),
        ("", {}, "400 Malformed request: POST /v1/models/:predict: expected GET /v1/models/NAME[/vers"),
        (f"text/versions/{2**63}", {}, "400 Malformed request: the version 9223372036854775808 is no"),
        ("text/versions/" + "9" * 5000, {}, "400 Malformed request: POST /v1/models/text/versions/99"),
    ],
)
def test_error_messages_of_invalid_requests(server, model, body, message):
    """The models are followed by a signature, the messages preceded by a status other than 400."""
    model, _, signature = model.partition(":")
    status, answer = server.predict(model, body | {"signature_name": signature} if signature else body)
    assert message in f"{status} {answer['error']}"
    assert status == int(message[:3] if message[:3].isdigit() else 400)
    assert "\n" not in answer["error"]


@pytest.mark.parametrize(
    ("signature", "examples", "message"),
    [
        ("ids", [{"x": 1.0}], "signature `ids` is not for classify: expected the method"),
        ("classify", [], "with at least one example"),
        ("classify", [{"x": [1, "a"]}], "feature `x` of example 0 must contain only"),
        ("classify", [{"x": 1e39}], "feature `x` of example 0: a value is out of range for float32"),
        ("classify", [{"x": {"b64": "YQ==", "c": 1}}], "feature `x` of example 0: received {"),
        ("classify", [{"\ud83d": 1.0}], "feature `?` of example 0: "),
        ("classify", [{"y": 1.0}], "model execution failed"),
    ],
)
def test_error_messages_of_invalid_examples(server, signature, examples, message):
    status, answer = server.predict("many", {"signature_name": signature, "examples": examples}, "classify")
    assert (status, message in answer["error"]) == (400, True), answer


def test_malformed_requests(server):
    """As in TensorFlow Serving, paths below /v1/ that match no pattern are malformed requests."""
    for request in (
        *("GET /v1/models/text:predict", "POST /v1/models/text", "POST /v1/models/text:summarize"),
        *("GET /v1/models/text/versions/one", "GET /v1/models/text/metadata/more", "GET /v1/models/", "GET /v1/"),
    ):
        method, path = request.split()
        status, answer = server.send(method, path, None if method == "GET" else {})
        assert (status, answer["error"].startswith(f"Malformed request: {request}: ")) == (400, True)


def test_metrics(server):
    server.predict("text", {"inputs": ["a"]})
    server.predict("text", {"inputs": [3]})
    status, text = server.send("GET", "/metrics")
    assert status == 200
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    call = ("api", "rest:predict"), ("model", "text")
    for code in ("OK", "INVALID_ARGUMENT"):
        assert found["keras_bert_requests_total", call[0], ("code", code), call[1], ("version", "2")] >= 1
    assert found["keras_bert_request_seconds_count", *call] >= 2
    assert found["keras_bert_batch_rows_sum", ("model", "text")] >= 1
    assert (found["keras_bert_waiting_requests",], found["keras_bert_ready",]) == (0, 1)


@pytest.mark.parametrize(
    "rows", [{"instances": 1001}, {"inputs": 1001}, {"inputs": {"text": 1001}}, {"examples": 1001}]
)
def test_too_many_rows_are_refused_before_they_are_read(server, rows):
    ((key, number),) = rows.items()
    # Not one of the rows is valid.
    values = {"text": [1] * number["text"]} if isinstance(number, dict) else [1] * number
    status, answer = server.predict("text", {key: values}, "classify" if key == "examples" else "predict")
    message = "the request has 1001 rows. Expected at most 1000 (--max_request_rows): send several requests"
    assert (status, answer["error"]) == (413, message)


def ask(server, method="GET", **headers):
    """Returns the status and the error of a request with these headers; without a `Host` in HTTP/1.0."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        version = "1.1" if "Host" in headers else "1.0"
        connection.sendall(f"{method} /v1/models HTTP/{version}\r\n{lines}Connection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(1000), b"")).decode()
    return int(answer.split()[1]), answer.rpartition("\r\n")[2]


def test_pages_of_other_hosts_are_refused(server):
    """A browser sends the name of the page's host, which the owner of the name may lead to this machine."""
    port = server.port
    for host in ("localhost", f"LOCALHOST:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "[::1]", "10.1.2.3:80"):
        assert ask(server, Host=host)[0] == 200, host
        assert ask(server, Host=host, Origin=f"http://{host}")[0] == 200, host
    assert ask(server)[0] == 200  # As probes do; no browser does.
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[",
        "a@b",
    ):
        status, error = ask(server, Host=host)
        assert (status, f"the host {host} is not" in error, "--allowed_hosts" in error) == (403, True, True), host
    for origin in ("http://evil.example", "null", "http://localhost:3000", "http://10.1.2.3", "http://["):
        status, error = ask(server, "POST", Host=f"localhost:{port}", Origin=origin)
        assert (status, f"a page of another host, {origin}." in error) == (403, True), origin


def test_slow_clients_and_allowed_hosts(running, shelf_folder):
    """Clients that do not finish their headers or their body in time are disconnected."""
    with running(shelf_folder, read_seconds=0.3, allowed_hosts=["Models.example"], grpc_port=None) as server:
        half = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        half.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        with contextlib.closing(half), contextlib.closing(raw(server, "Content-Length: 100", b"{")) as connection:
            answer = connection.recv(1000)
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"the body did not arrive within 0.3 seconds" in answer
            assert half.recv(1000) == b""
        for headers in ({"Host": "models.example:80"}, {"Host": "localhost", "Origin": "https://models.example"}):
            assert ask(server, **headers)[0] == 200
    with running(shelf_folder, allowed_hosts=["*"], ready=False, grpc_port=None) as server:
        assert ask(server, Host="any.example", Origin="http://other.example")[0] == 200


def raw(server, headers, body, model="text"):
    """Returns a connection that has sent the headers and possibly only a part of the body of a predict request."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    connection.sendall(
        f"POST /v1/models/{model}:predict HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n".encode() + body
    )
    return connection


def test_large_bodies_are_rejected(server):
    bomb = gzip.compress(b" " * (9 << 20))
    for headers, body in (
        ("Content-Length: 9000000", b""),  # Before any of it is read.
        ("Transfer-Encoding: chunked", b"900000\r\n" + b" " * (9 << 20)),
        (f"Content-Encoding: gzip\r\nContent-Length: {len(bomb)}", bomb),
    ):
        with contextlib.closing(raw(server, headers, body)) as connection:
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
    with contextlib.closing(raw(server, headers, body)) as connection:
        answer = b"".join(iter(lambda: connection.recv(1000), b""))
    assert answer.split()[1] == b"400"
    assert "malformed HTTP: 400, message: " in caplog.text or "the body cannot be read: 400, message: " in caplog.text
    assert not any(record.exc_info for record in caplog.records)


def test_disconnected_clients_leave_the_queue(server, gate, until):
    def ask():
        body = b'{"signature_name": "wait", "inputs": [1]}'
        return raw(server, f"Content-Length: {len(body)}", body, "many")

    batcher, running = server.batcher, []
    for _ in range(2):  # One for each thread.
        running.append(ask())
        until(lambda: batcher.running == len(running))
    waiting = ask()
    until(lambda: batcher.waiting == 1)
    waiting.close()
    until(lambda: batcher.waiting == 0)
    gate.set()
    for connection in running:
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        connection.close()
    until(lambda: batcher.idle)


def test_models_added_after_the_start(running, tmp_path, drop, until):
    with running(tmp_path, ready=False, grpc_port=None) as server:
        assert server.send("GET", "/healthz") == (503, "no model is loaded yet\n")
        (tmp_path / os.fsdecode(b"caf\xe9") / "1").mkdir(parents=True)
        (tmp_path / "text" / str(2**63)).mkdir(parents=True)  # No 64-bit integer.
        drop("text/1", tmp_path / "text" / "1")
        until(lambda: server.send("GET", "/healthz") == (200, "ok\n"))
        assert server.send("GET", "/v1/models") == (200, {"models": ["caf?", "text"]})
        (version,) = server.send("GET", "/v1/models/text")[1]["model_version_status"]
        assert (version["version"], version["state"]) == ("1", "AVAILABLE")
        status, answer = server.predict("text", {"instances": ["a"]})
        assert (status, answer["predictions"][0]["vector"][2]) == (200, 1)


def test_full_queue(running, toys, until, gate):
    wait = {"signature_name": "wait", "inputs": [1]}
    with running(toys, max_queue=1, grpc_port=None) as server:
        batcher, threads = server.batcher, []
        for condition in (lambda: batcher.running == 1, lambda: batcher.running == 2, lambda: batcher.waiting == 1):
            threads.append(threading.Thread(target=server.predict, args=["many", wait]))
            threads[-1].start()
            until(condition)
        status, answer = server.predict("text", {"instances": ["a"]})
        assert (status, "1 requests are waiting" in answer["error"]) == (429, True)
        gate.set()
        for thread in threads:
            thread.join()


def test_the_page_is_self_contained(server):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("GET", "/")
        response = connection.getresponse()
        page = response.read().decode()
    assert (response.status, response.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
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

"""The REST API, as TensorFlow Serving documents it."""

import base64
import contextlib
import gzip
import json
import math
import socket
import threading
import time

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

A = {"length": 1, "label": "short", "vector": [1.0, 0.1, 2.0], "echo_bytes": {"b64": "YQ=="}}


def test_rows(server):
    status, answer = server.predict("text", {"instances": ["a", "a longer one"]})
    assert status == 200
    assert answer["predictions"][0] == A
    assert answer["predictions"][1]["label"] == "long"
    assert server.predict("text", {"instances": [{"text": "a"}]}) == (200, {"predictions": [A]})


def test_columns(server):
    expected = {"length": [1], "label": ["short"], "vector": [[1.0, 0.1, 2.0]], "echo_bytes": [{"b64": "YQ=="}]}
    for inputs in (["a"], {"text": ["a"]}):
        assert server.predict("text", {"inputs": inputs}) == (200, {"outputs": expected})


def test_one_output_has_no_name(server):
    pairs = {"instances": [{"text": "a", "pair": "b"}, {"text": "c", "pair": ""}]}
    assert server.predict("many", pairs) == (200, {"predictions": ["a+b", "c+"]})
    ids = {"signature_name": "ids", "inputs": [[1, 2], [3, 4]]}
    assert server.predict("many", ids) == (200, {"outputs": [3, 7]})


def test_base64_in_and_out(server):
    odd = base64.b64encode(b"\xff\xfe \xe2").decode()
    status, answer = server.predict("text", {"instances": [{"b64": odd}, {"text": {"b64": odd}}][:1]})
    assert status == 200
    assert answer["predictions"][0]["echo_bytes"] == {"b64": odd}
    status, answer = server.predict("text", {"instances": [{"text": {"b64": odd}}]})
    assert answer["predictions"][0]["length"] == 4


def test_numbers_that_json_lacks(server):
    flips = b'"flip": [false, false, true, true, true]'
    body = b'{"signature_name": "divide", "inputs": {"x": [0, -0.0, NaN, Infinity, 3], ' + flips + b"}}"
    status, answer = server.predict("many", body)
    assert status == 200
    values = answer["outputs"]
    assert values[:2] == [math.inf, -math.inf]
    assert math.isnan(values[2])
    assert values[3:] == [0, -0.33333334]


@pytest.mark.parametrize(("where", "number"), [("", 2), ("/versions/2", 2), ("/versions/1", 1), ("/labels/old", 1)])
def test_versions_and_labels(server, where, number):
    status, answer = server.predict(f"text{where}", {"instances": ["a"]})
    assert (status, answer["predictions"][0]["vector"][2]) == (200, number)
    status, answer = server.send("GET", f"/v1/models/text{where}/metadata")
    assert (status, answer["model_spec"]) == (200, {"name": "text", "signature_name": "", "version": str(number)})


def test_status(server):
    def available(number):
        status = {"error_code": "OK", "error_message": ""}
        return {"version": str(number), "state": "AVAILABLE", "status": status}

    expected = {"model_version_status": [available(2), available(1)]}
    assert server.send("GET", "/v1/models/text") == (200, expected)
    assert server.send("GET", "/v1/models/text/versions/1") == (200, {"model_version_status": [available(1)]})
    assert server.send("GET", "/v1/models") == (200, {"models": ["many", "text"]})


def test_metadata(server):
    status, answer = server.send("GET", "/v1/models/text/metadata")
    assert status == 200
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["method_name"] == "tensorflow/serving/predict"
    text = signature["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert set(signature["outputs"]) == {"length", "label", "vector", "echo_bytes"}


def test_classify_and_regress(server):
    examples = [{"x": 0.25}, {"x": [1.0]}]
    asked = {"signature_name": "classify", "examples": examples}
    rows = [[["low", 0.75], ["high", 0.25]], [["low", 0.0], ["high", 1.0]]]
    assert server.predict("many", asked, "classify") == (200, {"results": rows})
    asked = {"signature_name": "regress", "examples": examples}
    assert server.predict("many", asked, "regress") == (200, {"results": [0.5, 2.0]})
    asked = {"signature_name": "regress", "context": {"x": 0.5}, "examples": [{}, {"y": "z"}]}
    assert server.predict("many", asked, "regress") == (200, {"results": [1.0, 1.0]})
    asked = {"signature_name": "no_scores", "examples": examples[:1]}
    assert server.predict("many", asked, "classify") == (200, {"results": [[["low", 0.0], ["high", 0.0]]]})


TEXT = "`text` string (batch,)"
PAIR = "`pair` string (batch,), `text` string (batch,)"


@pytest.mark.parametrize(
    ("model", "body", "status", "message"),
    [
        ("text", b"{", 400, "the body is not JSON: Expecting property name"),
        ("text", b"\xff", 400, "the body is not UTF-8: byte 0"),
        ("text", b"[" * 100000, 400, "the body is nested too deeply"),
        ("text", [], 400, "the body must be a JSON object. Received: list"),
        ("text", {}, 400, 'expected either "instances" (rows) or "inputs" (columns) in the request'),
        ("text", {"instances": [], "inputs": []}, 400, 'expected either "instances" (rows) or "inputs" (columns)'),
        ("text", {"instances": []}, 400, '"instances" must be a list of at least one row'),
        ("text", {"instances": "a"}, 400, '"instances" must be a list of at least one row'),
        ("text", {"inputs": []}, 400, "there is no row. Expected at least one"),
        ("text", {"instances": ["a"], "signature_name": 3}, 400, '"signature_name" must be a string'),
        (
            "text",
            {"instances": ["a"], "signature_name": "x"},
            400,
            "no signature `x`. Expected one of: serving_default",
        ),
        ("text", {"instances": [{"txt": "a"}]}, 400, f"row 0: expected the input(s) {TEXT}. Received: `txt`"),
        ("text", {"instances": [{"text": "a"}, "b"]}, 400, f"row 1: expected the input(s) {TEXT}. Received: no object"),
        ("text", {"instances": ["a", {"text": "b"}]}, 400, "value 1 must be a string or"),
        ("text", {"inputs": {"txt": ["a"]}}, 400, f"expected the input(s) {TEXT}. Received: `txt`"),
        ("many", {"inputs": ["a"]}, 400, f'"inputs" must name the inputs of the signature: {PAIR}. Received: plain'),
        ("many", {"inputs": {"text": ["a"]}}, 400, f"expected the input(s) {PAIR}. Received: `text`"),
        ("many", {"inputs": {"text": ["a"], "pair": ["b", "c"]}}, 400, "as many rows. Received: `pair` 2, `text` 1"),
        ("text", {"instances": ["a", 3]}, 400, 'input `text`: value 1 must be a string or {"b64": "..."}. Received: 3'),
        ("text", {"instances": [{"b64": "a"}]}, 400, "input `text`: value 0 is no base64"),
        ("text", {"instances": [{"b64": 1}]}, 400, "input `text`: value 0 is no base64"),
        ("text", b'{"instances": ["\\ud800"]}', 400, "input `text`: value 0 is no Unicode text"),
        ("text", {"instances": [["a"]]}, 400, f"input {TEXT.replace(' ', ' must be ', 1)}. Received: shape=(1, 1)"),
        ("text", {"inputs": "a"}, 400, "Received: shape=()"),
        ("text", {"instances": ["a" * 70000]}, 400, "string 0 has 70000 bytes. Expected at most 65536"),
        ("text", {"instances": ["a"] * 1025}, 400, "there are 1025 rows. Expected at most 1024 in a request"),
        ("many", {"signature_name": "ids", "inputs": [[1], [2, 3]]}, 400, "input `token_ids` is ragged"),
        ("many", {"signature_name": "ids", "inputs": [[1], 2]}, 400, "input `token_ids` is ragged"),
        ("many", {"signature_name": "ids", "inputs": [1]}, 400, "must be int32 (batch, any). Received: shape=(1,)"),
        ("many", {"signature_name": "ids", "inputs": [[1.5]]}, 400, "value 0 must be a whole number. Received: 1.5"),
        ("many", {"signature_name": "ids", "inputs": [[True]]}, 400, "value 0 must be a whole number. Received: True"),
        ("many", {"signature_name": "ids", "inputs": [[1 << 31]]}, 400, "a value does not fit int32"),
        ("many", {"signature_name": "ids", "inputs": [[1 << 99]]}, 400, "a value does not fit int32"),
        ("many", {"signature_name": "divide", "inputs": {"x": ["1"], "flip": [True]}}, 400, "must be a number"),
        ("many", {"signature_name": "divide", "inputs": {"x": [1e39], "flip": [True]}}, 400, "does not fit float32"),
        ("many", {"signature_name": "divide", "inputs": {"x": [1], "flip": [1]}}, 400, "value 0 must be true or false"),
        ("many", {"signature_name": "whole", "instances": ["a", "b"]}, 500, "`count` has the shape (): its first dim"),
        (
            "many",
            {"signature_name": "unique", "inputs": ["a", "a"]},
            500,
            "output `words` has the shape (1,): its first",
        ),
        ("many", {"signature_name": "picky", "inputs": ["spoilt"]}, 400, "a spoilt text"),
        ("text/versions/9", {"inputs": ["a"]}, 404, "version 9 of model text is not loaded. Expected one of: 1, 2"),
        ("text/labels/new", {"inputs": ["a"]}, 400, "model text has no version label new. Expected one of: old, lost"),
        ("text/labels/lost", {"inputs": ["a"]}, 404, "version 9 of model text is not loaded"),
        ("other", {"inputs": ["a"]}, 404, "there is no such model. Expected one of: many, text"),
        ("..", {"inputs": ["a"]}, 404, "no such model"),
        ("", {"inputs": ["a"]}, 400, "Malformed request: POST /v1/models/:predict: expected GET /v1/models/NAME[/vers"),
        ("text/versions/new", {"inputs": ["a"]}, 400, "Malformed request: POST /v1/models/text/versions/new:predict"),
        ("text/versions/" + "9" * 5000, {"inputs": ["a"]}, 400, "Malformed request: POST /v1/models/text/versions/99"),
        ("text/versions/" + "9" * 19, {"inputs": ["a"]}, 400, "a version must be below 2**63. Received: 9999"),
        ("a" * 5000, {"inputs": ["a"]}, 404, "model aaaa"),
    ],
)
def test_a_bad_request_says_what_is_wrong(server, model, body, status, message):
    answered, answer = server.predict(model, body)
    assert message in answer["error"]
    assert answered == status
    assert "\n" not in answer["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"signature_name": "ids", "examples": [{"x": 1.0}]},
            "signature `ids` is not for classify: expected the method",
        ),
        ({"signature_name": "classify", "examples": []}, "with at least one example"),
        ({"signature_name": "classify", "examples": [3]}, "example 0 must be an object of features. Received: int"),
        ({"signature_name": "classify", "examples": [{"x": [1, "a"]}]}, "feature `x` of example 0 must hold only"),
        ({"signature_name": "classify", "examples": [{"x": 1 << 70}]}, "feature `x` of example 0"),
        ({"signature_name": "classify", "examples": [{"\ud83d": 1.0}]}, "feature `?` of example 0: "),
        ({"signature_name": "classify", "examples": [{"y": 1.0}]}, "the model fails"),
    ],
)
def test_a_bad_example_says_what_is_wrong(server, body, message):
    status, answer = server.predict("many", body, "classify")
    assert (status, message in answer["error"]) == (400, True), answer


def test_other_paths(server):
    assert server.send("GET", "/healthz") == (200, "ok\n")
    assert server.send("GET", "/nothing") == (404, {"error": "404 Not Found: GET /nothing"})
    assert server.send("GET", "/v2/models/text")[0] == 404
    assert server.send("GET", "/")[0] == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models/text:predict"),
        ("POST", "/v1/models/text"),
        ("POST", "/v1/models/text/metadata"),
        ("POST", "/v1/models/text:summarize"),
        ("GET", "/v1/models/text/versions/one"),
        ("GET", "/v1/models/text/versions/1/labels/old"),
        ("GET", "/v1/models/text/metadata/more"),
        ("GET", "/v1/models/"),
        ("POST", "/v1/models"),
        ("PUT", "/v1/models/text:predict"),
        ("GET", "/v1/model/text"),
        ("GET", "/v1/"),
    ],
)
def test_malformed_requests(server, method, path):
    """What TensorFlow Serving answers to whatever begins with /v1/ and fits none of its patterns."""
    status, answer = server.send(method, path, None if method == "GET" else {})
    assert (status, answer["error"].startswith(f"Malformed request: {method} {path}: ")) == (400, True)


def test_metrics(server):
    server.predict("text", {"inputs": ["a"]})
    server.predict("text", {"inputs": [3]})
    status, text = server.send("GET", "/metrics")
    assert status == 200
    lines = text.splitlines()
    assert "# TYPE keras_bert_requests_total counter" in lines
    labels = 'api="rest:predict",model="text",version="2"'
    assert any(line.startswith(f'keras_bert_requests_total{{{labels},code="OK"}} ') for line in lines)
    assert any(line.startswith(f'keras_bert_requests_total{{{labels},code="INVALID_ARGUMENT"}} ') for line in lines)
    assert "keras_bert_waiting_requests 0" in lines
    name = 'keras_bert_request_seconds_bucket{api="rest:predict",model="text",le='
    buckets = [int(line.split()[-1]) for line in lines if line.startswith(name)]
    assert buckets == sorted(buckets)
    assert f'keras_bert_request_seconds_count{{api="rest:predict",model="text"}} {buckets[-1]}' in lines
    assert any(line.startswith('keras_bert_batch_rows_sum{model="text"} ') for line in lines)


def test_a_long_body_is_refused_before_it_is_read(server):
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=10)) as connection:
        connection.sendall(b"POST /v1/models/text:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000000\r\n\r\n{")
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")
    bomb = gzip.compress(b" " * (9 << 20))
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=10)) as connection:
        head = (
            f"POST /v1/models/text:predict HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}"
        )
        connection.sendall(head.encode() + b"\r\n\r\n" + bomb)
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_request_that_does_not_arrive(server, monkeypatch):
    monkeypatch.setattr(server.server.rest, "body_seconds", 0.2)
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=10)) as connection:
        connection.sendall(b"POST /v1/models/text:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        answer = connection.recv(1000)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert json.loads(answer.split(b"\r\n\r\n")[1]) == {"error": "the body did not arrive within 0.2 seconds"}


def test_a_client_that_goes_away_leaves_the_queue(server, until):
    def burn(turns):
        body = json.dumps({"signature_name": "burn", "inputs": [turns]}).encode()
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        head = f"POST /v1/models/many:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        return connection

    batcher = server.server.batcher
    running = []
    for _ in range(2):  # As many as there are threads.
        running.append(burn(60000))
        until(lambda: batcher.running == len(running))
    waiting = burn(2000000)
    until(lambda: batcher.waiting == 1)
    start = time.monotonic()
    waiting.close()
    until(lambda: batcher.waiting == 0)
    for connection in running:
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        connection.close()
    until(lambda: batcher.idle)
    assert time.monotonic() - start < 10


def test_a_model_that_comes_later(running, tmp_path, drop, until):
    with running(tmp_path, ready=False, grpc_port=None) as server:
        assert server.send("GET", "/healthz") == (503, "no model is loaded yet\n")
        (tmp_path / "text").mkdir()
        drop("text/1", tmp_path / "text" / "1")
        until(lambda: server.send("GET", "/healthz") == (200, "ok\n"))
        status, answer = server.predict("text", {"instances": ["a"]})
        assert (status, answer["predictions"][0]["vector"][2]) == (200, 1)


def test_a_queue_that_is_full_and_a_client_that_says_nothing(running, toys, until, monkeypatch):
    monkeypatch.setattr("keras_bert.serving.server.rest._IDLE_SECONDS", 0.3)
    burn = {"signature_name": "burn", "inputs": [100000]}
    with running(toys, max_queue=1, grpc_port=None) as server:
        batcher, threads = server.server.batcher, []
        for condition in (lambda: batcher.running == 1, lambda: batcher.running == 2, lambda: batcher.waiting == 1):
            threads.append(threading.Thread(target=server.predict, args=["many", burn]))
            threads[-1].start()
            until(condition)
        status, answer = server.predict("text", {"instances": ["a"]})
        assert (status, "1 requests are waiting" in answer["error"]) == (429, True)
        for thread in threads:
            thread.join()
        with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=5)) as connection:
            connection.sendall(b"POST /v1/models/text:predict HTT")
            assert connection.recv(1000) == b""

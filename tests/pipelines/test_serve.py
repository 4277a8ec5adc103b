"""The command, and many concurrent clients."""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from keras_bert.serving import Client
from pipelines.serve import no_models
from tests.pipelines.programs import finish, mistake, start

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.serve"


@pytest.fixture
def shelf(tmp_path):
    """A folder with `toy/1`."""
    write(tmp_path / "shelf" / "toy" / "1")
    return tmp_path / "shelf"


def write(path):
    """Writes a model that returns texts, their lengths and its version number."""
    module = tf.Module()
    version = int(path.name)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def function(text):
        return {
            "text": text,
            "length": tf.strings.length(text),
            "vector": tf.tile(tf.cast(tf.strings.length(text), tf.float32)[:, None], [1, 8]) + module.offset,
            "version": tf.zeros_like(tf.strings.length(text)) + version,
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "folder")], autograph=False)
    def wait(folder):
        """Writes `started` into the folder, and answers when it contains `go`."""

        def is_waiting(turn):
            return tf.size(tf.io.matching_files([folder[0] + "/go", tf.strings.as_string(turn)])) == 0

        with tf.control_dependencies([tf.io.write_file(folder[0] + "/started", "")]):
            turns = tf.while_loop(is_waiting, lambda turn: turn + 1, [tf.size(folder)])
        return {"turns": tf.fill(tf.shape(folder), turns[0])}

    module.offset = tf.Variable(0.5)
    module.function = function
    module.wait = wait
    temporary = path.with_name("writing")
    tf.saved_model.save(module, str(temporary), signatures={"serving_default": function, "wait": wait})
    temporary.rename(path)


@contextlib.contextmanager
def serving(shelf, *arguments):
    """Starts the server; yields the process, the REST port and the gRPC port."""
    command = [sys.executable, "-m", PROGRAM, f"--saved_models={shelf}", "--port=0", "--grpc_port=0"]
    with open(shelf.parent / "log.txt", "w") as log:
        process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            production = process.stdout.readline()
            assert production.startswith("This is a development server."), (shelf.parent / "log.txt").read_text()
            line = process.stdout.readline()
            rest, grpc = (int(part.rsplit(":", 1)[1]) for part in line.strip().split(", gRPC at "))
            wait_for(lambda: health(rest) == 200)
            yield process, rest, grpc
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def health(port):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", "/healthz")
        return connection.getresponse().status


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timeout"
        time.sleep(0.05)


def test_start_predict_and_stop(shelf, two_addresses, tmp_path):
    rest, grpc = (int(address.split(":")[1]) for address in two_addresses)
    program = start(PROGRAM, f"--saved_models={shelf}", f"--port={rest}", f"--grpc_port={grpc}", "--poll_seconds=0.05")
    try:
        wait_for(lambda: listens(rest) and health(rest) == 200)
        with Client(f"127.0.0.1:{grpc}", "grpc") as client:
            assert client.predict("toy", ["abc"])["length"].tolist() == [3]
        client = Client(f"127.0.0.1:{rest}")
        assert client.predict("toy", ["abcd"])["length"].tolist() == [4]
        # Requests that are running when the signal arrives are finished.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(client.predict, "toy", [str(tmp_path)], signature="wait")
            wait_for((tmp_path / "started").exists)
            program.send_signal(signal.SIGTERM)
            wait_for(lambda: not listens(rest))
            time.sleep(0.3)
            assert not answer.done()
            (tmp_path / "go").touch()
            assert answer.result(60)["turns"].shape == (1,)
        printed, log = finish(program)
    finally:
        if program.poll() is None:
            program.send_signal(signal.SIGKILL)
    assert printed.startswith("This is a development server.")
    assert f": REST at http://127.0.0.1:{rest}, gRPC at 127.0.0.1:{grpc}\n" in printed
    assert printed.endswith("\nStopping.\n")
    assert log.index(" toy/1 is loading ...") < log.index(" toy/1 loaded in ")
    assert " grpc:predict toy/1 rows=1 OK " in log
    assert " rest:predict toy/1 rows=1 OK " in log
    assert "Traceback" not in log
    assert "deprecated" not in log


def test_a_folder_without_models_is_named_with_its_content(tmp_path):
    end = f"Expected {tmp_path}/<model>/<version number>/saved_model.pb"
    assert no_models(tmp_path) == f"There is no model yet: {tmp_path} has nothing. {end}"
    (tmp_path / "old").mkdir()
    for name in "gfedcba":
        (tmp_path / f"{name}.txt").touch()
    found = "a.txt, b.txt, c.txt, d.txt, e.txt and 3 more"
    assert no_models(tmp_path) == f"There is no model yet: {tmp_path} has {found}. {end}"


def test_user_errors(tmp_path):
    message = "--max_batch_size must be greater than 0. Received: max_batch_size=0"
    assert mistake(PROGRAM, f"--saved_models={tmp_path}", "--max_batch_size=0") == message
    message = "--batch_window_ms must not be negative. Received: -1.0"
    assert mistake(PROGRAM, f"--saved_models={tmp_path}", "--batch_window_ms=-1") == message


REQUESTS = 500
CLIENTS = 32
# Malformed request bodies, and the expected status.
MALFORMED = ((b"{", 400), (b'{"instances": [1]}', 400), (b'{"instances": ["a"], "signature_name": "x"}', 400))


def make_crowd(rest, grpc):
    """Returns a pool of threads with one client each, and a function that sends and checks a request."""
    local = threading.local()
    protocols = itertools.cycle(["grpc", "rest", "rest", "rest"])

    def begin():
        protocol = next(protocols)
        local.client = Client(f"127.0.0.1:{grpc if protocol == 'grpc' else rest}", protocol, timeout=60)
        local.raw = http.client.HTTPConnection("127.0.0.1", rest, timeout=60)

    def ask(number):
        if number % 100 == 37:
            body, status = MALFORMED[number // 100 % len(MALFORMED)]
            local.raw.request("POST", "/v1/models/toy:predict", body)
            response = local.raw.getresponse()
            assert json.loads(response.read())["error"]
            assert response.status == status, body
            return None
        texts = [f"asks {number} " + "x" * ((number * 7 + row) % 90) for row in range(number % 3 + 1)]
        answer = local.client.predict("toy", texts)
        assert answer["text"].tolist() == texts
        assert answer["length"].tolist() == [len(text) for text in texts]
        assert np.array_equal(answer["vector"], np.repeat(answer["length"][:, None] + 0.5, 8, 1))
        (version,) = set(answer["version"].tolist())
        return version

    return concurrent.futures.ThreadPoolExecutor(CLIENTS, initializer=begin), ask


def resident(process):
    """Returns the resident memory in megabytes."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@pytest.mark.slow
def test_concurrent_clients_while_a_version_is_replaced(shelf):
    with serving(shelf) as (process, rest, grpc):
        crowd, ask = make_crowd(rest, grpc)
        assert set(crowd.map(ask, range(REQUESTS))) == {1, None}
        before = resident(process)
        asked = [crowd.submit(ask, number) for number in range(REQUESTS)]
        wait_for(lambda: sum(answer.done() for answer in asked) > REQUESTS // 4, 240)
        write(shelf / "toy" / "2")
        status = Client(f"127.0.0.1:{rest}").status
        wait_for(lambda: status("toy")[0]["version"] == 2 and status("toy")[0]["state"] == "AVAILABLE")
        asked += [crowd.submit(ask, number) for number in range(REQUESTS // 4)]
        versions = [answer.result() for answer in asked]
        wait_for(lambda: [each["version"] for each in status("toy")] == [2])
        after = resident(process)
    assert (set(versions), versions[0], versions[-1]) == ({1, 2, None}, 1, 2)
    assert after < before + 60

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


class Toy(tf.Module):
    """A model that returns texts, their lengths and its version number."""

    def __init__(self, version):
        super().__init__()
        self.version = version
        self.offset = tf.Variable(0.5)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def measure(self, text):
        length = tf.strings.length(text)
        column = tf.cast(length, tf.float32)[:, None]
        return {
            "text": text,
            "length": length,
            "vector": tf.tile(column, [1, 8]) + self.offset,
            "version": tf.zeros_like(length) + self.version,
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "folder")], autograph=False)
    def wait(self, folder):
        """Writes `started` into the folder, and answers when it contains `go`."""

        def is_waiting(turn):
            pattern = [folder[0] + "/go", tf.strings.as_string(turn)]
            return tf.size(tf.io.matching_files(pattern)) == 0

        with tf.control_dependencies([tf.io.write_file(folder[0] + "/started", "")]):
            turns = tf.while_loop(is_waiting, lambda turn: turn + 1, [tf.size(folder)])
        return {"turns": tf.fill(tf.shape(folder), turns[0])}


def write(path):
    """Writes the model, whose version is the name of its folder."""
    model = Toy(int(path.name))
    signatures = {"serving_default": model.measure, "wait": model.wait}
    temporary = path.with_name("writing")
    tf.saved_model.save(model, str(temporary), signatures=signatures)
    temporary.rename(path)


@contextlib.contextmanager
def serving(shelf, *arguments):
    """Starts the server; yields the process, the REST port and the gRPC port."""
    ports = ["--port=0", "--grpc_port=0"]
    command = [sys.executable, "-m", PROGRAM, f"--saved_models={shelf}", *ports, *arguments]
    log_file = shelf.parent / "log.txt"
    with open(log_file, "w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            first_line = process.stdout.readline()
            assert first_line.startswith("This is a development server."), log_file.read_text()
            rest, grpc = ports_in(process.stdout.readline())
            wait_for(lambda: health(rest) == 200)
            yield process, rest, grpc
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def ports_in(line):
    """Returns the ports of a line such as `...: REST at http://localhost:1, gRPC at localhost:2`."""
    return [int(address.rpartition(":")[2]) for address in line.strip().split(", gRPC at ")]


def health(port):
    """Returns the status of a server."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
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
    rest, grpc = [int(address.split(":")[1]) for address in two_addresses]
    ports = [f"--port={rest}", f"--grpc_port={grpc}"]
    program = start(PROGRAM, f"--saved_models={shelf}", *ports, "--poll_seconds=0.05")
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
    start_of_line = f"There is no model yet: {tmp_path} has"
    end = f"Expected {tmp_path}/<model>/<version number>/saved_model.pb"
    assert no_models(tmp_path) == f"{start_of_line} nothing. {end}"
    (tmp_path / "old").mkdir()
    for name in "gfedcba":
        (tmp_path / f"{name}.txt").touch()
    found = "a.txt, b.txt, c.txt, d.txt, e.txt and 3 more"
    assert no_models(tmp_path) == f"{start_of_line} {found}. {end}"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--max_batch_size=0", "--max_batch_size must be greater than 0. Received: max_batch_size=0"),
        ("--batch_window_ms=-1", "--batch_window_ms must not be negative. Received: -1.0"),
    ],
)
def test_user_errors(tmp_path, flag, message):
    assert mistake(PROGRAM, f"--saved_models={tmp_path}", flag) == message


REQUESTS = 500
CLIENTS = 32
# Malformed request bodies, and the expected status.
MALFORMED = [
    (b"{", 400),
    (b'{"instances": [1]}', 400),
    (b'{"instances": ["a"], "signature_name": "x"}', 400),
]


class Crowd:
    """Threads with a client each, every fourth of them over gRPC, which send and check requests."""

    def __init__(self, rest, grpc):
        self.rest = rest
        self.grpc = grpc
        self._protocols = itertools.cycle(["grpc", "rest", "rest", "rest"])
        self._local = threading.local()
        self._pool = concurrent.futures.ThreadPoolExecutor(CLIENTS, initializer=self._begin)

    def _begin(self):
        """Opens the connections of a thread."""
        protocol = next(self._protocols)
        port = self.grpc if protocol == "grpc" else self.rest
        self._local.client = Client(f"127.0.0.1:{port}", protocol, timeout=60)
        self._local.connection = http.client.HTTPConnection("127.0.0.1", self.rest, timeout=60)

    def submit(self, numbers):
        """Sends requests; returns futures of the versions that answer them, `None` for malformed ones."""
        return [self._pool.submit(self._ask, number) for number in numbers]

    def _ask(self, number):
        if number % 100 == 37:
            self._send_malformed(number // 100)
            return None
        texts = []
        for row in range(number % 3 + 1):
            texts.append(f"asks {number} " + "x" * ((number * 7 + row) % 90))
        answer = self._local.client.predict("toy", texts)
        lengths = np.array([len(text) for text in texts])
        assert answer["text"].tolist() == texts
        assert answer["length"].tolist() == lengths.tolist()
        assert np.array_equal(answer["vector"], np.repeat(lengths[:, None] + 0.5, 8, 1))
        (version,) = set(answer["version"].tolist())
        return version

    def _send_malformed(self, number):
        body, status = MALFORMED[number % len(MALFORMED)]
        connection = self._local.connection
        connection.request("POST", "/v1/models/toy:predict", body)
        response = connection.getresponse()
        assert json.loads(response.read())["error"]
        assert response.status == status, body


def results(futures):
    return [future.result() for future in futures]


def resident(process):
    """Returns the resident memory in megabytes."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@pytest.mark.slow
def test_concurrent_clients_while_a_version_is_replaced(shelf):
    """Each request is answered by one of the versions; memory does not grow."""
    with serving(shelf) as (process, rest, grpc):
        crowd = Crowd(rest, grpc)
        status = Client(f"127.0.0.1:{rest}").status

        def is_loaded():
            newest = status("toy")[0]
            return newest["version"] == 2 and newest["state"] == "AVAILABLE"

        def is_alone():
            return [each["version"] for each in status("toy")] == [2]

        assert set(results(crowd.submit(range(REQUESTS)))) == {1, None}
        before = resident(process)
        asked = crowd.submit(range(REQUESTS))
        wait_for(lambda: sum(future.done() for future in asked) > REQUESTS // 4, 240)
        write(shelf / "toy" / "2")
        wait_for(is_loaded)
        asked += crowd.submit(range(REQUESTS // 4))
        versions = results(asked)
        wait_for(is_alone)
        after = resident(process)
    assert set(versions) == {1, 2, None}
    assert versions[0] == 1
    assert versions[-1] == 2
    assert after < before + 60

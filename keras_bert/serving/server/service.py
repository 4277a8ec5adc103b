"""Request handling shared by REST and gRPC: versions, execution, metrics and logging."""

import asyncio
import contextlib
import dataclasses
import logging
import time

import prometheus_client
from google.protobuf import wrappers_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2

from keras_bert.serving.errors import RequestError, one_line
from keras_bert.serving.server.batching import Batcher
from keras_bert.serving.server.shelf import Shelf
from keras_bert.serving.server.tensors import check

_LOG = logging.getLogger("keras_bert.serving")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """Server settings."""

    host: str = "127.0.0.1"
    port: int = 8501  # REST port; 0 selects a free port.
    grpc_port: int | None = 8500  # 0 selects a free port, `None` disables gRPC.
    batch_window_ms: float = 2.0  # How long the first request of a batch waits for more.
    max_batch_size: int = 32  # Maximum number of rows of a batch.
    max_queue: int = 1000  # Maximum number of waiting requests.
    max_body_bytes: int = 8 << 20  # Maximum size of a request.
    max_request_rows: int = 1000  # Maximum number of rows of a request.
    allowed_hosts: tuple = ()  # Names of the server beside localhost and `host`; "*" allows all.
    read_seconds: float = 60.0  # Timeout for the headers and for the body of a request, and of idle connections.
    poll_seconds: float = 1.0  # Interval between scans of the folder.
    shutdown_seconds: float = 20.0  # Timeout for running requests on shutdown.

    def __post_init__(self):
        for name in ("max_batch_size", "max_queue", "max_body_bytes", "max_request_rows", "poll_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be greater than 0. Received: {name}={getattr(self, name)}")
        if self.batch_window_ms < 0:
            raise ValueError(f"`batch_window_ms` must not be negative. Received: {self.batch_window_ms}")


class Counters:
    """Prometheus metrics of one server."""

    def __init__(self):
        self._registry = prometheus_client.CollectorRegistry()
        shared = {"namespace": "keras_bert", "registry": self._registry}
        self.requests = prometheus_client.Counter(
            "requests", "Requests by status code.", ("api", "model", "version", "code"), **shared
        )
        self.seconds = prometheus_client.Histogram(
            "request_seconds", "Request latency.", ("api", "model"), buckets=_SECONDS, **shared
        )
        self.batch_rows = prometheus_client.Histogram(
            "batch_rows", "Rows per batch.", ("model",), buckets=_ROWS, **shared
        )
        self.waiting = prometheus_client.Gauge("waiting_requests", "Requests waiting to run.", **shared)
        self.ready = prometheus_client.Gauge("ready", "Whether a model is served.", **shared)

    def text(self):
        """Returns all metrics in Prometheus' text format."""
        return prometheus_client.generate_latest(self._registry).decode()


@dataclasses.dataclass
class Call:
    """A request's entry in the metrics and the log, filled in as the request is parsed."""

    api: str
    model: str = ""
    version: str = ""
    rows: int = 0
    code: str = "OK"
    message: str = ""

    def model_spec(self, signature=""):
        spec = model_pb2.ModelSpec(name=self.model, signature_name=signature)
        spec.version.CopyFrom(wrappers_pb2.Int64Value(value=int(self.version)))
        return spec

    def is_for(self, model, version=""):
        """Notes which model the request is for, and the number of its version."""
        self.model = model
        self.version = str(version)

    def has_rows(self, rows):
        """Notes the number of rows of the request."""
        self.rows = rows

    def failed(self, code, message):
        """Notes why the request failed."""
        self.code = code
        self.message = message


class Service:
    """Handles requests of both protocols for the models of a folder."""

    def __init__(self, directory, settings):
        self.settings = settings
        self.shelf = Shelf(directory)
        self.counters = Counters()
        self.batcher = Batcher(
            window=settings.batch_window_ms / 1e3,
            max_rows=settings.max_batch_size,
            max_queue=settings.max_queue,
            observe=self._observe_batch,
        )
        self.counters.waiting.set_function(lambda: self.batcher.waiting)
        self.counters.ready.set_function(lambda: self.shelf.ready)

    def _observe_batch(self, name, rows):
        self.counters.batch_rows.labels(name).observe(rows)

    async def run(self, call, version, signature, inputs):
        """Validates the inputs, a dict of NumPy arrays, and runs them in a batch."""
        self.check(call, signature, inputs)
        return await self.batcher.run(version, signature, inputs, call.rows)

    def check(self, call, signature, inputs):
        """Validates the inputs: arrays, or `tf.TensorSpec`s of arrays to be made."""
        call.has_rows(check(signature, inputs))
        self.check_rows(call.rows)

    def check_rows(self, rows):
        if rows > self.settings.max_request_rows:
            expected = f"Expected at most {self.settings.max_request_rows} (--max_request_rows): send several requests"
            raise RequestError("RESOURCE_EXHAUSTED", f"the request has {rows} rows. {expected}", status=413)

    def status(self, call, name, number):
        statuses = self.shelf.status(name, number)
        call.is_for(name)
        return get_model_status_pb2.GetModelStatusResponse(model_version_status=statuses)

    def metadata(self, call, name, number):
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        definitions = self.version(call, name, number).model.definitions
        signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=definitions)
        response.model_spec.CopyFrom(call.model_spec())
        response.metadata["signature_def"].Pack(signatures)
        return response

    def version(self, call, name, number=None):
        """Returns a version (see `Shelf.version`) and records it in the call."""
        version = self.shelf.version(name, number)
        call.is_for(name, version.number)
        return version

    @contextlib.contextmanager
    def observed(self, api):
        """Counts and logs a `Call`. Converts unexpected exceptions to `RequestError`s."""
        call = Call(api)
        start = time.monotonic()
        try:
            yield call
        except RequestError as error:
            call.failed(error.code, one_line(error))
            raise
        except asyncio.CancelledError:
            call.failed("CANCELLED", "the client disconnected")
            raise
        except Exception as error:
            _LOG.exception("internal server error")
            call.failed("INTERNAL", one_line(error))
            raise RequestError("INTERNAL", f"internal server error: {type(error).__name__}") from error
        finally:
            seconds = time.monotonic() - start
            self.counters.requests.labels(api, call.model, call.version, call.code).inc()
            self.counters.seconds.labels(api, call.model).observe(seconds)
            where = f"{call.model or '-'}/{call.version or '-'}"
            line = f"{api} {where} rows={call.rows} {call.code} {seconds * 1e3:.1f}ms {call.message}"
            _LOG.info(line.rstrip())

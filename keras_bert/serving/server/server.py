"""The development server: serves a folder of SavedModels over TensorFlow Serving's protocols in one process."""

import asyncio
import contextlib
import dataclasses
import logging
import socket
import threading

from aiohttp import web

from keras_bert.serving.errors import one_line
from keras_bert.serving.server.batching import Batcher
from keras_bert.serving.server.rest import Rest
from keras_bert.serving.server.rpc import Rpc
from keras_bert.serving.server.service import Counters, Service
from keras_bert.serving.server.shelf import Shelf

_LOG = logging.getLogger("keras_bert.serving")


@dataclasses.dataclass(frozen=True)
class Settings:
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


class Server:
    """Serves a folder of `<model>/<version>/saved_model.pb` at `port` and `grpc_port` until stopped."""

    def __init__(self, directory, settings=None):
        self._settings = settings = settings or Settings()
        counters = Counters()
        self.shelf = Shelf(directory)
        self.batcher = Batcher(
            settings.batch_window_ms / 1e3,
            settings.max_batch_size,
            settings.max_queue,
            lambda name, rows: counters.batch_rows.labels(name).observe(rows),
        )
        counters.waiting.set_function(lambda: self.batcher.waiting)
        counters.ready.set_function(lambda: self.shelf.ready)
        service = Service(self.shelf, self.batcher, settings.max_body_bytes, settings.max_request_rows, counters)
        self._runner = Rest(service, settings).runner()
        self._rpc = Rpc(service)
        self._grpc = None
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="shelf")
        self.port = self.grpc_port = None

    async def start(self):
        """Starts listening and loading. Requests are answered once their model is loaded."""
        host, port, grpc_port = self._settings.host, self._settings.port, self._settings.grpc_port
        await self._runner.setup()
        await self._listen(host, port)
        if grpc_port is not None:
            self._grpc = self._rpc.server()
            host = f"[{host}]" if ":" in host else host
            try:
                self.grpc_port = self._grpc.add_insecure_port(f"{host}:{grpc_port}")
            except RuntimeError as error:
                await self._runner.cleanup()
                raise OSError(f"cannot listen at {host}:{grpc_port} for gRPC") from error
            await self._grpc.start()
        self._watcher.start()

    async def _listen(self, host, port):
        # One socket, which also accepts IPv4 if the host is `::`; aiohttp may open several on different ports.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        try:
            listener = socket.create_server((host, port), family=family, backlog=1024, dualstack_ipv6=dual)
        except OSError as error:
            await self._runner.cleanup()
            raise OSError(f"cannot listen at {host}:{port} for REST: {error.strerror or error}") from error
        self.port = listener.getsockname()[1]
        await web.SockSite(self._runner, listener, backlog=1024).start()

    def _watch(self):
        logged = None
        while not self._ended.is_set():
            try:
                self.shelf.poll()
                logged = None
            except Exception as error:  # The disk may become available again.
                if one_line(error) != logged:
                    logged = one_line(error)
                    _LOG.exception("cannot read the model folder")
            self._ended.wait(self._settings.poll_seconds)

    async def stop(self):
        """Rejects new requests and waits up to `shutdown_seconds` for running ones.

        Returns:
            Whether all requests have finished.
        """
        self._ended.set()
        ends = [self._runner.cleanup()]
        if self._grpc:
            ends.append(self._grpc.stop(self._settings.shutdown_seconds))
        await asyncio.gather(*ends)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while not self.batcher.idle:
                    await asyncio.sleep(0.01)
        self.batcher.close()
        await asyncio.to_thread(self._watcher.join, 1.0)
        return self.batcher.idle and not self._watcher.is_alive()

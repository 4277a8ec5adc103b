"""The development server: TensorFlow Serving's protocols over a folder of SavedModels, in one Python process."""

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
    """Settings of a server."""

    host: str = "127.0.0.1"
    port: int = 8501  # Of REST; 0 chooses a free one.
    grpc_port: int | None = 8500  # 0 chooses a free one, `None` is without gRPC.
    batch_window_ms: float = 2.0  # The time that a first request waits for others to run with.
    max_batch_size: int = 32  # The most rows that are joined.
    max_queue: int = 1000  # The most requests that wait.
    max_body_bytes: int = 8 << 20  # Of a request.
    poll_seconds: float = 1.0  # Between two looks at the folder.
    body_seconds: float = 30.0  # The time that the body of a REST request may take to arrive.
    idle_seconds: float = 60.0  # The time after which a silent REST connection is closed.
    shutdown_seconds: float = 20.0  # The time that running requests have to end.

    def __post_init__(self):
        for name in ("max_batch_size", "max_queue", "max_body_bytes", "poll_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be greater than 0. Received: {name}={getattr(self, name)}")
        if self.batch_window_ms < 0:
            raise ValueError(f"`batch_window_ms` must not be negative. Received: {self.batch_window_ms}")


class Server:
    """Serves a folder `<model>/<version>/saved_model.pb` until it is stopped; at `port` and `grpc_port`."""

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
        service = Service(self.shelf, self.batcher, settings.max_body_bytes, counters)
        self._runner = Rest(service, settings).runner()
        self._rpc = Rpc(service)
        self._grpc = None
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="shelf")
        self.port = self.grpc_port = None

    async def start(self):
        """Listens and begins to load. Requests are answered as soon as their model is loaded."""
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
        # One socket, which serves IPv4 too if the host is `::`; aiohttp may open several, each at another port.
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
        except OSError as error:
            listener.close()
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
            except Exception as error:  # A disk that is away may come back.
                if one_line(error) != logged:
                    logged = one_line(error)
                    _LOG.exception("the folder of models cannot be read")
            self._ended.wait(self._settings.poll_seconds)

    async def stop(self):
        """Refuses new requests and waits for running ones, for `shutdown_seconds`.

        Returns:
            Whether everything has ended.
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
        ended = self.batcher.idle and not self._watcher.is_alive()
        if ended:
            self.shelf.close()
        return ended

"""A server for development: TensorFlow Serving's protocols over a folder of SavedModels, in one Python process."""

import asyncio
import contextlib
import dataclasses
import logging
import socket
import threading

from aiohttp import web

from keras_bert.serving.errors import one_line
from keras_bert.serving.server.batching import Batcher
from keras_bert.serving.server.counters import Counters
from keras_bert.serving.server.rest import Rest
from keras_bert.serving.server.rpc import Rpc
from keras_bert.serving.server.service import Service
from keras_bert.serving.server.shelf import Shelf
from keras_bert.serving.server.tensors import Limits

_LOG = logging.getLogger("keras_bert.serving")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a server serves.

    Args:
        host: the address to listen at.
        port: of REST; 0 chooses a free one.
        grpc_port: of gRPC; 0 chooses a free one, None is without gRPC.
        batch_window_ms: how long a first request waits for others to run with.
        max_batch_size: rows that are joined at most.
        max_queue: requests that may wait at most.
        limits: what a request may hold.
        poll_seconds: how often the folder is looked at.
        shutdown_seconds: what is running has so long to end.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int | None = 8500
    batch_window_ms: float = 2.0
    max_batch_size: int = 32
    max_queue: int = 1000
    limits: Limits = dataclasses.field(default_factory=Limits)
    poll_seconds: float = 1.0
    shutdown_seconds: float = 20.0

    def __post_init__(self):
        positive = {name: getattr(self, name) for name in ("max_batch_size", "max_queue", "poll_seconds")}
        for name, value in (positive | dataclasses.asdict(self.limits)).items():
            if value <= 0:
                raise ValueError(f"`{name}` must be greater than 0. Received: {name}={value}")
        if self.batch_window_ms < 0:
            raise ValueError(f"`batch_window_ms` must not be negative. Received: {self.batch_window_ms}")


class Server:
    """Serves a folder of models until it is stopped.

    Args:
        directory: the folder, `<model>/<version>/saved_model.pb`.
        settings: a `Settings`.
        labels: `{model: {label: version}}`.

    Attributes:
        port, grpc_port: what it listens at, after `start`.
    """

    def __init__(self, directory, settings=None, labels=None):
        self._settings = settings = settings or Settings()
        counters = Counters()
        self.shelf = Shelf(directory, labels)
        self.batcher = Batcher(
            settings.batch_window_ms / 1e3,
            settings.max_batch_size,
            settings.max_queue,
            lambda name, rows: counters.batch_rows.observe(rows, name),
        )
        counters.watch("waiting_requests", "Requests that wait for a batch to run.", lambda: self.batcher.waiting)
        counters.watch("ready", "Whether a model is served.", lambda: int(self.shelf.ready))
        service = Service(self.shelf, self.batcher, settings.limits, counters)
        self.rest = Rest(service)
        self._runner = self.rest.runner(settings.shutdown_seconds)
        self._rpc = Rpc(service)
        self._grpc = None
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="shelf")
        self.port = self.grpc_port = None

    async def start(self):
        """Listens, and begins to load. Requests are answered as soon as their model is loaded."""
        settings = self._settings
        await self._runner.setup()
        await self._listen(settings.host, settings.port)
        if settings.grpc_port is not None:
            self._grpc = self._rpc.server()
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            try:
                self.grpc_port = self._grpc.add_insecure_port(f"{host}:{settings.grpc_port}")
            except RuntimeError as error:
                await self._runner.cleanup()
                raise OSError(f"cannot listen at {host}:{settings.grpc_port} for gRPC") from error
            await self._grpc.start()
        self._watcher.start()

    async def _listen(self, host, port):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
        except OSError as error:
            listener.close()
            await self._runner.cleanup()
            raise OSError(f"cannot listen at {host}:{port} for REST: {error.strerror}") from error
        self.port = listener.getsockname()[1]
        await web.SockSite(self._runner, listener, backlog=1024).start()

    def _watch(self):
        said = None
        while not self._ended.is_set():
            try:
                self.shelf.poll()
                said = None
            except Exception as error:  # A disk that is away may come back.
                message = one_line(error)
                if message != said:
                    _LOG.exception("the folder of models cannot be looked at")
                said = message
            self._ended.wait(self._settings.poll_seconds)

    async def stop(self):
        """Accepts nothing more, lets end what runs, within `shutdown_seconds`.

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

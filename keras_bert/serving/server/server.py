"""The development server: serves a folder of SavedModels over TensorFlow Serving's protocols in one process."""

import asyncio
import contextlib
import logging
import socket
import threading

from aiohttp import web

from keras_bert.serving.errors import one_line
from keras_bert.serving.server.rest import Rest
from keras_bert.serving.server.rpc import Rpc
from keras_bert.serving.server.service import ServerSettings, Service

_LOG = logging.getLogger("keras_bert.serving")


class Server:
    """Serves a folder of `<model>/<version>/saved_model.pb` at `port` and `grpc_port` until stopped."""

    def __init__(self, directory, settings=None):
        self._settings = settings or ServerSettings()
        service = Service(directory, self._settings)
        self.shelf = service.shelf
        self.batcher = service.batcher
        self._runner = Rest(service).runner()
        self._rpc = Rpc(service)
        self._grpc = None
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="shelf")
        self.port = None
        self.grpc_port = None

    async def start(self):
        """Starts listening and loading. Requests are answered once their model is loaded."""
        await self._runner.setup()
        await self._listen_rest(self._settings.host, self._settings.port)
        if self._settings.grpc_port is not None:
            await self._listen_grpc(self._settings.host, self._settings.grpc_port)
        self._watcher.start()

    async def _listen_grpc(self, host, port):
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._grpc = self._rpc.server()
        try:
            self.grpc_port = self._grpc.add_insecure_port(address)
        except RuntimeError as error:
            await self._runner.cleanup()
            raise OSError(f"cannot listen at {address} for gRPC") from error
        await self._grpc.start()

    async def _listen_rest(self, host, port):
        # One socket, which also accepts IPv4 if the host is `::`; aiohttp may open several on different ports.
        if ":" in host:
            family = socket.AF_INET6
            dual = socket.has_dualstack_ipv6()
        else:
            family = socket.AF_INET
            dual = False
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

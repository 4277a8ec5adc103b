"""What REST and gRPC share: who asks what of which version, the answer, and its line in the log."""

import asyncio
import contextlib
import dataclasses
import logging
import time

from keras_bert.serving.errors import RequestError, one_line
from keras_bert.serving.server import examples
from keras_bert.serving.server.tensors import check

_LOG = logging.getLogger("keras_bert.serving")


@dataclasses.dataclass
class Call:
    """A request under way; what is known of it is filled in as it is learned."""

    api: str
    model: str = ""
    version: str = ""
    rows: int = 0
    code: str = "OK"


class Service:
    """Answers for both protocols.

    Args:
        shelf: a `Shelf`.
        batcher: a `Batcher`.
        limits: a `Limits`.
        counters: a `Counters`.
    """

    def __init__(self, shelf, batcher, limits, counters):
        self.shelf, self.batcher, self.limits, self.counters = shelf, batcher, limits, counters

    async def run(self, call, version, signature, inputs):
        """Runs checked inputs, perhaps together with those of others.

        Args:
            call: the `Call`, which learns the number of rows.
            version: the leased `Version`.
            signature: its `Signature`.
            inputs: NumPy arrays by name.

        Returns:
            NumPy arrays by name.
        """
        call.rows = check(signature, inputs, self.limits)
        return await self.batcher.run(version, signature, inputs, call.rows)

    async def run_examples(self, call, version, signature, method, given):
        """Classify or regress: the labels and scores, or the numbers, of a `tensorflow.serving.Input`."""
        examples.check_method(signature, method)
        inputs = {examples.INPUT: examples.serialize(given)}
        return examples.answer(method, await self.run(call, version, signature, inputs), call.rows)

    @contextlib.contextmanager
    def lease(self, call, name, number=None, label=None):
        """`Shelf.lease`, noted in the call."""
        with self.shelf.lease(name, number, label) as version:
            call.model, call.version = name, str(version.number)
            yield version

    @contextlib.contextmanager
    def observed(self, api):
        """A `Call`, counted and logged when it ends. Only `RequestError`s leave it, and what ends the server."""
        call, start = Call(api), time.monotonic()
        message = ""
        try:
            yield call
        except RequestError as error:
            call.code, message = error.code, one_line(error)
            raise
        except asyncio.CancelledError:
            call.code, message = "CANCELLED", "the client has gone"
            raise
        except Exception as error:
            _LOG.exception("this is a mistake of the server")
            call.code, message = "INTERNAL", one_line(error)
            raise RequestError("INTERNAL", f"the server fails: {type(error).__name__}") from error
        finally:
            seconds = time.monotonic() - start
            self.counters.requests.add(api, call.model, call.version, call.code)
            self.counters.latency.observe(seconds, api, call.model)
            where = f"{call.model or '-'}/{call.version or '-'}"
            line = f"{api} {where} rows={call.rows} {call.code} {seconds * 1e3:.1f}ms {message}"
            _LOG.info("%s", line.rstrip())

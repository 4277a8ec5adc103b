"""Dynamic batching: concurrent requests run as one batch, which is far faster than one call per request."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses

import numpy as np

from keras_bert.serving.errors import RequestError, one_line
from keras_bert.serving.server.tensors import check_rows

# One batch runs while the next one is assembled; each uses all cores.
_THREADS = 2


@dataclasses.dataclass(eq=False)
class _Request:
    inputs: dict
    rows: int
    answer: asyncio.Future


@dataclasses.dataclass(eq=False)
class _Batch:
    requests: list = dataclasses.field(default_factory=list)
    full: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    @property
    def rows(self):
        return sum(request.rows for request in self.requests)


class Batcher:
    """Batches requests, runs them in threads and splits the outputs. Call all methods from one event loop.

    The first request of a batch waits `window` seconds for more while others run; a request with more than `max_rows`
    rows runs in parts; `observe` is called with `(model name, rows)` of each batch that runs.
    """

    def __init__(self, window=0.002, max_rows=32, max_queue=1000, observe=lambda name, rows: None):
        self._window = window
        self._max_rows = max_rows
        self._max_queue = max_queue
        self._observe = observe
        self._forming = {}  # Key -> the batch that new requests join
        self._waiting = set()  # Batches that do not run yet
        self._tasks = set()
        self._free = asyncio.Semaphore(_THREADS)
        self._pool = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="model")
        self.running = 0

    @property
    def waiting(self):
        """The number of requests that do not run yet."""
        return sum(len(batch.requests) for batch in list(self._waiting))

    async def run(self, version, signature, inputs, rows):
        """Runs validated inputs, a dict of NumPy arrays, in a batch; many rows in parts, between which others run."""
        if self.waiting >= self._max_queue:
            message = f"the queue is full: {self.waiting} requests are waiting (--max_queue). Try again later"
            raise RequestError("RESOURCE_EXHAUSTED", message)
        if rows <= self._max_rows or not signature.joinable:
            return await self._run_part(version, signature, inputs, rows)
        answers = []
        for start in range(0, rows, self._max_rows):
            end = min(start + self._max_rows, rows)
            part = {name: value[start:end] for name, value in inputs.items()}
            answers.append(await self._run_part(version, signature, part, end - start))
        outputs = {}
        for name in answers[0]:
            outputs[name] = _joined([answer[name] for answer in answers])
        return outputs

    async def _run_part(self, version, signature, inputs, rows):
        request = _Request(inputs, rows, asyncio.get_running_loop().create_future())
        batch = self._join(request, version, signature)
        try:
            return await request.answer
        finally:
            if batch in self._waiting:  # The client disconnected.
                batch.requests.remove(request)

    def _join(self, request, version, signature):
        # Requests can share a batch if all dimensions but the first are equal.
        shapes = tuple((name, value.shape[1:]) for name, value in request.inputs.items())
        key = (version, signature.name, *shapes) if signature.joinable else request
        batch = self._forming.get(key)
        if batch and batch.rows + request.rows > self._max_rows:
            batch.full.set()
            batch = None
        if batch is None:
            batch = self._forming[key] = _Batch()
            self._waiting.add(batch)
            # Waiting gains nothing while no batch is running.
            window = self._window if signature.joinable and self.running else 0
            task = asyncio.create_task(self._run_batch(key, batch, version, signature, window))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        batch.requests.append(request)
        if batch.rows >= self._max_rows:
            batch.full.set()
        return batch

    async def _run_batch(self, key, batch, version, signature, window):
        if window:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(batch.full.wait(), window)
        async with self._free:  # The batch accepts requests until a thread is free.
            if self._forming.get(key) is batch:
                del self._forming[key]
            self._waiting.remove(batch)
            if batch.requests:
                await self._answer(batch, version, signature)

    async def _answer(self, batch, version, signature):
        self.running += 1
        self._observe(version.name, batch.rows)
        try:
            answers = await asyncio.get_running_loop().run_in_executor(self._pool, _answers, signature, batch.requests)
        finally:
            self.running -= 1
        for request, answer in zip(batch.requests, answers, strict=True):
            if request.answer.done():
                continue
            if isinstance(answer, Exception):
                request.answer.set_exception(answer)
            else:
                request.answer.set_result(answer)

    @property
    def idle(self):
        return not self.running and not self.waiting

    def close(self):
        self._pool.shutdown(wait=False, cancel_futures=True)


def _joined(values):
    """Joins the parts of an output. Rows are padded as exports pad them: offsets, which are integers, with -1."""
    rows = sum(len(value) for value in values)
    sizes = np.max([value.shape[1:] for value in values], axis=0).astype(int)
    dtype = values[0].dtype
    padding = {"i": -1, "O": b""}.get(dtype.kind, 0)
    joined = np.full((rows, *sizes), padding, dtype)
    start = 0
    for value in values:
        end = start + len(value)
        corner = (slice(start, end), *map(slice, value.shape[1:]))
        joined[corner] = value
        start = end
    return joined


def _answers(signature, requests):
    """Returns an answer or an exception for each request. If a batch fails, its requests are run one by one."""
    try:
        return _run(signature, requests)
    except Exception as error:
        if len(requests) == 1 and isinstance(error, RequestError):
            return [error]
        if len(requests) == 1:
            return [RequestError("INTERNAL", f"model execution failed: {one_line(error)}")]
    return [_answers(signature, [request])[0] for request in requests]


def _run(signature, requests):
    """Runs a batch and returns the outputs of each request."""
    outputs = signature(_joined_inputs(requests))
    if not signature.joinable:
        return [outputs]  # It is the only request of its batch.
    check_rows(outputs, sum(request.rows for request in requests))
    answers = []
    start = 0
    for request in requests:
        end = start + request.rows
        answers.append({name: value[start:end] for name, value in outputs.items()})
        start = end
    return answers


def _joined_inputs(requests):
    if len(requests) == 1:
        return requests[0].inputs
    inputs = {}
    for name in requests[0].inputs:
        inputs[name] = np.concatenate([request.inputs[name] for request in requests])
    return inputs

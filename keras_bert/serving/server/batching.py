"""Requests that come at about the same time run as one batch: a model is far faster on many rows than on many calls."""

import asyncio
import collections
import concurrent.futures

import numpy as np

from keras_bert.serving.errors import RequestError, one_line
from keras_bert.serving.server.tensors import check_rows

# One batch computes while the next is put together; a run itself uses all cores.
_THREADS = 2


class _Request:
    def __init__(self, inputs, rows, future):
        self.inputs, self.rows, self.future = inputs, rows, future


class _Batch:
    """Requests of one version and signature, of the same shapes apart from their rows."""

    def __init__(self, key, version, signature):
        self.key, self.version, self.signature = key, version, signature
        self.requests, self.rows = [], 0
        self.ready = False

    def add(self, request):
        self.requests.append(request)
        self.rows += request.rows

    def remove(self, request):
        if request in self.requests:
            self.requests.remove(request)
            self.rows -= request.rows
            return True
        return False


class Batcher:
    """Joins requests, runs them in threads of its own, and gives each its rows.

    All methods belong to the thread of one event loop.

    Args:
        window: seconds that a first request waits for others, if something runs meanwhile.
        max_rows: rows that are joined at most; a larger request runs alone.
        max_queue: requests that may wait at most.
        observe: called with (model's name, rows) of each batch that runs.
    """

    def __init__(self, window=0.002, max_rows=32, max_queue=1000, observe=lambda name, rows: None):
        self._window, self._max_rows, self._max_queue, self._observe = window, max_rows, max_queue, observe
        self._forming = {}  # Key -> the batch that requests of this key join
        self._ready = collections.deque()
        self.running = 0
        self.waiting = 0
        self._pool = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="model")

    async def run(self, version, signature, inputs, rows):
        """Runs a request, perhaps together with others.

        Args:
            version: the `Version`, held by the caller; a batch holds it for as long as it runs.
            signature: its `Signature`.
            inputs: checked NumPy arrays by name.
            rows: their number of rows.

        Returns:
            NumPy arrays by name.
        """
        if self.waiting >= self._max_queue:
            message = f"{self.waiting} requests are waiting, which is as many as may (--max_queue). Try again later"
            raise RequestError("RESOURCE_EXHAUSTED", message)
        request = _Request(inputs, rows, asyncio.get_running_loop().create_future())
        batch = self._join(request, version, signature)
        self.waiting += 1
        try:
            return await request.future
        except asyncio.CancelledError:
            # The client has gone. What is not yet running need not run.
            if batch.remove(request):
                self.waiting -= 1
                if not batch.requests:
                    self._forget(batch)
            raise

    def _join(self, request, version, signature):
        shapes = tuple((name, value.shape[1:]) for name, value in request.inputs.items())
        key = (version, signature.name, *shapes) if signature.joinable else (request,)
        batch = self._forming.get(key)
        if batch and batch.rows + request.rows > self._max_rows:
            self._make_ready(batch)
            self._forming.pop(key, None)
            batch = None
        if batch is None:
            batch = self._forming[key] = _Batch(key, version, signature)
            version.hold()
            # Nothing is gained by waiting while nothing runs.
            if signature.joinable and self._window and self.running:
                asyncio.get_running_loop().call_later(self._window, self._make_ready, batch)
            else:
                asyncio.get_running_loop().call_soon(self._make_ready, batch)
        batch.add(request)
        if batch.rows >= self._max_rows:
            self._make_ready(batch)
        return batch

    def _make_ready(self, batch):
        if not batch.ready:
            batch.ready = True
            if batch.requests:
                self._ready.append(batch)
                self._start()

    def _forget(self, batch):
        if self._forming.get(batch.key) is batch:
            del self._forming[batch.key]
        if batch in self._ready:
            self._ready.remove(batch)
        batch.ready = True
        batch.version.release()

    def _start(self):
        """Starts ready batches while a thread is free. Until then a batch that is not full takes more requests."""
        while self._ready and self.running < _THREADS:
            batch = self._ready.popleft()
            if self._forming.get(batch.key) is batch:
                del self._forming[batch.key]
            requests, batch.requests = batch.requests, []
            self.waiting -= len(requests)
            self.running += 1
            self._observe(batch.version.name, sum(request.rows for request in requests))
            loop = asyncio.get_running_loop()
            job = loop.run_in_executor(self._pool, _answers, batch.signature, requests)
            job.add_done_callback(lambda done, batch=batch, requests=requests: self._finish(done, batch, requests))

    def _finish(self, done, batch, requests):
        self.running -= 1
        batch.version.release()
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        answers = [error] * len(requests) if error else done.result()
        for request, answer in zip(requests, answers, strict=True):
            if request.future.done():
                continue
            if isinstance(answer, BaseException):
                request.future.set_exception(answer)
            else:
                request.future.set_result(answer)
        self._start()

    @property
    def idle(self):
        return not self.running and not self.waiting

    def close(self):
        self._pool.shutdown(wait=False, cancel_futures=True)


def _answers(signature, requests):
    """An answer or an exception for each request. If a joint run fails, each runs alone: one may have spoilt it."""
    try:
        return _run(signature, requests)
    except Exception as error:
        if len(requests) == 1:
            return [_as_request_error(error)]
    return [_answers(signature, [request])[0] for request in requests]


def _run(signature, requests):
    if len(requests) == 1:
        inputs = requests[0].inputs
    else:
        inputs = {name: np.concatenate([request.inputs[name] for request in requests]) for name in signature.inputs}
    outputs = signature(inputs)
    if not signature.joinable:
        return [outputs]
    ends = np.cumsum([request.rows for request in requests])
    for name, value in outputs.items():
        check_rows(name, value, ends[-1])
    if len(requests) == 1:
        return [outputs]
    return [
        {name: value[end - request.rows : end] for name, value in outputs.items()}
        for request, end in zip(requests, ends, strict=True)
    ]


def _as_request_error(error):
    return error if isinstance(error, RequestError) else RequestError("INTERNAL", f"the model fails: {one_line(error)}")

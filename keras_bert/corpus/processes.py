"""Runs jobs in several processes, including the current one."""

import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading

import tensorflow as tf

WORTH_A_PROCESS = 2**26  # Bytes of text that take as long to process as starting another process.


class Workers:
    """A context manager for `count` processes. The current process is one of them and works while the others start.

    With several processes, a script needs the guard `if __name__ == "__main__":`, since each process imports it.
    `starting` has a future for each additional process, done when the process is ready.

    Example:
        with Workers(2) as workers:
            for result in workers.run(job, items): ...
    """

    def __init__(self, count):
        self._pool = None
        self.starting = []
        if count > 1:
            context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork.
            self._pool = concurrent.futures.ProcessPoolExecutor(count - 1, context, _use_one_core)
            with _without_stderr():  # Errors arrive as exceptions; TensorFlow's messages would repeat for each process.
                for _ in range(count - 1):
                    self.starting.append(self._pool.submit(_do_nothing))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def run(self, job, items):
        """Yields `job(item)` for every item, in any order."""
        waiting = collections.deque(items)
        running = set()
        while waiting or running:
            ready = sum(start.done() for start in self.starting)
            while waiting and len(running) < 2 * ready:
                running.add(self._pool.submit(job, waiting.popleft()))
            if waiting:
                yield job(waiting.popleft())
            else:
                concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for done in [future for future in running if future.done()]:
                running.remove(done)
                yield done.result()


@contextlib.contextmanager
def _without_stderr():
    """Closes standard error for the processes that are started."""
    stderr = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


def _use_one_core():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the first process, which ends the others.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.set_visible_devices([], "GPU")
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent():
    """Ends this process when the first one is killed."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _do_nothing():
    pass

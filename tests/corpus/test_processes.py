"""Jobs in this process and in others. The jobs are Python built-ins, since the others must import them."""

import functools
import operator
import os
import time

import pytest

from keras_bert.corpus.processes import Workers

pytestmark = pytest.mark.tensorflow
PROCESS = "__import__('os').getpid()"
SETTINGS = """(
    __import__('os').getpid(),
    __import__('tensorflow').config.threading.get_intra_op_parallelism_threads(),
    __import__('time').sleep(0.2)
)"""


def test_single_process_runs_jobs_lazily():
    with Workers(1) as workers:
        results = workers.run(eval, [PROCESS, "1 + 1", "1 / 0", "2 + 2"])
        assert next(results) == os.getpid()
        assert next(results) == 2
        with pytest.raises(ZeroDivisionError):
            next(results)
        # Jobs run only when their results are requested.
        jobs = []
        results = workers.run(jobs.append, [1, 2, 3])
        assert not jobs
        next(results)
        assert jobs == [1]
        assert list(workers.run(operator.neg, [])) == []


@pytest.mark.slow
def test_two_processes_share_jobs_over_several_runs(tmp_path):
    fails_elsewhere = f"1 if {PROCESS} == {os.getpid()} else open({str(tmp_path / 'none')!r})"
    with Workers(2) as workers:
        assert sorted(workers.run(functools.partial(operator.mul, 3), range(50))) == list(range(0, 150, 3))
        deadline = time.monotonic() + 120
        processes = {}
        while len(processes) < 2 and time.monotonic() < deadline:
            for process, threads, _ in workers.run(eval, [SETTINGS] * 4):
                processes[process] = threads
        assert processes.pop(os.getpid()) != 1
        # The other process uses one thread, so that the processes share the cores.
        assert list(processes.values()) == [1]
        assert sorted(workers.run(operator.neg, range(20))) == list(range(-19, 1))
        with pytest.raises(FileNotFoundError, match="none"):
            list(workers.run(eval, [f"({fails_elsewhere}, __import__('time').sleep(0.1))"] * 100))

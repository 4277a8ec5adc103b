"""Jobs in this process and in others. Those others import what they run: it is Python's own."""

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


def test_one_works_alone_when_asked():
    with Workers(1) as workers:
        results = workers.run(eval, [PROCESS, "1 + 1", "1 / 0", "2 + 2"])
        assert next(results) == os.getpid()
        assert next(results) == 2
        with pytest.raises(ZeroDivisionError):
            next(results)
        # Nothing is done before it is asked for.
        jobs = []
        results = workers.run(jobs.append, [1, 2, 3])
        assert not jobs
        next(results)
        assert jobs == [1]
        assert list(workers.run(operator.neg, [])) == []


@pytest.mark.slow
def test_two_share_the_jobs_of_one_pass_after_the_other(tmp_path):
    fails_elsewhere = f"1 if {PROCESS} == {os.getpid()} else open({str(tmp_path / 'none')!r})"
    with Workers(2) as workers:
        assert sorted(workers.run(functools.partial(operator.mul, 3), range(50))) == list(range(0, 150, 3))
        deadline, processes = time.monotonic() + 120, {}
        while len(processes) < 2 and time.monotonic() < deadline:
            processes.update((process, threads) for process, threads, _ in workers.run(eval, [SETTINGS] * 4))
        assert processes.pop(os.getpid()) != 1
        # The other one has one thread, so that they share the cores.
        assert list(processes.values()) == [1]
        assert sorted(workers.run(operator.neg, range(20))) == list(range(-19, 1))
        with pytest.raises(FileNotFoundError, match="none"):
            list(workers.run(eval, [f"({fails_elsewhere}, __import__('time').sleep(0.1))"] * 100))

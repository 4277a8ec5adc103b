"""Batched requests get the same answers as separate ones."""

import asyncio
import contextlib
import threading

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


class Version:
    name = "toy"


class Lengths:
    """A signature that returns lengths. It records its runs, fails on "bad" and waits for `go`."""

    name, joinable = "lengths", True
    inputs = ("text",)

    def __init__(self):
        self.runs, self.go = [], threading.Event()
        self.go.set()

    def __call__(self, inputs):
        assert self.go.wait(10)
        texts = inputs["text"].tolist()
        self.runs.append(texts)
        if "bad" in texts:
            raise RuntimeError("a bad\ntext")
        return {"length": np.array([len(text) for text in texts]), "text": inputs["text"]}


@pytest.fixture
def batcher():
    """A function that makes a `Batcher`."""
    from keras_bert.serving.server.batching import Batcher

    with contextlib.ExitStack() as stack:
        yield lambda window=0.05, **options: stack.enter_context(contextlib.closing(Batcher(window, **options)))


def ask(batcher, version, signature, *texts):
    return asyncio.ensure_future(batcher.run(version, signature, {"text": np.array(texts, object)}, len(texts)))


def test_requests_within_a_window_share_a_batch(batcher):
    signature, version, rows = Lengths(), Version(), []

    async def main():
        joining = batcher(observe=lambda name, count: rows.append((name, count)))
        asked = [ask(joining, version, signature, "a", "bb"), ask(joining, version, signature, "ccc")]
        answers = await asyncio.gather(*asked)
        assert joining.idle
        return [(answer["text"].tolist(), answer["length"].tolist()) for answer in answers]

    assert asyncio.run(main()) == [(["a", "bb"], [1, 2]), (["ccc"], [3])]
    assert signature.runs == [["a", "bb", "ccc"]]
    assert rows == [("toy", 3)]


def test_full_batches_do_not_wait_and_large_requests_run_alone(batcher):
    signature, version = Lengths(), Version()

    async def main():
        joining = batcher(window=100, max_rows=3)
        full = [ask(joining, version, signature, "a", "b"), ask(joining, version, signature, "c")]
        await asyncio.gather(*full)
        pushed = ask(joining, version, signature, "d", "e")
        await ask(joining, version, signature, *"fghij")
        await pushed

    asyncio.run(asyncio.wait_for(main(), 10))
    assert sorted(signature.runs) == [["a", "b", "c"], ["d", "e"], list("fghij")]


def test_only_the_failing_request_of_a_batch_fails(batcher):
    from keras_bert.serving.errors import RequestError

    signature = Lengths()

    async def main():
        joining = batcher()
        version = Version()
        asked = [ask(joining, version, signature, text) for text in ("a", "bad", "ccc")]
        return await asyncio.gather(*asked, return_exceptions=True)

    first, spoilt, last = asyncio.run(main())
    assert (first["length"].tolist(), last["length"].tolist()) == ([1], [3])
    assert isinstance(spoilt, RequestError)
    assert (spoilt.code, str(spoilt)) == ("INTERNAL", "model execution failed: a bad text")


def test_requests_of_different_shape_version_or_signature_are_not_batched(batcher):
    class Sums(Lengths):
        inputs = ("ids",)

        def __init__(self, name, joinable=True):
            super().__init__()
            self.name, self.joinable = name, joinable

        def __call__(self, inputs):
            self.runs.append(inputs["ids"].shape)
            return {"total": inputs["ids"].sum(1)}

    first, second, alone = Sums("first"), Sums("second"), Sums("alone", joinable=False)
    versions = Version(), Version()

    async def main():
        joining = batcher()

        async def total(version, signature, rows):
            ids = np.array(rows)
            return (await joining.run(versions[version], signature, {"ids": ids}, len(ids)))["total"].tolist()

        return await asyncio.gather(
            total(0, first, [[1, 2]]),
            total(0, first, [[1, 2, 3]]),
            total(0, first, [[4, 5], [6, 7]]),
            total(0, second, [[8, 9]]),
            total(1, second, [[8, 9]]),
            *(total(0, alone, [[1, 2]]) for _ in range(2)),
        )

    assert asyncio.run(main()) == [[3], [6], [9, 13], [17], [17], [3], [3]]
    assert sorted(first.runs) == [(1, 3), (3, 2)]
    assert second.runs == alone.runs == [(1, 2), (1, 2)]


def test_batches_grow_while_all_threads_are_busy(batcher):
    signature, version = Lengths(), Version()
    signature.go.clear()

    async def main():
        joining = batcher(window=0, max_rows=3)
        asked = []
        for text in "ab":
            asked.append(ask(joining, version, signature, text))
            await asyncio.sleep(0.01)
        assert (joining.running, joining.waiting) == (2, 0)
        gone = ask(joining, version, signature, "gone")  # It frees its place in the batch.
        await asyncio.sleep(0.01)
        gone.cancel()
        for text in "cde":
            asked.append(ask(joining, version, signature, text))
            await asyncio.sleep(0.01)
        assert joining.waiting == 3
        signature.go.set()
        await asyncio.gather(*asked)

    asyncio.run(main())
    assert sorted(signature.runs) == [["a"], ["b"], ["c", "d", "e"]]

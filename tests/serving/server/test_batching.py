"""Batched requests get the same answers as separate ones."""

import asyncio
import contextlib
import threading

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.serving.errors import RequestError  # noqa: E402
from keras_bert.serving.server.batching import Batcher  # noqa: E402


class Version:
    name = "toy"


class Lengths:
    """A signature that returns lengths. It records its runs, fails on "bad" and waits for `go`."""

    name = "lengths"
    joinable = True
    inputs = ("text",)

    def __init__(self):
        self.runs = []
        self.go = threading.Event()
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
    with contextlib.ExitStack() as stack:

        def make(window=0.05, **options):
            return stack.enter_context(contextlib.closing(Batcher(window, **options)))

        yield make


VERSION = Version()


def ask(batcher, signature, *texts):
    """Sends a request; returns the task."""
    inputs = {"text": np.array(texts, object)}
    return asyncio.ensure_future(batcher.run(VERSION, signature, inputs, len(texts)))


def ask_at_once(batcher, signature, *requests):
    """Sends lists of texts; returns the answers, or what is raised."""

    async def main():
        tasks = [ask(batcher, signature, *texts) for texts in requests]
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(main())


def listed(answer):
    """Returns the texts of an answer and their lengths."""
    return answer["text"].tolist(), answer["length"].tolist()


def test_requests_within_a_window_share_a_batch(batcher):
    signature = Lengths()
    rows = []
    joining = batcher(observe=lambda name, count: rows.append((name, count)))
    first, second = ask_at_once(joining, signature, ["a", "bb"], ["ccc"])
    assert joining.idle
    assert listed(first) == (["a", "bb"], [1, 2])
    assert listed(second) == (["ccc"], [3])
    assert signature.runs == [["a", "bb", "ccc"]]
    assert rows == [("toy", 3)]


def test_full_batches_do_not_wait(batcher):
    signature = Lengths()

    async def main():
        joining = batcher(window=100, max_rows=3)
        full = [ask(joining, signature, "a", "b"), ask(joining, signature, "c")]
        await asyncio.gather(*full)
        pushed = ask(joining, signature, "d", "e")
        await ask(joining, signature, "f", "g", "h")
        await pushed

    asyncio.run(asyncio.wait_for(main(), 10))
    assert sorted(signature.runs) == [["a", "b", "c"], ["d", "e"], ["f", "g", "h"]]


def test_large_requests_run_in_parts_and_leave_turns_to_others(batcher):
    signature = Lengths()

    async def main():
        joining = batcher(window=0, max_rows=2)
        signature.go.clear()
        large = ask(joining, signature, *"abcdefgh")
        gone = ask(joining, signature, *"ijkl")
        await asyncio.sleep(0.01)
        small = ask(joining, signature, "x")
        await asyncio.sleep(0.01)
        gone.cancel()  # The client disconnected.
        signature.go.set()
        await small
        answer = await large
        assert joining.idle
        return listed(answer)

    assert asyncio.run(main()) == (list("abcdefgh"), [1] * 8)
    assert sorted(signature.runs) == [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"], ["i", "j"], ["x"]]
    assert signature.runs.index(["x"]) < signature.runs.index(["g", "h"])


class Letters(Lengths):
    """A signature whose outputs have as many columns as the longest text of a batch."""

    def __call__(self, inputs):
        texts = inputs["text"].tolist()
        letters = tf.ragged.constant([list(text) for text in texts])
        numbers = tf.ragged.constant([list(range(len(text))) for text in texts])
        scores = tf.cast(numbers, tf.float32).to_tensor(0)
        outputs = {
            "letters": letters.to_tensor(""),
            "starts": numbers.to_tensor(-1),
            "scores": scores,
            "squares": scores[:, :, None] * scores[:, None],
        }
        return {name: value.numpy() for name, value in outputs.items()}


def test_parts_are_padded_as_one_batch(batcher):
    texts = ["ab", "c", "def", "g", "hijk"]
    (parts,) = ask_at_once(batcher(max_rows=2), Letters(), texts)
    (whole,) = ask_at_once(batcher(max_rows=5), Letters(), texts)
    assert list(parts) == list(whole)
    for name, expected in whole.items():
        np.testing.assert_array_equal(parts[name], expected, name)
        assert parts[name].dtype == expected.dtype


def test_only_the_failing_request_of_a_batch_fails(batcher):
    first, spoilt, last = ask_at_once(batcher(), Lengths(), ["a"], ["bad"], ["ccc"])
    assert first["length"].tolist() == [1]
    assert last["length"].tolist() == [3]
    assert isinstance(spoilt, RequestError)
    assert spoilt.code == "INTERNAL"
    assert str(spoilt) == "model execution failed: a bad text"


class Sums(Lengths):
    """A signature on numbers that records the shapes of its batches."""

    inputs = ("ids",)

    def __init__(self, name, joinable=True):
        super().__init__()
        self.name = name
        self.joinable = joinable

    def __call__(self, inputs):
        self.runs.append(inputs["ids"].shape)
        return {"total": inputs["ids"].sum(1)}


def totals(batcher, *requests):
    """Sends requests, each a version, a signature and rows, at once; returns the totals of each."""

    async def main():
        tasks = []
        for version, signature, rows in requests:
            ids = np.array(rows)
            tasks.append(batcher.run(version, signature, {"ids": ids}, len(ids)))
        return await asyncio.gather(*tasks)

    return [answer["total"].tolist() for answer in asyncio.run(main())]


def test_requests_of_different_shapes_are_not_batched(batcher):
    sums = Sums("sums")
    requests = [(VERSION, sums, [[1, 2]]), (VERSION, sums, [[1, 2, 3]]), (VERSION, sums, [[4, 5], [6, 7]])]
    assert totals(batcher(), *requests) == [[3], [6], [9, 13]]
    assert sorted(sums.runs) == [(1, 3), (3, 2)]


def test_requests_of_different_versions_or_signatures_are_not_batched(batcher):
    first = Sums("first")
    second = Sums("second")
    rows = [[8, 9]]
    requests = [(VERSION, first, rows), (VERSION, second, rows), (Version(), second, rows)]
    assert totals(batcher(), *requests) == [[17]] * 3
    assert first.runs == [(1, 2)]
    assert second.runs == [(1, 2), (1, 2)]


def test_requests_of_signatures_without_a_batch_dimension_run_alone(batcher):
    alone = Sums("alone", joinable=False)
    requests = [(VERSION, alone, [[1, 2]])] * 2
    assert totals(batcher(), *requests) == [[3], [3]]
    assert alone.runs == [(1, 2), (1, 2)]


def test_batches_grow_while_all_threads_are_busy(batcher):
    signature = Lengths()
    signature.go.clear()

    async def main():
        joining = batcher(window=0, max_rows=3)
        asked = []

        async def add(text):
            asked.append(ask(joining, signature, text))
            await asyncio.sleep(0.01)

        await add("a")
        await add("b")
        assert joining.running == 2
        assert joining.waiting == 0
        gone = ask(joining, signature, "gone")  # It frees its place in the batch.
        await asyncio.sleep(0.01)
        gone.cancel()
        for text in "cde":
            await add(text)
        assert joining.waiting == 3
        signature.go.set()
        await asyncio.gather(*asked)

    asyncio.run(main())
    assert sorted(signature.runs) == [["a"], ["b"], ["c", "d", "e"]]


def test_a_full_queue(batcher):
    signature = Lengths()
    signature.go.clear()

    async def main():
        joining = batcher(window=0, max_rows=1, max_queue=1)
        asked = []
        for text in "abc":  # Two run, and one waits.
            asked.append(ask(joining, signature, text))
            await asyncio.sleep(0.01)
        with pytest.raises(RequestError, match="the queue is full: 1 requests are waiting") as error:
            await ask(joining, signature, "d")
        assert error.value.code == "RESOURCE_EXHAUSTED"
        signature.go.set()
        await asyncio.gather(*asked)

    asyncio.run(main())

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


VERSION = Version()


def ask(batcher, signature, *texts):
    return asyncio.ensure_future(batcher.run(VERSION, signature, {"text": np.array(texts, object)}, len(texts)))


def ask_at_once(batcher, signature, *requests):
    """Sends lists of texts; returns the answers, or what is raised."""

    async def main():
        return await asyncio.gather(*(ask(batcher, signature, *texts) for texts in requests), return_exceptions=True)

    return asyncio.run(main())


def test_requests_within_a_window_share_a_batch(batcher):
    signature, rows = Lengths(), []
    joining = batcher(observe=lambda name, count: rows.append((name, count)))
    first, second = ask_at_once(joining, signature, ["a", "bb"], ["ccc"])
    assert joining.idle
    assert (first["text"].tolist(), first["length"].tolist()) == (["a", "bb"], [1, 2])
    assert (second["text"].tolist(), second["length"].tolist()) == (["ccc"], [3])
    assert signature.runs == [["a", "bb", "ccc"]]
    assert rows == [("toy", 3)]


def test_full_batches_do_not_wait(batcher):
    signature = Lengths()

    async def main():
        joining = batcher(window=100, max_rows=3)
        full = [ask(joining, signature, "a", "b"), ask(joining, signature, "c")]
        await asyncio.gather(*full)
        pushed = ask(joining, signature, "d", "e")
        await ask(joining, signature, *"fgh")
        await pushed

    asyncio.run(asyncio.wait_for(main(), 10))
    assert sorted(signature.runs) == [["a", "b", "c"], ["d", "e"], list("fgh")]


def test_large_requests_run_in_parts_and_leave_turns_to_others(batcher):
    signature = Lengths()

    async def main():
        joining = batcher(window=0, max_rows=2)
        signature.go.clear()
        large, gone = (ask(joining, signature, *letters) for letters in ("abcdefgh", "ijkl"))
        await asyncio.sleep(0.01)
        small = ask(joining, signature, "x")
        await asyncio.sleep(0.01)
        gone.cancel()  # The client disconnected.
        signature.go.set()
        await small
        answer = await large
        assert joining.idle
        return answer["text"].tolist(), answer["length"].tolist()

    assert asyncio.run(main()) == (list("abcdefgh"), [1] * 8)
    assert sorted(signature.runs) == [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"], ["i", "j"], ["x"]]
    assert signature.runs.index(["x"]) < signature.runs.index(["g", "h"])


def test_parts_are_padded_as_one_batch(batcher):
    class Letters(Lengths):
        def __call__(self, inputs):
            self.runs.append(inputs["text"].tolist())
            texts = tf.ragged.stack([list(text) for text in self.runs[-1]])
            numbers = tf.ragged.stack([list(range(len(text))) for text in self.runs[-1]])
            offsets, scores = numbers.to_tensor(-1), tf.cast(numbers, tf.float32).to_tensor(0)
            squares = scores[:, :, None] * scores[:, None]
            outputs = {"letters": texts.to_tensor(""), "starts": offsets, "scores": scores, "squares": squares}
            return {name: value.numpy() for name, value in outputs.items()}

    texts = ["ab", "c", "def", "g", "hijk"]
    ((parts,), (whole,)) = (ask_at_once(batcher(max_rows=rows), Letters(), texts) for rows in (2, 5))
    for name, expected in whole.items():
        np.testing.assert_array_equal(parts[name], expected, name)
        assert parts[name].dtype == expected.dtype


def test_only_the_failing_request_of_a_batch_fails(batcher):
    from keras_bert.serving.errors import RequestError

    first, spoilt, last = ask_at_once(batcher(), Lengths(), ["a"], ["bad"], ["ccc"])
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
    signature = Lengths()
    signature.go.clear()

    async def main():
        joining = batcher(window=0, max_rows=3)
        asked = []
        for text in "ab":
            asked.append(ask(joining, signature, text))
            await asyncio.sleep(0.01)
        assert (joining.running, joining.waiting) == (2, 0)
        gone = ask(joining, signature, "gone")  # It frees its place in the batch.
        await asyncio.sleep(0.01)
        gone.cancel()
        for text in "cde":
            asked.append(ask(joining, signature, text))
            await asyncio.sleep(0.01)
        assert joining.waiting == 3
        signature.go.set()
        await asyncio.gather(*asked)

    asyncio.run(main())
    assert sorted(signature.runs) == [["a"], ["b"], ["c", "d", "e"]]

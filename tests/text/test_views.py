"""Views of texts, compared with plain loops over the rules of Google's program and of transformers."""

import itertools

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.text.views import (  # noqa: E402
    READINGS,
    HeadAndTail,
    HeadOnly,
    SlidingWindows,
    TailOnly,
    Views,
    max_context,
    reading,
)


def slow_windows(lengths, rooms, stride):
    """Returns (row, start, length) of each window, by the loop of run_squad.py."""
    windows = []
    for row, (total, room) in enumerate(zip(lengths, rooms, strict=True)):
        start = 0
        while True:
            length = min(total - start, room)
            windows.append((row, start, length))
            if start + length == total:
                break
            start += min(length, stride)
    return windows


def context_score(place, window):
    """Returns the score of run_squad.py for the context of a token in a window; `None` if it does not have it."""
    _, first, size = window
    if not first <= place < first + size:
        return None
    return min(place - first, first + size - 1 - place) + 0.01 * size


def slow_max_context(windows):
    """Returns, for each token of each window, whether no other window gives it more context; the first of equals."""
    rows = []
    for mine, (row, start, length) in enumerate(windows):
        is_best = []
        for place in range(start, start + length):
            best = None
            best_score = -1
            for other, window in enumerate(windows):
                score = context_score(place, window)
                if window[0] == row and score is not None and score > best_score:
                    best = other
                    best_score = score
            is_best.append(best == mine)
        rows.append(is_best)
    return rows


def overflowing(total, room, stride):
    """Returns the places of the tokens in each sequence of one text, as `return_overflowing_tokens` makes them.

    In transformers, `stride` is the number of tokens that neighbours share. A sequence begins `room - stride` tokens
    behind the one before, and the first one that reaches the end of the text is the last one.
    """
    sequences = []
    for start in itertools.count(0, room - stride):
        sequences.append(list(range(start, min(start + room, total))))
        if start + room >= total:
            return sequences


def slow_places(name, total, room):
    """Returns the places of the tokens that are read of one text."""
    if total <= room or name == "head":
        return list(range(min(total, room)))
    if name == "tail":
        return list(range(total - room, total))
    quarter = room // 4
    return list(range(quarter)) + list(range(total - (room - quarter), total))


def as_views(windows):
    row, start, length = np.reshape(windows, (-1, 3)).T.astype("int32")
    return Views(tf.constant(row), tf.constant(start), tf.constant(length))


def columns_of(views):
    assert views.gap is None
    columns = views[:3]
    assert [column.dtype for column in columns] == [tf.int32] * 3
    return [tuple(row) for row in np.transpose(columns).tolist()]


def random_lengths(seed, least_room=1):
    """Returns the lengths of some texts, some of them empty, and the room of each."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 60, 6) * rng.integers(0, 2, 6)
    return lengths, rng.integers(least_room, 25, 6)


def test_windows_equal_reference_loop():
    rng = np.random.default_rng(0)
    for _ in range(25):
        lengths = rng.integers(0, 60, 5)
        room = rng.integers(1, 25, 5)
        stride = int(rng.integers(1, 30))
        found = columns_of(SlidingWindows(doc_stride=stride).views(lengths, room))
        assert found == slow_windows(lengths, room, stride)


@pytest.mark.parametrize("room", [1, 2, 7, 126])
def test_windows_overlap_by_half_unless_told_otherwise(room):
    found = columns_of(SlidingWindows().views([0, 1, 300], room))
    assert found == slow_windows([0, 1, 300], [room] * 3, max(1, room // 2))


@pytest.mark.parametrize("overlap", [0, 1, 4])
def test_overlap_equals_overflowing_tokens_of_transformers(overlap):
    for seed in range(10):
        lengths, room = random_lengths(seed, least_room=overlap + 1)
        views = SlidingWindows(overlap=overlap).views(lengths, room)
        expected = []
        rows = []
        for row, (length, room_of_row) in enumerate(zip(lengths, room, strict=True)):
            sequences = overflowing(length, room_of_row, overlap)
            expected += sequences
            rows += [row] * len(sequences)
        assert views.places().to_list() == expected
        assert views.row.numpy().tolist() == rows


def test_maximum_number_of_windows():
    every = columns_of(SlidingWindows(doc_stride=3).views([20, 2, 6], 5))
    found = columns_of(SlidingWindows(doc_stride=3, max_windows=2).views([20, 2, 6], 5))
    assert found == [(0, 0, 5), (0, 3, 5), (1, 0, 2), (2, 0, 5), (2, 3, 3)]
    assert set(found) < set(every)


@pytest.mark.parametrize("kind", [HeadOnly, TailOnly, HeadAndTail])
def test_one_view_equals_reference_loop(kind):
    for seed in range(10):
        lengths, room = random_lengths(seed)
        views = kind().views(lengths, room)
        expected = [slow_places(kind.name, *sizes) for sizes in zip(lengths, room, strict=True)]
        assert views.row.numpy().tolist() == list(range(6))
        assert views.places().to_list() == expected
        assert views.length.numpy().tolist() == list(map(len, expected))
        for places, limit in zip(expected, views.limits().numpy().tolist(), strict=True):
            assert limit == (places[-1] + 1 if places else 0)


def test_head_and_tail_of_a_long_text():
    """A quarter of 8, and three quarters."""
    assert HeadAndTail().views([100], 8).places().to_list() == [[0, 1, 94, 95, 96, 97, 98, 99]]
    assert HeadAndTail().views([8], 8).places().to_list() == [list(range(8))]


@pytest.mark.parametrize("kind", READINGS)
def test_a_text_that_fits_has_one_view(kind):
    views = kind().views([0, 1, 4, 5], 5)
    assert views.places().to_list() == [[], [0], [0, 1, 2, 3], [0, 1, 2, 3, 4]]
    assert max_context(views).to_list() == [[], [True], [True] * 4, [True] * 5]


@pytest.mark.parametrize("kind", READINGS)
def test_views_of_values_equal_their_places(kind):
    rng = np.random.default_rng(1)
    lengths, room = random_lengths(2)
    texts = [rng.integers(0, 99, length).tolist() for length in lengths]
    values = tf.ragged.constant(texts, tf.int32)
    views = kind().views(lengths, room)
    rows = views.row.numpy()
    expected = []
    for row, places in zip(rows, views.places().to_list(), strict=True):
        expected.append(np.take(texts[row], places).tolist())
    assert views.take(values).to_list() == expected
    assert views.part(1, 4).take(values).to_list() == expected[1:4]
    # Each row has a text of its own, in another order.
    order = rng.permutation(len(texts))
    shuffled = tf.gather(values, np.argsort(order))
    assert views.take(shuffled, text=order).to_list() == expected
    assert views.take(values.with_row_splits_dtype(tf.int64)).row_splits.dtype == tf.int64


def test_views_of_other_values():
    windows = SlidingWindows(doc_stride=2).views([4, 0, 2], 3)  # 0-2, 2-3; nothing; 0-1
    values = tf.ragged.constant([[10, 11, 12, 13], [], [20, 21]])
    assert windows.take(values).to_list() == [[10, 11, 12], [12, 13], [], [20, 21]]
    pairs = tf.stack([values, values + 1], axis=-1)
    assert windows.take(pairs).to_list()[1] == [[12, 13], [13, 14]]
    words = tf.ragged.constant([[[1], [2, 3], [], [4]], [], [[5, 6], [7]]])
    assert windows.take(words).to_list() == [[[1], [2, 3], []], [[], [4]], [], [[5, 6], [7]]]


def test_max_context_equals_reference_loop():
    for seed in range(12):
        lengths, room = random_lengths(seed)
        windows = slow_windows(lengths, room, 1 + seed)
        assert max_context(as_views(windows)).to_list() == slow_max_context(windows)


def test_max_context_in_double_precision():
    # Token 120 scores 1 + 1.22 in the first window and 2 + 0.22 in the second: larger only by the last bit of a double.
    assert 1 + 0.01 * 122 < 2 + 0.01 * 22
    first, second = max_context(as_views([(0, 0, 122), (0, 118, 22)])).to_list()
    assert not first[120]
    assert second[120 - 118]


def test_max_context_of_views_with_gaps():
    """All tokens of the head and of the tail are chosen: there is no other view of them."""
    views = HeadAndTail().views([100, 3, 50], 8)
    assert max_context(views).to_list() == [[True] * 8, [True] * 3, [True] * 8]


@pytest.mark.parametrize("kind", READINGS)
def test_graph_mode(kind):
    specs = [tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int32)]

    @tf.function(input_signature=specs, autograph=False)
    def graph(lengths, room):
        views = kind().views(lengths, room)
        return views.row, views.places(), max_context(views)

    lengths, room = random_lengths(3)
    views = kind().views(lengths, room)
    row, places, chosen = graph(lengths, room)
    assert row.numpy().tolist() == views.row.numpy().tolist()
    assert places.to_list() == views.places().to_list()
    assert chosen.to_list() == max_context(views).to_list()
    with pytest.raises(tf.errors.InvalidArgumentError, match="`room` must be at least 1"):
        graph(lengths, 0 * room)


@pytest.mark.parametrize("kind", READINGS)
def test_no_rows(kind):
    views = kind().views(tf.zeros([0], tf.int32), 5)
    assert views.row.numpy().tolist() == views.places().to_list() == max_context(views).to_list() == []
    values = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int32), [0])
    assert views.take(values).to_list() == []


def test_readings_by_name():
    assert reading("head") == HeadOnly()
    assert reading("windows", overlap=3, max_windows=None) == SlidingWindows(overlap=3)
    assert [kind.name for kind in READINGS] == ["head", "tail", "head_tail", "refuse", "windows"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SlidingWindows(doc_stride=0), "`doc_stride` must be a positive integer. Received: doc_stride=0"),
        (lambda: SlidingWindows(overlap=-1), "overlap"),
        (lambda: SlidingWindows(max_windows=0), "max_windows"),
        (lambda: SlidingWindows(2, 2), "`doc_stride` and `overlap` must not .* together.* doc_stride=2, overlap=2"),
        (lambda: SlidingWindows(overlap=4).views([9, 9], [5, 4]), r"`overlap` must be less.*room=\[5 4\]"),
        (
            lambda: SlidingWindows(doc_stride=2).views([4, 4], [3, -1]),
            r"`room` must be at least 1, but a question leaves no room for its passage. Received: room=\[ 3 -1\]",
        ),
        (
            lambda: reading("middle"),
            "`long_texts` must be one of head, tail, head_tail, refuse, windows. Received: .*'middle'",
        ),
        (lambda: reading("tail", overlap=3), "`overlap` is an option of long_texts='windows'. .*='tail', overlap"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()

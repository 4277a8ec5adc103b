"""Windows and spans, compared with plain loops over Google's rules."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.text.spans import (  # noqa: E402
    Windows,
    best_spans,
    max_context,
    sliding_windows,
    span_probabilities,
    window_slices,
)

INF = float("inf")


def slow_windows(lengths, rooms, stride):
    """Returns (example, start, length) of each window, by the loop of run_squad.py."""
    windows = []
    for example, (total, room) in enumerate(zip(lengths, rooms, strict=True)):
        start = 0
        while True:
            length = min(total - start, room)
            windows.append((example, start, length))
            if start + length == total:
                break
            start += min(length, stride)
    return windows


def slow_max_context(windows):
    """Returns, for each token of each window, whether no other window gives it more context."""
    rows = []
    for mine, (example, start, length) in enumerate(windows):
        rows.append([])
        for piece in range(start, start + length):
            best, best_score = None, None
            for other, (other_example, first, size) in enumerate(windows):
                if other_example == example and first <= piece < first + size:
                    score = min(piece - first, first + size - 1 - piece) + 0.01 * size
                    if best is None or score > best_score:
                        best, best_score = other, score
            rows[-1].append(best == mine)
    return rows


def slow_spans(start_logits, end_logits, windows, offset, valid, max_answer_length, count):
    """Returns [(start, end, score, window)] of each example."""
    found = [[] for _ in range(1 + max(example for example, _, _ in windows))]
    for window, (example, first, length) in enumerate(windows):
        for start in range(length):
            for end in range(start, min(length, start + max_answer_length)):
                if valid is None or valid[window][start]:
                    score = start_logits[window, offset[window] + start] + end_logits[window, offset[window] + end]
                    found[example].append((-score, window, first + start, first + end))
    best = []
    for spans in found:
        spans = [(start, end, -score, window) for score, window, start, end in sorted(spans)[:count]]
        best.append(spans + [(-1, -1, -INF, -1)] * (count - len(spans)))
    return best


def random_case(seed):
    """Returns passages of several windows, some of them empty. Every other case has many ties."""
    rng = np.random.default_rng(seed)
    examples = rng.integers(1, 6)
    lengths = rng.integers(0, 40, examples) * rng.integers(0, 3, examples)
    room = rng.integers(1, 30, examples)
    windows = slow_windows(lengths, room, int(rng.integers(1, 20)))
    example, _, length = np.transpose(windows)
    offset = rng.integers(2, 9, examples)[example]
    shape = (len(windows), (offset + length).max() + rng.integers(0, 4))
    start_logits, end_logits = rng.normal(size=(2, *shape))
    if seed % 2:
        start_logits, end_logits = np.round(start_logits), np.round(end_logits)
    return start_logits.astype("float32"), end_logits.astype("float32"), windows, offset.astype("int32")


def as_windows(windows):
    return Windows(*(tf.constant(column, tf.int32) for column in np.reshape(windows, (-1, 3)).T))


def from_windows(windows):
    assert all(column.dtype == tf.int32 for column in windows)
    return [tuple(map(int, row)) for row in np.transpose(windows)]


def check(spans, expected, count):
    assert spans.start.dtype == spans.end.dtype == spans.window.dtype == tf.int32
    assert spans.score.dtype == spans.null_score.dtype == tf.float32
    assert spans.start.shape == (len(expected), count)
    for example, rows in enumerate(expected):
        got = zip(*(field[example].numpy().tolist() for field in spans[:4]), strict=True)
        assert list(got) == [(start, end, float(score), window) for start, end, score, window in rows]


def test_windows_equal_reference_loop():
    rng = np.random.default_rng(0)
    for _ in range(25):
        lengths, room, stride = rng.integers(0, 60, 5), rng.integers(1, 25, 5), int(rng.integers(1, 30))
        assert from_windows(sliding_windows(lengths, room, stride)) == slow_windows(lengths, room, stride)


def test_window_slices():
    windows = sliding_windows([4, 0, 2], 3, 2)  # 0-2, 2-3; nothing; 0-1
    values = tf.ragged.constant([[10, 11, 12, 13], [], [20, 21]])
    assert window_slices(values, windows).to_list() == [[10, 11, 12], [12, 13], [], [20, 21]]
    long_splits = window_slices(values.with_row_splits_dtype(tf.int64), windows)
    assert (long_splits.to_list()[1], long_splits.row_splits.dtype) == ([12, 13], tf.int64)
    pairs = tf.stack([values, values + 1], axis=-1)
    assert window_slices(pairs, windows).to_list()[1] == [[12, 13], [13, 14]]
    words = tf.ragged.constant([[[1], [2, 3], [], [4]], [], [[5, 6], [7]]])
    assert window_slices(words, windows).to_list() == [[[1], [2, 3], []], [[], [4]], [], [[5, 6], [7]]]


def test_max_context_equals_reference_loop():
    for seed in range(12):
        windows = random_case(seed)[2]
        assert max_context(as_windows(windows)).to_list() == slow_max_context(windows)


def test_max_context_in_double_precision():
    # Token 120 scores 1 + 1.22 in the first window and 2 + 0.22 in the second: larger only by the last bit of a double.
    assert 1 + 0.01 * 122 < 2 + 0.01 * 22
    first, second = max_context(Windows(tf.constant([0, 0]), tf.constant([0, 118]), tf.constant([122, 22]))).to_list()
    assert (first[120], second[120 - 118]) == (False, True)


@pytest.mark.parametrize(("max_answer_length", "count"), [(1, 1), (4, 7), (1000, 30)])
def test_spans_equal_reference_loop(max_answer_length, count):
    options = {"max_answer_length": max_answer_length, "count": count}
    for seed in range(6):
        start_logits, end_logits, windows, offset = random_case(seed)
        valid, expected_valid = (
            (max_context(as_windows(windows)), slow_max_context(windows)) if seed % 3 else (None, None)
        )
        expected = slow_spans(start_logits, end_logits, windows, offset, expected_valid, **options)
        found = best_spans(start_logits, end_logits, as_windows(windows), offset, valid, **options)
        check(found, expected, count)
        null_score = [INF] * len(expected)
        for window, (example, _, _) in enumerate(windows):
            null_score[example] = min(null_score[example], start_logits[window, 0] + end_logits[window, 0])
        assert found.null_score.numpy().tolist() == null_score


def test_graph_mode():
    logits, places = tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None], tf.int32)

    @tf.function(input_signature=[logits, logits, Windows(places, places, places), places], autograph=False)
    def graph(start_logits, end_logits, windows, offset):
        return best_spans(start_logits, end_logits, windows, offset, max_context(windows), 4, 7)

    for seed in range(2):
        start_logits, end_logits, windows, offset = random_case(seed)
        expected = slow_spans(start_logits, end_logits, windows, offset, slow_max_context(windows), 4, 7)
        check(graph(start_logits, end_logits, as_windows(windows), offset), expected, 7)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`offset` must leave all tokens of a window inside"):
        graph(start_logits, end_logits, as_windows(windows), 99 + offset)


def test_no_examples():
    windows = sliding_windows(tf.zeros([0], tf.int32), 5, 2)
    assert from_windows(windows) == []
    assert max_context(windows).to_list() == []
    values = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int32), [0])
    assert window_slices(values, windows).to_list() == []
    spans = best_spans(tf.zeros([0, 9]), tf.zeros([0, 9]), windows, tf.zeros([0], tf.int32), max_context(windows))
    check(spans, [], 20)
    assert spans.null_score.shape == (0,)


def test_bfloat16_logits():
    start_logits, end_logits, windows, offset = random_case(1)  # Small integers, exact in bfloat16.
    expected = slow_spans(start_logits, end_logits, windows, offset, None, 5, 8)
    half = tf.cast([start_logits, end_logits], tf.bfloat16)
    check(best_spans(*half, as_windows(windows), offset, max_answer_length=5, count=8), expected, 8)


def test_span_probabilities():
    scores = np.log([[1.0, 3.0, 4.0], [5.0, 1e-45, 1e-45]]).astype("float32")
    scores[1, 1:] = -INF
    probabilities = span_probabilities(np.concatenate([scores, np.full((1, 3), -INF, "float32")])).numpy()
    np.testing.assert_allclose(probabilities, [[0.125, 0.375, 0.5], [1, 0, 0], [0, 0, 0]], atol=1e-6)


ZEROS, ROOM = np.zeros([1, 9], "float32"), "`room` must be at least 1, but a question leaves no room for its passage"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sliding_windows([4], 3, 0), "`stride` must be at least 1. Received: stride=0"),
        (lambda: sliding_windows([4, 4], [3, -1], 2), rf"{ROOM}. Received: room=\[ 3 -1\]"),
        (lambda: spans_of_zeros(3, count=0), "`count` must be at least 1. Received: count=0"),
        (lambda: spans_of_zeros(3, max_answer_length=0), "`max_answer_length` must be at least 1. Received: .*=0"),
        (lambda: spans_of_zeros(6), r"`offset` must leave all tokens .* the sequence of the logits.* offset=\[6\]"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def spans_of_zeros(offset, **options):
    return best_spans(ZEROS, ZEROS, sliding_windows([4], 4, 2), [offset], **options)

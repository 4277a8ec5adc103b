"""Spans over the views of a passage, compared with plain loops."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.text.spans import best_spans, span_probabilities  # noqa: E402
from keras_bert.text.views import HeadAndTail, SlidingWindows, Views, max_context  # noqa: E402
from tests.text.test_views import as_views, slow_max_context, slow_windows  # noqa: E402

INF = float("inf")


def spans_of_window(window, start_logits, end_logits, windows, offset, valid, max_answer_length):
    """Yields (start, end, score, window) of each span of a window; `valid` is by token, or `None`."""
    _, first, length = windows[window]
    for start in range(length):
        if valid is not None and not valid[window][start]:
            continue
        for end in range(start, min(length, start + max_answer_length)):
            score = start_logits[window, offset[window] + start] + end_logits[window, offset[window] + end]
            yield first + start, first + end, score, window


def slow_spans(start_logits, end_logits, windows, offset, valid, max_answer_length, count):
    """Returns [(start, end, score, window)] of each example: the highest scores, in the order of windows and places."""
    found = [[] for _ in range(1 + windows[-1][0])]
    for window, (example, _, _) in enumerate(windows):
        spans = spans_of_window(window, start_logits, end_logits, windows, offset, valid, max_answer_length)
        found[example].extend(spans)
    for spans in found:
        spans.sort(key=lambda span: (-span[2], span[3], span[0], span[1]))
        del spans[count:]
        while len(spans) < count:
            spans.append((-1, -1, -INF, -1))
    return found


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
    logits = rng.normal(size=(2, *shape))
    if seed % 2:
        logits = np.round(logits)
    start_logits, end_logits = logits.astype("float32")
    return start_logits, end_logits, windows, offset.astype("int32")


def check(spans, expected, count):
    """Asserts that the spans of examples are those of `slow_spans`."""
    assert spans.start.dtype == spans.end.dtype == spans.view.dtype == tf.int32
    assert spans.score.dtype == spans.null_score.dtype == tf.float32
    assert spans.start.shape == (len(expected), count)
    columns = [field.numpy().tolist() for field in spans[:4]]
    for starts, ends, scores, views, rows in zip(*columns, expected, strict=True):
        assert list(zip(starts, ends, scores, views, strict=True)) == rows


@pytest.mark.parametrize(("max_answer_length", "count"), [(1, 1), (4, 7), (1000, 30)])
@pytest.mark.parametrize("is_limited", [False, True])
def test_spans_equal_reference_loop(max_answer_length, count, is_limited):
    """Starts may be limited to the tokens that have the most context in their window."""
    for seed in range(6):
        if is_limited != (seed % 3 > 0):
            continue
        start_logits, end_logits, windows, offset = random_case(seed)
        valid = None
        expected_valid = None
        if is_limited:
            valid = max_context(as_views(windows))
            expected_valid = slow_max_context(windows)
        expected = slow_spans(start_logits, end_logits, windows, offset, expected_valid, max_answer_length, count)
        found = best_spans(start_logits, end_logits, as_views(windows), offset, valid, max_answer_length, count)
        check(found, expected, count)
        null_score = [INF] * len(expected)
        for window, (example, _, _) in enumerate(windows):
            null_score[example] = min(null_score[example], start_logits[window, 0] + end_logits[window, 0])
        assert found.null_score.numpy().tolist() == null_score


def test_graph_mode():
    logits = tf.TensorSpec([None, None], tf.float32)
    places = tf.TensorSpec([None], tf.int32)

    @tf.function(input_signature=[logits, logits, (places, places, places), places], autograph=False)
    def graph(start_logits, end_logits, columns, offset):
        views = Views(*columns)
        return best_spans(start_logits, end_logits, views, offset, max_context(views), 4, 7)

    for seed in range(2):
        start_logits, end_logits, windows, offset = random_case(seed)
        expected = slow_spans(start_logits, end_logits, windows, offset, slow_max_context(windows), 4, 7)
        check(graph(start_logits, end_logits, as_views(windows)[:3], offset), expected, 7)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`offset` must leave all tokens of a view inside"):
        graph(start_logits, end_logits, as_views(windows)[:3], 99 + offset)


def test_no_rows():
    windows = SlidingWindows(doc_stride=2).views(tf.zeros([0], tf.int32), 5)
    spans = best_spans(tf.zeros([0, 9]), tf.zeros([0, 9]), windows, tf.zeros([0], tf.int32), max_context(windows))
    check(spans, [], 20)
    assert spans.null_score.shape == (0,)


def test_no_span_has_a_gap():
    """Tokens 0 and 8, 9, 10 of the first text, tokens 0 and 1 of the second one, after two other positions."""
    views = HeadAndTail().views([11, 2], 4)
    start_logits = np.array([[0, 0, 5, 3, 2, 1, 0], [0, 0, 1, 2, 9, 9, 0]], "float32")
    end_logits = np.array([[0, 0, 0, 7, 1, 4, 0], [0, 0, 1, 8, 9, 9, 0]], "float32")
    spans = best_spans(start_logits, end_logits, views, [2, 2], max_context(views), max_answer_length=3, count=3)
    first = [(8, 8, 10.0, 0), (8, 10, 7.0, 0), (9, 10, 6.0, 0)]
    second = [(1, 1, 10.0, 1), (0, 1, 9.0, 1), (0, 0, 2.0, 1)]
    check(spans, [first, second], 3)


def test_bfloat16_logits():
    start_logits, end_logits, windows, offset = random_case(1)  # Small integers, exact in bfloat16.
    expected = slow_spans(start_logits, end_logits, windows, offset, None, 5, 8)
    half = tf.cast([start_logits, end_logits], tf.bfloat16)
    check(best_spans(*half, as_views(windows), offset, max_answer_length=5, count=8), expected, 8)


def test_span_probabilities():
    scores = np.log([[1.0, 3.0, 4.0], [5.0, 1e-45, 1e-45]]).astype("float32")
    scores[1, 1:] = -INF
    probabilities = span_probabilities(np.concatenate([scores, np.full((1, 3), -INF, "float32")])).numpy()
    np.testing.assert_allclose(probabilities, [[0.125, 0.375, 0.5], [1, 0, 0], [0, 0, 0]], atol=1e-6)


ZEROS = np.zeros([1, 9], "float32")


@pytest.mark.parametrize(
    ("offset", "options", "message"),
    [
        (3, {"count": 0}, "`count` must be at least 1. Received: count=0"),
        (3, {"max_answer_length": 0}, "`max_answer_length` must be at least 1. Received: .*=0"),
        (6, {}, r"`offset` must leave all tokens .* the sequence of the logits.* offset=\[6\]"),
    ],
)
def test_errors(offset, options, message):
    with pytest.raises(ValueError, match=message):
        best_spans(ZEROS, ZEROS, SlidingWindows().views([4], 4), [offset], **options)

"""Temperature, threshold and calibration error, by formulas of their own."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, log_softmax, softmax
from scipy.stats import binom

from keras_bert.heads.confidence import Confidence, checked_confidence
from keras_bert.tasks import confidence


def drawn(rows, classes=3, temperature=1.0, seed=0):
    """Returns logits that are too sure by a factor, and class ids that are drawn from their probabilities."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(rows, classes))
    targets = (softmax(logits, -1).cumsum(-1) < rng.random((rows, 1))).sum(-1)
    return temperature * logits, np.minimum(targets, classes - 1)


def test_the_temperature_is_that_of_a_grid():
    logits, targets = drawn(2000, temperature=2.5)
    grid = np.arange(1.5, 4, 0.005)
    losses = [-log_softmax(logits / value, -1)[np.arange(2000), targets].mean() for value in grid]
    found = confidence.fitted_temperature(logits, targets)
    assert found == pytest.approx(grid[np.argmin(losses)], abs=0.005)
    assert found == pytest.approx(2.5, abs=0.2)  # Of which they were made.


def test_the_temperature_of_labels():
    """One temperature of all sigmoids, by the binary cross-entropy."""
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(400, 3)) * 2
    targets = (rng.random((400, 3)) < expit(logits)).astype(int)
    found = confidence.Decisions.of_labels(3 * logits, targets).fitted()

    def loss(temperature):
        return -np.where(targets, log_expit(3 * logits / temperature), log_expit(-3 * logits / temperature)).mean()

    expected = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-7}).x
    assert found.temperature == pytest.approx(expected, rel=1e-4)
    assert found.temperature == pytest.approx(3, rel=0.1)


def test_rows_without_error_have_no_temperature():
    assert confidence.fitted_temperature(np.array([[2.0, 1.0], [0.0, 3.0]]), [0, 1]) == 1.0
    assert confidence.fitted_temperature(np.zeros((0, 2)), []) == 1.0


def test_the_lower_bound_is_exact():
    for right, count, risk in ((1, 1, 0.05), (90, 100, 0.05), (299, 300, 0.005), (300, 300, 0.01)):
        bound = confidence.lower_bound(right, count, risk)
        # So many right ones or more have the probability `risk` at the bound.
        assert binom.sf(right - 1, count, bound) == pytest.approx(risk, rel=1e-6)
    assert confidence.lower_bound(0, 5) == 0.0


def test_the_threshold_lets_pass_what_the_bound_allows():
    rng = np.random.default_rng(3)
    sure = rng.uniform(0.5, 1, 1000)
    right = rng.random(1000) < sure
    threshold = confidence.chosen_threshold(sure, right, 0.9)
    answered = sure >= threshold
    risk = 0.05 / 10  # Ten steps of a binary search in 1,000 rows.
    assert binom.sf(right[answered].sum() - 1, answered.sum(), 0.9) <= risk
    assert 0.1 < answered.mean() < 0.6
    # A precision that all rows have, and one that none can have.
    assert confidence.chosen_threshold(sure, right, 0.5) == 0.0
    assert confidence.chosen_threshold(sure[:50], right[:50], 0.99) == confidence.NEVER


def test_equal_probabilities_are_answered_together():
    sure = np.repeat([0.9, 0.6], 200)
    right = np.concatenate([np.ones(200), np.arange(200) % 2]).astype(bool)
    assert confidence.chosen_threshold(sure, right, 0.95) == pytest.approx(0.75)
    # Neighbours among the numbers that probabilities are: there is none between them.
    lower = np.nextafter(np.float32(0.9), np.float32(0))
    sure = np.repeat([np.float32(0.9), lower], 200)
    threshold = confidence.chosen_threshold(sure, np.arange(400) < 200, 0.95)
    assert lower < threshold <= np.float32(0.9)


def test_a_promise_is_kept_in_most_draws():
    broken = 0
    for seed in range(60):
        logits, targets = drawn(600, temperature=3, seed=seed)
        half = len(targets) // 2
        found = confidence.fitted(logits[:half], targets[:half], 0.8)
        sure, _ = confidence.judged(logits[half:], targets[half:], found.temperature)
        truth, _ = confidence.judged(logits[half:] / 3 * found.temperature, targets[half:], found.temperature)
        answered = sure >= found.threshold
        # The true probability of the answers, rather than that of the drawn labels.
        broken += answered.any() and truth[answered].mean() < 0.8
    assert broken <= 6


def test_least_rows():
    least = confidence.least_rows(0.95)
    steps = math.floor(math.log2(least)) + 1
    assert 0.95**least <= 0.05 / steps < 0.95 ** (least - 1) * 1.06
    logits = np.tile([[0.0, 5.0]], (least, 1))
    assert confidence.fitted(logits, np.ones(least), 0.95).threshold == 0.0
    assert confidence.fitted(logits[1:], np.ones(least - 1), 0.95).threshold == confidence.NEVER


def test_held_out_halves():
    logits, targets = drawn(800, temperature=3)
    found = confidence.HeldOut.of(confidence.Decisions(logits=logits, targets=targets), 0.8)
    first, second = np.array_split(np.random.default_rng(0).permutation(800), 2)
    other = confidence.fitted(logits[second], targets[second], 0.8)
    expected = softmax(logits[first] / other.temperature, -1).max(-1)
    np.testing.assert_allclose(found.after[first], expected, rtol=1e-12)
    np.testing.assert_array_equal(found.answered[first], expected >= other.threshold)
    (before, *_), (after, low, high) = found.errors()
    assert after < before / 3
    assert low <= high
    # Expected calibration error: a loop over ten ranges.
    total = 0.0
    for place in range(10):
        rows = (found.before > place / 10) & (found.before <= (place + 1) / 10)
        if rows.any():
            total += rows.sum() / 800 * abs(found.before[rows].mean() - found.right[rows].mean())
    assert before == pytest.approx(total)


def test_halves_and_intervals_are_those_of_rows():
    """Decisions of one row stay together: with equal ones in each row, the interval is that of the rows alone."""
    logits, targets = drawn(100, temperature=3)
    rows = np.repeat(np.arange(100), 5)
    alone = confidence.HeldOut.of(confidence.Decisions(logits=logits, targets=targets))
    shuffled = np.random.default_rng(1).permutation(500)
    decisions = confidence.Decisions(
        logits=logits[rows][shuffled], targets=targets[rows][shuffled], rows=7 * rows[shuffled]
    )
    together = confidence.HeldOut.of(decisions)
    np.testing.assert_allclose(together.after, alone.after[rows][shuffled], rtol=1e-5)
    np.testing.assert_allclose(together.errors()[0], alone.errors()[0], rtol=1e-9)


@pytest.mark.parametrize(
    "values",
    [{"temperature": 0}, {"temperature": -1.0}, {"temperature": float("nan")}, {"heat": 1.0}, [1.0], {"threshold": -1}],
)
def test_wrong_values_are_refused(values):
    with pytest.raises(ValueError, match="`confidence` must be a dict of temperature, threshold"):
        Confidence.of(values)
    with pytest.raises(ValueError, match="`confidence` must be None"):
        checked_confidence({"temperature": 2.0}, fields=())


def test_json():
    assert Confidence.of(None).to_json() == {}
    values = {"temperature": 1.5, "threshold": 0.0, "precision": 0.95, "answers": 1.0}
    assert Confidence.of(values).to_json() == values
    assert checked_confidence({"temperature": 1.0}) is None

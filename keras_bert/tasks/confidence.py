"""A confidence that can be trusted: a temperature (Guo et al., 2017), and a threshold of answers for a precision.

The threshold is that of selective classification with guaranteed risk (Geifman and El-Yaniv, 2017): a binary search for
the largest share of texts whose precision is high enough by an exact lower bound, which is corrected for the search.
"""

import dataclasses
import logging
import math
from typing import Any

import numpy as np

from keras_bert.checks import is_finite
from keras_bert.heads.confidence import NEVER, Confidence
from keras_bert.heads.registry import head_named
from keras_bert.reports import page
from keras_bert.reports.sections import bins, expected_error
from keras_bert.tasks.logits import softmax

_LOG = logging.getLogger("keras_bert")
RISK = 0.05  # Probability with which the precision may be lower than promised.
_TEMPERATURES = (0.05, 20.0)
_PARTS = 2  # Of the rows, each of which is held out once; the section of the report speaks of halves.
_DRAWS = 200  # Of the bootstrap.
_DIGITS = 6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decisions:
    """What a model decides in the rows of dev, to which a confidence is fitted.

    Args:
        logits: `(decisions, classes)`.
        targets: ints `(decisions,)`, the numbers of the right classes.
        rows: ints `(decisions,)`, the row of each decision. Defaults to `None`, one decision for each row.
        unit: string, what is decided. Defaults to "texts".
    """

    logits: Any
    targets: Any
    rows: Any = None
    unit: str = "texts"

    @classmethod
    def of_labels(cls, logits, targets):
        """Returns the decisions whether rows have labels, given arrays `(rows, labels)`; `targets` are 0 or 1."""
        logits = np.asarray(logits, "float64")
        rows = np.repeat(np.arange(len(logits)), logits.shape[1])
        # Their softmax is the sigmoid.
        pairs = np.stack([np.zeros(logits.size), logits.ravel()], -1)
        return cls(
            logits=pairs,
            targets=np.asarray(targets, int).ravel(),
            rows=rows,
            unit="labels of texts",
        )

    def equal(self, other):
        """Whether other decisions have the same probabilities, up to rounding, as after the mean of one model."""
        if np.shape(self.logits) != np.shape(other.logits):
            return False
        return np.allclose(softmax(self.logits), softmax(other.logits), rtol=1e-5, atol=1e-9)

    def fitted(self, precision=None):
        """Returns the `Confidence` that is fitted to them."""
        return fitted(self.logits, self.targets, precision)


def check(task):
    """Raises if a task calibrates a head without a confidence, or promises a precision that cannot be."""
    name = "calibrate" if task.precision is None else "answer_at_precision"
    if "confidence" not in head_named(task.head).text_options:
        raise ValueError(
            f"`{name}` is for heads with the option `confidence`, see `text_options` of keras_bert.Head. "
            f"Received: head={task.head!r}"
        )
    if task.precision is None:
        return
    if not is_finite(task.precision) or not 0.5 <= task.precision <= 0.999:
        raise ValueError(
            "`answer_at_precision` must be a share from 0.5 to 0.999, such as 0.95. "
            f"Received: answer_at_precision={task.precision!r}"
        )


def check_rows(task):
    """Raises if the rows of dev, or those of all folds, are too few to promise the precision of a task."""
    if task.precision is None:
        return
    least = least_rows(task.precision)
    rows = len(task.splits["dev"][0].examples)
    if rows < least:
        raise ValueError(
            f"`answer_at_precision={task.precision:g}` needs at least {least:,} labeled rows to be promised, even "
            f"if all are predicted correctly. Received: {rows:,} rows of dev"
        )


def warn_of(confidence):
    """Warns of a `Confidence` that promises less than was asked for."""
    if confidence.threshold is not None and confidence.threshold > 1:
        _LOG.warning(
            "answer_at_precision=%g cannot be promised: the model gives no label at all. Lower the precision, or "
            "choose the threshold on more rows",
            confidence.precision,
        )
    elif confidence.temperature == 1.0:
        _LOG.warning("calibrate: the temperature stays 1, since no error is among the predictions that it is fitted to")


def scaled(outputs, name, confidence):
    """Returns the outputs of a model with the logits, those of a name, divided by the temperature, if there is any."""
    if confidence is None:
        return outputs
    scaled_logits = confidence.scaled(np.asarray(outputs[name]))
    return outputs | {name: scaled_logits}


def fitted_temperature(logits, targets):
    """Returns the divisor of logits `(rows, classes)` with the lowest mean negative log likelihood of class ids.

    It is 1 if every row is predicted correctly, since the likelihood grows then with ever smaller divisors.
    """
    from scipy.optimize import minimize_scalar

    logits = np.asarray(logits, "float64")
    targets = np.asarray(targets, int)
    if not len(targets) or (logits.argmax(-1) == targets).all():
        return 1.0

    def loss(log_temperature):
        scaled = logits * math.exp(-log_temperature)
        return np.mean(np.logaddexp.reduce(scaled, -1) - scaled[np.arange(len(targets)), targets])

    lowest, highest = _TEMPERATURES
    bounds = (math.log(lowest), math.log(highest))
    minimum = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-8})
    return round(math.exp(minimum.x), _DIGITS)


def lower_bound(right, count, risk=RISK):
    """Returns the exact lower bound of a share (Clopper and Pearson, 1934), too high with probability `risk`."""
    from scipy.stats import beta

    if not right:
        return 0.0
    return float(beta.ppf(risk, right, count - right + 1))


def least_rows(precision):
    """Returns the smallest number of rows on which a precision can be promised, if all are predicted correctly."""
    count = 1
    while lower_bound(count, count, _risk_of_step(count)) < precision:
        count += 1
    return count


def _risk_of_step(count):
    """Returns the risk of each step of the binary search in `count` rows."""
    return RISK / (math.floor(math.log2(count)) + 1)


def chosen_threshold(confidence, right, precision):
    """Returns the lowest probability at which a label is answered, so that the precision of the answers is kept.

    It is 0 if all rows can be answered, and `NEVER` if none can.

    Args:
        confidence: floats, the probabilities of the predictions.
        right: bools, whether they are correct.
        precision: float, the share of the answers that must be right, by `lower_bound` with the risk `RISK` for all
            steps of the search.
    """
    if not len(confidence):
        return NEVER
    probabilities = np.asarray(confidence, "float32")  # As a SavedModel has them.
    order = np.argsort(-probabilities, kind="stable")
    probabilities = probabilities[order]
    hits = np.cumsum(np.asarray(right, bool)[order])
    answers = _most_answers(probabilities, hits, precision)
    if answers == 0:
        return NEVER
    if answers == len(probabilities):
        return 0.0
    last_answered = probabilities[answers - 1]
    next_one = probabilities[answers]
    # Between two probabilities, so that rounding in other runtimes changes no answer; there may be no number between.
    middle = (last_answered + next_one) / 2
    return float(middle if middle > next_one else last_answered)


def _most_answers(probabilities, hits, precision):
    """Returns the largest number of answers, the most probable ones, that a binary search finds for a precision.

    `probabilities` are sorted, the highest first, and `hits` are the numbers of right ones among the first ones.
    """
    risk = _risk_of_step(len(probabilities))
    most = 0
    low = 1
    high = len(probabilities)
    while low <= high:
        middle = (low + high) // 2
        # With those that are equal.
        count = int(np.searchsorted(-probabilities, -probabilities[middle - 1], side="right"))
        if lower_bound(int(hits[count - 1]), count, risk) >= precision:
            most = max(most, count)
            low = middle + 1
        else:
            high = middle - 1
    return most


def fitted(logits, targets, precision=None):
    """Returns the `Confidence` that is fitted to logits and class ids, with a threshold for a precision if given."""
    temperature = fitted_temperature(logits, targets)
    if precision is None:
        return Confidence(temperature=temperature)
    probabilities, right = judged(logits, targets, temperature)
    threshold = chosen_threshold(probabilities, right, precision)
    answers = 0.0
    if len(probabilities):
        answers = float(np.mean(probabilities >= threshold))
    return Confidence(temperature, threshold, precision, answers)


def judged(logits, targets, temperature=1.0):
    """Returns the probabilities of the predictions, and whether they are correct."""
    logits = np.asarray(logits, "float64")
    probabilities = softmax(logits / temperature).max(-1)
    right = logits.argmax(-1) == np.asarray(targets)
    return probabilities, right


def calibration_error(confidence, right):
    """Returns the expected calibration error, see the section about calibration."""
    return float(expected_error(bins(confidence, right)))


def scores(confidence, decisions):
    """Returns what `evaluate` tells of a `Confidence`: the calibration error; with a threshold the answers, too."""
    probabilities, right = judged(decisions.logits, decisions.targets, confidence.temperature)
    scores_by_name = {"calibration_error": calibration_error(probabilities, right)}
    if confidence.threshold is not None:
        answered = probabilities >= confidence.threshold
        scores_by_name["answered"] = float(answered.mean()) if len(answered) else math.nan
        scores_by_name["precision"] = float(right[answered].mean()) if answered.any() else math.nan
    return scores_by_name


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """What a confidence does on rows that it was not fitted to: each part of the rows is held out once.

    The parts are halves, as the report says of them.

    Attributes:
        before, after: arrays, the probabilities of the predictions without and with temperature.
        right: bools, whether the predictions are correct.
        answered: bools, whether the threshold that is fitted to the other rows lets them pass.
        rows: ints, the row of each prediction.
    """

    before: np.ndarray
    after: np.ndarray
    right: np.ndarray
    answered: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, decisions, precision=None, seed=0):
        """Divides the rows of `Decisions` at random; a part is judged by what is fitted to all other rows.

        A part without decisions, or without others to fit to, stays as it is without a confidence.
        """
        logits = np.asarray(decisions.logits, "float64")
        targets = np.asarray(decisions.targets, int)
        before, right = judged(logits, targets)
        after = before.copy()
        answered = np.ones(len(right), bool)
        rows = np.arange(len(right))
        if decisions.rows is not None:
            _, rows = np.unique(decisions.rows, return_inverse=True)
        for held_out in _random_parts(rows, _PARTS, seed):
            fit = ~held_out
            if not fit.any() or not held_out.any():
                continue
            confidence = fitted(logits[fit], targets[fit], precision)
            after[held_out], _ = judged(logits[held_out], targets[held_out], confidence.temperature)
            if confidence.threshold is not None:
                answered[held_out] = after[held_out] >= confidence.threshold
        return cls(before=before, after=after, right=right, answered=answered, rows=rows)

    def errors(self):
        """Returns the calibration errors before and after, each with a 95% interval of the bootstrap of rows."""
        return self._with_interval(self.before), self._with_interval(self.after)

    def _with_interval(self, confidence):
        """Returns the calibration error and the ends of its interval."""
        if not len(self.rows):
            return math.nan, math.nan, math.nan
        rng = np.random.default_rng(0)
        order = np.argsort(self.rows, kind="stable")
        sizes = np.bincount(self.rows)
        starts = np.cumsum(sizes) - sizes
        drawn = []
        for _ in range(_DRAWS):
            rows = rng.integers(len(sizes), size=len(sizes))
            places = order[_ranges(starts[rows], sizes[rows])]
            drawn.append(calibration_error(confidence[places], self.right[places]))
        low, high = np.quantile(drawn, [0.025, 0.975])
        return calibration_error(confidence, self.right), float(low), float(high)


def _random_parts(rows, count, seed):
    """Returns which decisions are in each part of the rows, drawn at random: arrays of bools.

    Decisions of a row, such as the words of a sentence, are in one part.
    """
    order = np.random.default_rng(seed).permutation(rows.max(initial=-1) + 1)
    return [np.isin(rows, part) for part in np.array_split(order, count)]


def _ranges(starts, sizes):
    """Returns the numbers of several ranges, one after the other."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(sizes.sum())


def _share(count, total):
    """Returns a share in percent with its 95% interval, as text."""
    if not total:
        return page.NOTHING
    share = count / total
    low, high = page.interval_of_share(share, total)
    return f"{share:.1%} ({low:.1%} to {high:.1%}, of {total:,})"


def section(confidence, decisions, place):
    """Returns the HTML section about a `Confidence` that was fitted to `Decisions` of a `place`."""
    held_out = HeldOut.of(decisions, confidence.precision)
    rows = []
    for name, (error, low, high) in zip(("before", "after"), held_out.errors(), strict=True):
        rows.append([f"calibration error {name}", f"{error:.2%} ({low:.2%} to {high:.2%})"])
    if confidence.threshold is not None:
        answered = held_out.answered
        rows.append(["answered", _share(int(answered.sum()), len(answered))])
        right_answers = int(held_out.right[answered].sum())
        rows.append(["precision of the answers", _share(right_answers, int(answered.sum()))])
    return page.render(
        "tasks/confidence.html",
        place=place,
        unit=decisions.unit,
        chosen="the temperature" if confidence.threshold is None else "temperature and threshold",
        text=described(confidence),
        rows=rows,
    )


def described(confidence):
    """Returns a `Confidence` as a text of one line."""
    text = f"temperature {confidence.temperature:.4g}"
    if confidence.threshold is None:
        return text
    if confidence.threshold > 1:
        return f"{text}; no answers, since a precision of {confidence.precision:.4g} cannot be promised"
    return (
        f"{text}; answers from a probability of {confidence.threshold:.4g} on, for a precision of "
        f"{confidence.precision:.4g}: {confidence.answers:.1%} of the texts"
    )

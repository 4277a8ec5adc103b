"""Linear heads on fixed vectors: logistic and ridge regression."""

import dataclasses

import numpy as np
import scipy.optimize
import scipy.special

PENALTY = 1.0  # No other one is better for few and for many rows, see benchmarks/README.md.
_ABSENT = -10.0  # The logit of a class without rows, below the lowest bias.


@dataclasses.dataclass(frozen=True)
class LinearHead:
    """The weights of a dense layer.

    Attributes:
        kernel: float32 `(width, outputs)`.
        bias: float32 `(outputs,)`.
        loss: float, the loss on the rows that it was fitted to, without the penalty.
        penalty: float, that of the squared weights of vectors that have the root mean square distance 1 from their
            mean.
    """

    kernel: np.ndarray
    bias: np.ndarray
    loss: float
    penalty: float


def fit_head(vectors, targets, num_classes=None, *, row_weights=None, penalty=PENALTY):
    """Fits a linear head to vectors, the same one each time.

    The sum of the losses plus `penalty / 2` times the squared weights is minimized, as scikit-learn's
    `LogisticRegression(C=1 / penalty)` and `Ridge(alpha=penalty)` do; biases have no penalty.

    Args:
        vectors: array `(rows, width)`.
        targets: int array `(rows,)` of classes; array `(rows, labels)` of 0 and 1, for which each label has a head of
            its own; or float array `(rows,)` of numbers.
        num_classes: int, number of classes; `None` for labels and numbers.
        row_weights: array of the shape of `targets`, the weights of the losses. Defaults to `None`, equal weights.
        penalty: float, on vectors that are scaled as in `LinearHead`. Defaults to 1.

    Returns:
        A `LinearHead`.
    """
    vectors = np.asarray(vectors, "float64")
    center = vectors.mean(0)
    scale = np.sqrt(((vectors - center) ** 2).sum(1).mean()) or 1.0
    scaled = (vectors - center) / scale
    problem = _problem(np.asarray(targets), num_classes)
    weights = np.ones(np.shape(targets))
    if row_weights is not None:
        weights = np.asarray(row_weights, "float64")
    kernel, bias = problem.solve(scaled, weights, penalty)
    loss = problem.losses(scaled @ kernel + bias, weights).mean()
    kernel = kernel / scale
    bias = bias - center @ kernel
    return LinearHead(kernel.astype("float32"), bias.astype("float32"), float(loss), float(penalty))


def _problem(targets, num_classes):
    """Returns the problem of `fit_head` that targets pose."""
    if num_classes is not None:
        return _Classes(targets, num_classes)
    if targets.ndim == 2:
        return _Labels(targets)
    return _Numbers(targets)


class _Classes:
    """One class of each row. Two classes have one vector of weights, as in scikit-learn."""

    def __init__(self, targets, num_classes):
        self.targets = targets
        self._count = num_classes

    def solve(self, vectors, weights, penalty):
        present = np.unique(self.targets)
        kernel = np.zeros([vectors.shape[1], self._count])
        bias = np.zeros(self._count)
        if len(present) == 2:
            column, shift = _solve_binary(vectors, self.targets == present[1], weights, penalty)
            kernel[:, present] = np.stack([-column / 2, column / 2], 1)
            bias[present] = [-shift / 2, shift / 2]
        elif len(present) > 2:
            places = np.searchsorted(present, self.targets)
            columns, shifts = _solve_softmax(vectors, places, len(present), weights, penalty)
            kernel[:, present] = columns
            bias[present] = shifts
        absent = np.setdiff1d(np.arange(self._count), present)
        bias[absent] = bias[present].min() + _ABSENT
        return kernel, bias

    def losses(self, logits, weights):
        chosen = np.take_along_axis(logits, self.targets[:, None], 1)[:, 0]
        return weights * (scipy.special.logsumexp(logits, axis=1) - chosen)


class _Labels:
    """Any number of labels of each row: a head for each of them."""

    def __init__(self, targets):
        self.targets = targets

    def solve(self, vectors, weights, penalty):
        columns = []
        shifts = []
        for label in range(self.targets.shape[1]):
            has_label = self.targets[:, label] > 0
            column, shift = _solve_binary(vectors, has_label, weights[:, label], penalty)
            columns.append(column)
            shifts.append(shift)
        return np.stack(columns, 1), np.array(shifts)

    def losses(self, logits, weights):
        return (weights * (np.logaddexp(0, logits) - self.targets * logits)).mean(1)


class _Numbers:
    """A number of each row."""

    def __init__(self, targets):
        self.targets = targets.astype("float64")

    def solve(self, vectors, weights, penalty):
        share = weights / weights.sum()
        center = share @ vectors
        middle = share @ self.targets
        weighted = (vectors - center) * weights[:, None]
        gram = weighted.T @ (vectors - center) + penalty * np.eye(vectors.shape[1])
        kernel = np.linalg.solve(gram, weighted.T @ (self.targets - middle))
        return kernel[:, None], np.array([middle - center @ kernel])

    def losses(self, logits, weights):
        return weights * (logits[:, 0] - self.targets) ** 2


def _solve_binary(vectors, is_true, weights, penalty):
    """Returns the weights `(width,)` and the bias of logistic regression; of one class only, its smoothed odds."""
    if is_true.all() or not is_true.any():
        odds = np.log(2 * len(is_true) + 1)
        if not is_true.all():
            odds = -odds
        return np.zeros(vectors.shape[1]), odds
    signs = np.where(is_true, 1.0, -1.0)

    def objective(values):
        column = values[:-1]
        shift = values[-1]
        margins = signs * (vectors @ column + shift)
        slopes = -weights * signs * scipy.special.expit(-margins)
        value = weights @ np.logaddexp(0, -margins) + penalty / 2 * column @ column
        return value, np.append(slopes @ vectors + penalty * column, slopes.sum())

    solution = _minimized(objective, vectors.shape[1] + 1)
    return solution[:-1], solution[-1]


def _solve_softmax(vectors, classes, count, weights, penalty):
    """Returns the weights `(width, count)` and the biases of multinomial logistic regression."""
    shape = (vectors.shape[1] + 1, count)
    rows = np.arange(len(classes))

    def objective(values):
        table = values.reshape(shape)
        logits = vectors @ table[:-1] + table[-1]
        logs = logits - scipy.special.logsumexp(logits, axis=1, keepdims=True)
        slopes = np.exp(logs)
        slopes[rows, classes] -= 1
        slopes *= weights[:, None]
        of_weights = vectors.T @ slopes + penalty * table[:-1]
        gradient = np.concatenate([of_weights, slopes.sum(0, keepdims=True)])
        value = -(weights @ logs[rows, classes]) + penalty / 2 * (table[:-1] ** 2).sum()
        return value, gradient.ravel()

    table = _minimized(objective, shape[0] * count).reshape(shape)
    return table[:-1], table[-1] - table[-1].mean()


def _minimized(objective, size):
    """Returns the minimum of a convex function that returns its value and its gradient."""
    options = {"maxiter": 1000, "gtol": 1e-6, "ftol": 1e-12}
    result = scipy.optimize.minimize(
        objective,
        np.zeros(size),
        jac=True,
        method="L-BFGS-B",
        options=options,
    )
    return result.x

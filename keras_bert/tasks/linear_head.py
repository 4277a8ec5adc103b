"""Linear heads on fixed vectors: logistic and ridge regression, whose penalty cross-validation chooses."""

import dataclasses

import numpy as np
import scipy.optimize
import scipy.special

PENALTIES = (0.01, 0.1, 1.0)  # Cross-validation chooses one.
USUAL_PENALTY = 0.1  # For fewer rows than the next: there, it is better than what cross-validation chooses.
_FEWEST_ROWS = 100
_FOLDS = 5
_MOST_ROWS = 2000  # To choose the penalty on.
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


def fit_head(vectors, targets, num_classes=None, *, row_weights=None, penalty=None):
    """Fits a linear head to vectors, the same one each time.

    The sum of the losses plus `penalty / 2` times the squared weights is minimized, as scikit-learn's
    `LogisticRegression(C=1 / penalty)` and `Ridge(alpha=penalty)` do; biases have no penalty.

    Args:
        vectors: array `(rows, width)`.
        targets: int array `(rows,)` of classes; array `(rows, labels)` of 0 and 1, for which each label has a head of
            its own; or float array `(rows,)` of numbers.
        num_classes: int, number of classes; `None` for labels and numbers.
        row_weights: array of the shape of `targets`, the weights of the losses. Defaults to `None`, equal weights.
        penalty: float, on vectors that are scaled as in `LinearHead`. Defaults to the one among `PENALTIES` with the
            lowest loss in cross-validation; with fewer than 100 rows to 0.1.

    Returns:
        A `LinearHead`.
    """
    vectors = np.asarray(vectors, "float64")
    center = vectors.mean(0)
    scale = np.sqrt(((vectors - center) ** 2).sum(1).mean()) or 1.0
    scaled = (vectors - center) / scale
    problem = _problem(np.asarray(targets), num_classes)
    weights = np.ones(np.shape(targets)) if row_weights is None else np.asarray(row_weights, "float64")
    if penalty is None:
        penalty = _chosen_penalty(problem, scaled, weights)
    kernel, bias = problem.solve(scaled, problem.targets, weights, penalty)
    loss = problem.losses(scaled @ kernel + bias, problem.targets, weights).mean()
    kernel = kernel / scale
    bias = bias - center @ kernel
    return LinearHead(kernel.astype("float32"), bias.astype("float32"), float(loss), float(penalty))


def _problem(targets, num_classes):
    if num_classes is not None:
        return _Classes(targets, num_classes)
    if targets.ndim == 2:
        return _Labels(targets)
    return _Numbers(targets)


def _chosen_penalty(problem, vectors, weights):
    """Returns the penalty with the lowest loss over folds; the usual one if there are too few rows for them."""
    if len(vectors) < _FEWEST_ROWS:
        return USUAL_PENALTY
    fold = problem.folds()
    if len(fold) > _MOST_ROWS:
        fold = np.where(np.arange(len(fold)) % (-(-len(fold) // _MOST_ROWS)) == 0, fold, -1)
    numbers = [number for number in range(fold.max() + 1) if np.any(fold == number)]
    if len(numbers) < 2:
        return USUAL_PENALTY
    losses = dict.fromkeys(reversed(PENALTIES), 0.0)
    for number in numbers:
        train, held_out = (fold >= 0) & (fold != number), fold == number
        for penalty in losses:
            kernel, bias = problem.solve(vectors[train], problem.targets[train], weights[train], penalty)
            logits = vectors[held_out] @ kernel + bias
            losses[penalty] += problem.losses(logits, problem.targets[held_out], weights[held_out]).sum()
    return min(losses, key=losses.__getitem__)  # Of equal ones, the strongest.


class _Classes:
    """One class of each row. Two classes have one vector of weights, as in scikit-learn."""

    def __init__(self, targets, num_classes):
        self.targets, self._count = targets, num_classes

    def folds(self):
        """Returns the fold of each row, with the same share of each class."""
        return _dealt(self.targets)

    def solve(self, vectors, targets, weights, penalty):
        present = np.unique(targets)
        kernel = np.zeros([vectors.shape[1], self._count])
        bias = np.zeros(self._count)
        if len(present) == 2:
            column, shift = _solve_binary(vectors, targets == present[1], weights, penalty)
            kernel[:, present] = np.stack([-column / 2, column / 2], 1)
            bias[present] = [-shift / 2, shift / 2]
        elif len(present) > 2:
            kernel[:, present], bias[present] = _solve_softmax(
                vectors, np.searchsorted(present, targets), len(present), weights, penalty
            )
        absent = np.setdiff1d(np.arange(self._count), present)
        bias[absent] = bias[present].min() + _ABSENT
        return kernel, bias

    def losses(self, logits, targets, weights):
        chosen = np.take_along_axis(logits, targets[:, None], 1)[:, 0]
        return weights * (scipy.special.logsumexp(logits, axis=1) - chosen)


class _Labels:
    """Any number of labels of each row: a head for each of them."""

    def __init__(self, targets):
        self.targets = targets

    def folds(self):
        return np.arange(len(self.targets)) % min(_FOLDS, len(self.targets))

    def solve(self, vectors, targets, weights, penalty):
        columns = []
        for label in range(targets.shape[1]):
            columns.append(_solve_binary(vectors, targets[:, label] > 0, weights[:, label], penalty))
        return np.stack([column for column, _ in columns], 1), np.array([shift for _, shift in columns])

    def losses(self, logits, targets, weights):
        return (weights * (np.logaddexp(0, logits) - targets * logits)).mean(1)


class _Numbers:
    """A number of each row."""

    def __init__(self, targets):
        self.targets = targets.astype("float64")

    def folds(self):
        order = np.argsort(self.targets, kind="stable")
        fold = np.empty(len(order), int)
        fold[order] = np.arange(len(order)) % min(_FOLDS, max(len(order) // 2, 1))
        return fold

    def solve(self, vectors, targets, weights, penalty):
        share = weights / weights.sum()
        center, middle = share @ vectors, share @ targets
        weighted = (vectors - center) * weights[:, None]
        gram = weighted.T @ (vectors - center) + penalty * np.eye(vectors.shape[1])
        kernel = np.linalg.solve(gram, weighted.T @ (targets - middle))
        return kernel[:, None], np.array([middle - center @ kernel])

    def losses(self, logits, targets, weights):
        return weights * (logits[:, 0] - targets) ** 2


def _dealt(classes):
    """Returns folds for as many rows of each class as the folds have, -1 for rows of classes with a single row."""
    fold = np.full(len(classes), -1)
    for number in np.unique(classes):
        rows = np.flatnonzero(classes == number)
        if len(rows) > 1:
            fold[rows] = np.arange(len(rows)) % _FOLDS
    return fold


def _solve_binary(vectors, is_true, weights, penalty):
    """Returns the weights `(width,)` and the bias of logistic regression; of one class only, its smoothed odds."""
    if is_true.all() or not is_true.any():
        odds = np.log(2 * len(is_true) + 1)
        return np.zeros(vectors.shape[1]), odds if is_true.all() else -odds
    signs = np.where(is_true, 1.0, -1.0)

    def objective(values):
        column, shift = values[:-1], values[-1]
        margins = signs * (vectors @ column + shift)
        slopes = -weights * signs * scipy.special.expit(-margins)
        value = weights @ np.logaddexp(0, -margins) + penalty / 2 * column @ column
        return value, np.append(slopes @ vectors + penalty * column, slopes.sum())

    found = _minimized(objective, vectors.shape[1] + 1)
    return found[:-1], found[-1]


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
        gradient = np.concatenate([vectors.T @ slopes + penalty * table[:-1], slopes.sum(0, keepdims=True)])
        value = -(weights @ logs[rows, classes]) + penalty / 2 * (table[:-1] ** 2).sum()
        return value, gradient.ravel()

    table = _minimized(objective, shape[0] * count).reshape(shape)
    return table[:-1], table[-1] - table[-1].mean()


def _minimized(objective, size):
    """Returns the minimum of a convex function that returns its value and its gradient."""
    options = {"maxiter": 1000, "gtol": 1e-6, "ftol": 1e-12}
    return scipy.optimize.minimize(objective, np.zeros(size), jac=True, method="L-BFGS-B", options=options).x

"""Logits of windows joined to those of texts, beside SciPy in float64."""

import numpy as np
import pytest
from scipy import special

tf = pytest.importorskip("tensorflow")

from keras_bert.text.joins import Change, EvidenceOfLogits, log_mean_exp  # noqa: E402

ROW = tf.constant([0, 0, 0, 1, 2, 2])  # The text of each window.
LOGITS = np.array([[1.0, -np.inf], [-300, -np.inf], [2, -np.inf], [300, 7], [-200, 0], [-201, -np.inf]], "float32")


def by_hand(logits):
    """Returns the joined logits of the three texts."""
    joined = []
    for text in range(3):
        own = logits[text == ROW].astype("float64")
        with np.errstate(divide="ignore"):
            joined.append(special.logsumexp(own, 0) - np.log(len(own)))
    return np.array(joined)


def weights_by_hand(logits):
    """Returns the weights of the windows of one text; a class that no window allows has none."""
    allowed = np.isfinite(logits)
    weights = special.softmax(np.where(allowed, logits, -1e9), 0)
    return np.where(allowed.any(0), weights, 0)


def test_logits_of_any_size():
    """A head may forbid a class by the logit of minus infinity, in some windows or in all of them."""
    np.testing.assert_allclose(log_mean_exp(LOGITS, ROW), by_hand(LOGITS), rtol=1e-6)
    weights = EvidenceOfLogits().weights(tf.constant(LOGITS), ROW).numpy()
    for text in range(3):
        own = LOGITS[text == ROW].astype("float64")
        np.testing.assert_allclose(weights[text == ROW], weights_by_hand(own), atol=1e-6)


def test_changed_windows():
    logits = np.array([3.0, -2, 0.5, 300, -200, -201], "float32")
    change = Change(
        text=tf.constant([0, 0, 1, 2]),
        copy=tf.constant([0, 0, 1, 2, 3]),
        window=tf.constant([0, 2, 1, 3, 5]),
        logits=tf.constant([1.0, 4, -9, 280, -190]),
    )
    found = EvidenceOfLogits().changed(tf.constant(logits), ROW, change)
    expected = []
    for number, text in enumerate(change.text.numpy()):
        copy = logits.copy()
        for place in np.flatnonzero(change.copy == number):
            copy[change.window[place]] = change.logits[place]
        expected.append(by_hand(copy)[text])
    np.testing.assert_allclose(found, expected, rtol=1e-6)

"""Logits of several models as one, and logits of a training that has diverged."""

import numpy as np
import pytest
import scipy.special

from keras_bert.tasks import logits as module


def test_mean_logits_average_probabilities():
    logits = [np.random.default_rng(seed).normal(size=(20, 3)) * 5 for seed in range(4)]
    mean = np.mean([scipy.special.softmax(part, -1) for part in logits], 0)
    np.testing.assert_allclose(scipy.special.softmax(module.mean_logits(logits), -1), mean, rtol=1e-12)
    scores = [[[1.0]], [[4.0]]]
    assert module.mean_logits(scores).tolist() == [[2.5]]
    # Extreme logits, and a single model.
    assert np.isfinite(module.mean_logits([[[1000.0, -1000.0]], [[-1000.0, 1000.0]]])).all()
    np.testing.assert_array_equal(module.mean_logits(logits[:1]).argmax(-1), logits[0].argmax(-1))


def test_mean_of_sigmoids():
    """Logits whose sigmoid is the mean probability, also of one label and of large logits."""
    logits = np.random.default_rng(0).normal(scale=5, size=(3, 4, 2))
    found = scipy.special.expit(module.mean_sigmoids(list(logits)))
    np.testing.assert_allclose(found, scipy.special.expit(logits).mean(0), rtol=1e-12)
    np.testing.assert_allclose(module.mean_sigmoids([[[800.0]], [[800.0]]]), [[800.0]])
    assert module.mean_sigmoids([[[0.0]], [[800.0]]]) == pytest.approx(scipy.special.logit(0.75))


def test_probabilities_and_diverged_training():
    logits = np.array([[1.0, 2.0, -1e9]])
    np.testing.assert_allclose(module.softmax(logits), scipy.special.softmax(logits, -1))
    assert module.finite([[1.0]]).shape == (1, 1)
    with pytest.raises(FloatingPointError, match="`logits` must be finite. Received: NaN or infinity"):
        module.finite([np.inf])

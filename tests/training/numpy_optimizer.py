"""AdamW and LAMB in NumPy."""

import numpy as np


def numpy_steps(
    weight, gradients, learning_rate, weight_decay, beta_1=0.9, beta_2=0.999, epsilon=1e-6, kind="AdamW", parts=1
):
    """The algorithms of the papers, with bias correction."""
    if parts > 1:
        pieces = zip(np.split(weight, parts, 1), np.split(gradients, parts, 2), strict=True)
        options = learning_rate, weight_decay, beta_1, beta_2, epsilon, kind
        return np.concatenate([numpy_steps(*piece, *options) for piece in pieces], 1)
    m = v = np.zeros_like(weight)
    for step, gradient in enumerate(gradients, 1):
        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient**2
        update = (m / (1 - beta_1**step)) / (np.sqrt(v / (1 - beta_2**step)) + epsilon) + weight_decay * weight
        trust = np.linalg.norm(weight) / np.linalg.norm(update) if kind == "LAMB" and weight.any() else 1.0
        weight = weight - learning_rate * trust * update
    return weight

"""AdamW and LAMB in NumPy."""

import numpy as np


def numpy_steps(
    weight, gradients, learning_rate, weight_decay, beta_1=0.9, beta_2=0.999, epsilon=1e-6, kind="AdamW", parts=1
):
    """The algorithms of the papers, with bias correction; each of the `parts` is a weight of its own."""
    if parts > 1:
        options = (learning_rate, weight_decay, beta_1, beta_2, epsilon, kind)
        weights_of_parts = np.split(weight, parts, 1)
        gradients_of_parts = np.split(gradients, parts, 2)
        results = []
        for part, of_part in zip(weights_of_parts, gradients_of_parts, strict=True):
            results.append(numpy_steps(part, of_part, *options))
        return np.concatenate(results, 1)
    m = np.zeros_like(weight)
    v = np.zeros_like(weight)
    for step, gradient in enumerate(gradients, 1):
        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient**2
        mean = m / (1 - beta_1**step)
        deviation = np.sqrt(v / (1 - beta_2**step))
        update = mean / (deviation + epsilon) + weight_decay * weight
        trust = 1.0
        if kind == "LAMB" and weight.any():
            trust = np.linalg.norm(weight) / np.linalg.norm(update)
        weight = weight - learning_rate * trust * update
    return weight

"""Recurrent layers from their definitions."""

import numpy as np


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def lstm(inputs, kernel, recurrent, bias):
    """Returns the outputs of an LSTM for one sequence."""
    output = np.zeros(len(recurrent))
    cell = np.zeros(len(recurrent))
    outputs = []
    for row in inputs:
        i, f, g, o = np.split(row @ kernel + output @ recurrent + bias, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        output = sigmoid(o) * np.tanh(cell)
        outputs.append(output)
    return np.array(outputs)

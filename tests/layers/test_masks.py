"""Which positions attend to which."""

import numpy as np

from keras_bert import layers
from tests.conftest import to_numpy as numpy


def test_masks():
    mask = layers.AttentionMask(causal=True)(np.array([[1, 2, 1, 0]]))
    assert numpy(mask)[0, 0].astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0]]
    mask = layers.AttentionMask()(np.array([[1, 2, 0]]))
    assert mask.shape == (1, 1, 1, 3)
    assert numpy(mask).ravel().astype(int).tolist() == [1, 1, 0]

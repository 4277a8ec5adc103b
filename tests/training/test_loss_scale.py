"""Float16 losses are scaled."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training.losses import Loss
from tests.training.small_run import linear, metrics


@pytest.mark.usefixtures("eager")
def test_float16_skips_steps_that_overflow(tmp_path, mirrored):
    """The gradient is 16 times the scale, which starts at 2 ** 15: above 65504 until the scale is 2 ** 11.

    One of the two replicas has only filler.
    """
    loss = Loss("loss", lambda y, out: out["logits"][:, 0])
    run = linear(tmp_path, dtype="mixed_float16", loss=loss, strategy=mirrored)
    run.model.set_weights([np.ones([3, 1]), np.zeros(1)])
    data = tf.data.Dataset.from_tensors(({"x": np.full([1, 3], 16.0, "float32")}, np.zeros(1))).repeat(7)
    run.fit(data, log_every=1)
    lines = metrics(tmp_path)
    assert [line["skipped"] for line in lines] == [1, 1, 1, 1, 0, 0, 0]
    assert [line["loss"] for line in lines[:6]] == [48] * 6  # The first step taken has a learning rate of 0.
    assert lines[6]["loss"] < 48
    rates = [0, 0, 0, 0, 0, 0.1 / 3, 0.2 / 3]  # The schedule counts three steps.
    assert [line["learning_rate"] for line in lines] == pytest.approx(rates)
    assert lines[6]["gradient_norm"] == pytest.approx((3 * 16**2 + 1) ** 0.5)

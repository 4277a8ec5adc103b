"""The mean of the last weights."""

import keras
import numpy as np

from keras_bert.translation.run import WeightAverage


def test_mean_of_the_last(tmp_path):
    """Of four evaluations, the last three; integers keep their value; a new object reads what is there."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False), keras.layers.Dropout(0.5)])
    kernel, counter = model.layers[0].kernel, model.layers[1].seed_generator.state
    assert model.weights == [kernel, counter] or model.weights == [kernel]
    for step in range(1, 5):
        kernel.assign([[step], [10.0**step]])
        WeightAverage(tmp_path, lambda: model, 3).on_evaluation(step, {})
    before = counter.numpy()
    assert WeightAverage(tmp_path, lambda: model, 3).assign() == [4, 3, 2]
    np.testing.assert_allclose(kernel.numpy(), [[3.0], [3700.0]])
    np.testing.assert_array_equal(counter.numpy(), before)
    average = WeightAverage(tmp_path, lambda: model, 3)
    average.on_train_begin({}, 4)
    assert average.assign() == [4, 3, 2]
    average.on_train_begin({}, 0)  # A new run does not average the weights of an older one.
    assert average.assign() == []

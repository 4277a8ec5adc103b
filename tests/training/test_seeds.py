"""The random seeds of a run."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert.training.seeds import (
    keras_seed,
    restore_keras_seed,
    restore_tensorflow_seed,
    set_random_seed,
    tensorflow_seed,
)


def draw():
    """Draws from NumPy, from Keras, and from an initializer without a seed."""
    initializer = keras.initializers.HeNormal()
    return np.random.rand(), float(keras.random.uniform([])), initializer([1]).numpy().item()


def test_seeds_that_keep_kernels_are_those_of_keras():
    set_random_seed(5)
    expected = draw()
    set_random_seed(6)
    assert draw() != expected
    set_random_seed(5, keep_kernels=True)
    assert draw() == expected
    assert tf.compat.v1.get_seed(0)[0] == 5


def test_draws_go_on_where_a_seed_was_noted():
    set_random_seed(5)
    keras.random.uniform([])
    noted = keras_seed()
    expected = float(keras.random.uniform([]))
    set_random_seed(6)
    restore_keras_seed(noted)
    assert float(keras.random.uniform([])) == expected


def test_the_seed_of_tensorflow_is_put_back():
    tf.random.set_seed(5)
    noted = tensorflow_seed()
    tf.random.set_seed(6)
    restore_tensorflow_seed(noted)
    assert tf.compat.v1.get_seed(0)[0] == 5

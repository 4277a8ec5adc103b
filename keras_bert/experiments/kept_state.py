"""The state of the program that training resets, which `LoadedBert.fit` keeps."""

import contextlib
import random

import numpy as np
import tensorflow as tf
from keras.src.backend.common import global_state

_NO_SEED = 87654321  # What TensorFlow uses if the program has not set a seed.


@contextlib.contextmanager
def kept_state():
    """Keeps the random numbers of Python, NumPy and Keras, TensorFlow's seed, and Keras' dtype policy and names.

    TensorFlow's random numbers start again from its seed: how many were drawn is not public.
    """
    # Each run begins with `clear_session`, so that its layers have the names of any other run. Keras then forgets the
    # names in use, so that a new layer of the program could not be in a model with an older one, its seed and its
    # policies. It keeps all of it in one object, which has no public name. This can go when Keras has names, seeds and
    # policies that belong to a block.
    python, numpy, keras_state = random.getstate(), np.random.get_state(), global_state.GLOBAL_STATE_TRACKER
    seed, _ = tf.compat.v1.get_seed(0)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        global_state.GLOBAL_STATE_TRACKER = keras_state
        tf.random.set_seed(None if seed == _NO_SEED else seed)

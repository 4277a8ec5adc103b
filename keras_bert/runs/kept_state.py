"""The state of the program that training resets, which `LoadedBert.fit` keeps."""

import contextlib
import random
import threading
import types

import numpy as np
import tensorflow as tf
from keras.src.backend.common import global_state

_NO_SEED = 87654321  # What TensorFlow uses if the program has not set a seed.
_LOCK = threading.RLock()


def clear_session():
    """Does what Keras' function of this name does, for this thread: others, which may answer, keep their names."""
    # Keras replaces the object with the states of all threads, which has no public name, also under a thread that is in
    # the call of a model. Its function runs on a copy of the names of its module, so that the object stays, and only
    # the state of this thread is emptied. This can go when Keras has a session that belongs to a block.
    types.FunctionType(global_state.clear_session.__code__, dict(vars(global_state)), argdefs=(True,))()
    vars(global_state.GLOBAL_STATE_TRACKER).clear()


@contextlib.contextmanager
def kept_state():
    """Keeps the random numbers of Python, NumPy and Keras, TensorFlow's seed, and Keras' dtype policy and names.

    TensorFlow's random numbers start again from its seed: how many were drawn is not public. Random numbers belong to
    the whole program: of several threads, one is in the block.
    """
    # Each run begins with `clear_session`, so that its layers have the names of any other run. Keras then forgets the
    # names in use, so that a new layer of the program could not be in a model with an older one, its seed and its
    # policies.
    with _LOCK:
        python, numpy, (seed, _) = random.getstate(), np.random.get_state(), tf.compat.v1.get_seed(0)
        keras_state = dict(vars(global_state.GLOBAL_STATE_TRACKER))
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
            vars(global_state.GLOBAL_STATE_TRACKER).clear()
            vars(global_state.GLOBAL_STATE_TRACKER).update(keras_state)
            tf.random.set_seed(None if seed == _NO_SEED else seed)

"""The random seeds of a run: those of Python, NumPy, Keras and TensorFlow."""

import random

import keras
import numpy as np
from keras.src.backend.common import global_state
from tensorflow.python.eager import context

# Keras' seed of the program, and the generator that its functions draw from without a seed; it has no functions for
# them, only `keras.utils.set_random_seed`, after which there is no generator until the next draw.
_SEED = "global_random_seed"
_GENERATOR = "global_seed_generator"


def set_random_seed(seed, keep_kernels=False):
    """Does what `keras.utils.set_random_seed` does; with `keep_kernels`, TensorFlow keeps its compiled graphs."""
    if not keep_kernels:
        keras.utils.set_random_seed(seed)
        return
    # `tf.random.set_seed` also clears the cache of all kernels and functions, since ops that draw random numbers have
    # their state in their kernels: the next call of each graph instantiates and optimizes it again, which takes 4 s for
    # four blocks, as long as tracing them. The graphs of a `Program` have no such ops; their seeds are arguments. It
    # can go once TensorFlow clears the kernels of random ops alone.
    restore_keras_seed((seed, None, None))
    random.seed(seed)
    np.random.seed(seed)
    restore_tensorflow_seed((seed, random.Random(seed)))


def keras_seed():
    """Returns Keras' seed, its generator and the generator's state, for `restore_keras_seed`."""
    generator = global_state.get_global_attribute(_GENERATOR)
    state = None
    if generator is not None:
        state = np.array(generator.state.value)
    return global_state.get_global_attribute(_SEED), generator, state


def restore_keras_seed(values):
    """Sets what `keras_seed` has returned."""
    seed, generator, state = values
    if generator is not None:
        generator.state.assign(state)
    global_state.set_global_attribute(_SEED, seed)
    global_state.set_global_attribute(_GENERATOR, generator)


def tensorflow_seed():
    """Returns TensorFlow's seed, and the generator of the seeds of its ops, for `restore_tensorflow_seed`."""
    eager = context.context()
    return eager._seed, getattr(eager, "_rng", None)  # There is no generator before the first seed.


def restore_tensorflow_seed(values):
    """Sets what `tensorflow_seed` has returned; TensorFlow keeps its compiled graphs."""
    seed, generator = values
    eager = context.context()
    eager._seed = seed
    eager._rng = generator

"""What `LoadedBert.fit` and `evaluate` show, and that random numbers of the program continue as before `fit`."""

import contextlib
import logging
import random
import sys
import threading

import numpy as np

from keras_bert.progress import LogHandler, hidden, quiet_tensorflow
from keras_bert.training.seeds import keras_seed, restore_keras_seed, restore_tensorflow_seed, tensorflow_seed

_LOG = logging.getLogger("keras_bert")
_RANDOM_NUMBERS = threading.RLock()


@contextlib.contextmanager
def kept_random_numbers():
    """Keeps the random numbers of Python, NumPy, Keras and TensorFlow for the program.

    Ops of TensorFlow that have a seed of their own start again from it, as after `tf.random.set_seed`. Random numbers
    belong to the whole program: of several threads, one is in the block.
    """
    with _RANDOM_NUMBERS:
        python_state = random.getstate()
        numpy_state = np.random.get_state()
        keras_state = keras_seed()
        tensorflow_state = tensorflow_seed()
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
            restore_tensorflow_seed(tensorflow_state)
            restore_keras_seed(keras_state)


@contextlib.contextmanager
def messages(verbose):
    """Shows what the commands show, on standard output; without `verbose` only warnings."""
    shown = _ON_STANDARD_OUTPUT.entered() if verbose else hidden()
    with shown, quiet_tensorflow():
        yield


class _SharedBlock:
    """A context that the first of several threads enters, and that the last of them leaves."""

    def __init__(self, make_context):
        self._make_context = make_context
        self._lock = threading.Lock()
        self._threads = 0
        self._context = contextlib.ExitStack()

    @contextlib.contextmanager
    def entered(self):
        """Runs the block of one thread in the context."""
        with self._lock:
            if self._threads == 0:
                self._context.enter_context(self._make_context())
            self._threads += 1
        try:
            yield
        finally:
            with self._lock:
                self._threads -= 1
                if self._threads == 0:
                    self._context.close()


@contextlib.contextmanager
def _on_standard_output():
    """Shows messages and progress on standard output."""
    level = _LOG.level
    propagates = _LOG.propagate
    handler = LogHandler(sys.stdout)
    # A handler alone shows nothing: TensorFlow adds one when it first saves a model in a program that has none.
    shown_by_user = _LOG.hasHandlers() and _LOG.isEnabledFor(logging.INFO)
    with contextlib.redirect_stderr(sys.stdout):
        if not shown_by_user:
            _LOG.addHandler(handler)
            _LOG.setLevel(logging.INFO)
            _LOG.propagate = False
        try:
            yield
        finally:
            _LOG.removeHandler(handler)
            _LOG.setLevel(level)
            _LOG.propagate = propagates


_ON_STANDARD_OUTPUT = _SharedBlock(_on_standard_output)

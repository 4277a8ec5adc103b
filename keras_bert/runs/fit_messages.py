"""What `LoadedBert.fit` and `evaluate` show: the messages and the progress of the commands, on standard output."""

import contextlib
import logging
import sys
import threading

from keras_bert.training.log_handler import LogHandler, quiet_tensorflow
from keras_bert.training.progress import hidden

_LOG = logging.getLogger("keras_bert")
_LOCK, _THREADS, _CONTEXT = threading.Lock(), [], contextlib.ExitStack()


@contextlib.contextmanager
def messages(verbose):
    """Shows what the commands show, on standard output; without `verbose` only warnings."""
    with _shown() if verbose else hidden(), quiet_tensorflow():
        yield


@contextlib.contextmanager
def _shown():
    """Shows messages and progress on standard output, until the last of several threads leaves the block."""
    with _LOCK:
        if not _THREADS:
            _CONTEXT.enter_context(_on_standard_output())
        _THREADS.append(True)
    try:
        yield
    finally:
        with _LOCK:
            _THREADS.pop()
            if not _THREADS:
                _CONTEXT.close()


@contextlib.contextmanager
def _on_standard_output():
    level, propagates, handler = _LOG.level, _LOG.propagate, LogHandler(sys.stdout)
    # A handler alone shows nothing: TensorFlow adds one when it first saves a model in a program that has none.
    configured = _LOG.hasHandlers() and _LOG.isEnabledFor(logging.INFO)  # By the user.
    with contextlib.redirect_stderr(sys.stdout):
        if not configured:
            _LOG.addHandler(handler)
            _LOG.setLevel(logging.INFO)
            _LOG.propagate = False
        try:
            yield
        finally:
            _LOG.removeHandler(handler)
            _LOG.setLevel(level)
            _LOG.propagate = propagates

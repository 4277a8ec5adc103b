"""What `LoadedBert.fit` and `evaluate` show: the messages and the progress of the commands, on standard output."""

import contextlib
import logging
import sys

import tqdm

from keras_bert.training.progress import hidden

_LOG = logging.getLogger("keras_bert")


@contextlib.contextmanager
def messages(verbose):
    """Shows what the commands show, on standard output; without `verbose` only warnings."""
    with _without_retracing_warnings(), _shown() if verbose else hidden():
        yield


@contextlib.contextmanager
def _without_retracing_warnings():
    """Each call has graphs of its own, of which TensorFlow warns when there are five."""
    logger = logging.getLogger("tensorflow")

    def is_other(record):
        return "triggered tf.function retracing" not in record.getMessage()

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


@contextlib.contextmanager
def _shown():
    """Shows messages and progress on standard output."""
    level, handler = _LOG.level, _Handler()
    configured = _LOG.handlers or logging.getLogger().handlers  # By the user.
    with contextlib.redirect_stderr(sys.stdout):
        if not configured:
            _LOG.addHandler(handler)
            _LOG.setLevel(logging.INFO)
        try:
            yield
        finally:
            _LOG.removeHandler(handler)
            _LOG.setLevel(level)


class _Handler(logging.Handler):
    """Writes messages above the progress line."""

    def emit(self, record):
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        tqdm.tqdm.write(f"{level}{record.getMessage()}", sys.stdout)

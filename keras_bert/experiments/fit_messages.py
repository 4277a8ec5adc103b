"""What `LoadedBert.fit` and `evaluate` show: the messages and the progress of the commands, on standard output."""

import contextlib
import logging
import sys

from keras_bert.training.log_handler import LogHandler, without_harmless_warnings
from keras_bert.training.progress import hidden

_LOG = logging.getLogger("keras_bert")


@contextlib.contextmanager
def messages(verbose):
    """Shows what the commands show, on standard output; without `verbose` only warnings."""
    with without_harmless_warnings(), _shown() if verbose else hidden():
        yield


@contextlib.contextmanager
def _shown():
    """Shows messages and progress on standard output."""
    level, handler = _LOG.level, LogHandler(sys.stdout)
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

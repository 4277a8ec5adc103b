"""What a command prints besides its results: log messages, and those of TensorFlow's start."""

import logging
import os
import re
import sys
import warnings

from keras_bert.imports import quiet_start
from keras_bert.training.progress import LogHandler, is_harmless


def show_messages(verbose=False):
    """Shows this package's messages and the warnings of all others, without prefixes."""
    handler = LogHandler()
    if verbose:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    else:
        handler.addFilter(_of_interest)
        warnings.formatwarning = lambda message, *_: f"warning: {message}\n"
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def _of_interest(record):
    """Keeps this package's messages and the warnings of others, except those of every export and every grid."""
    own = record.name.startswith("keras_bert")
    return own or (record.levelno >= logging.WARNING and not is_harmless(record))


def start_tensorflow():
    """Imports TensorFlow without the messages that it prints at every start."""
    shown = "starting TensorFlow ...\r" if sys.stderr.isatty() else ""
    print(shown, end="", file=sys.stderr, flush=True)
    with quiet_start():
        import tensorflow  # noqa: F401
    print(re.sub("[^\r]", " ", shown), end="", file=sys.stderr, flush=True)

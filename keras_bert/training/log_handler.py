"""How log messages are shown: above the progress line, and without the warnings that mean nothing to users."""

import contextlib
import copy
import logging
import re

import tqdm

# Every export has characters that names of tensors cannot have, and is written to a temporary folder; every call of
# `fit`, every grid and every set of options of `predict` has graphs of its own, of which TensorFlow warns when there
# are five; numbers that are not those of a step are summed over replicas outside of a graph.
_HARMLESS = re.compile(
    "unsupported characters|Assets written to|triggered tf.function retracing|Strategy eagerly has significant overhead"
)
_PLAIN = logging.Formatter()  # `logging.basicConfig` would replace that of the handler.


class LogHandler(logging.StreamHandler):
    """Writes messages above the progress line, with their level only if it is a warning or worse."""

    def emit(self, record):
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        tqdm.tqdm.write(level + _PLAIN.format(record), self.stream)


def is_harmless(record):
    """Returns whether a message of another package is of no interest."""
    return bool(_HARMLESS.search(record.getMessage()))


@contextlib.contextmanager
def quiet_tensorflow():
    """Suppresses TensorFlow's harmless warnings in a block, or in a function as its decorator."""
    logger, root = logging.getLogger("tensorflow"), logging.getLogger()
    # Without a handler, TensorFlow's first message would configure `logging` for the whole program.
    handler = logging.NullHandler() if root.handlers else copy.copy(logging.lastResort)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def is_other(record):
        return not is_harmless(record)

    logger.addFilter(is_other)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        logger.removeFilter(is_other)

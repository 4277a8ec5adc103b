"""What a command prints besides its results: log messages, and those of TensorFlow's start."""

import contextlib
import logging
import os
import re
import sys
import tempfile
import warnings

from keras_bert.training.log_handler import LogHandler, is_harmless

# TensorFlow prints these at every start. Whether a machine without an NVIDIA device has no driver is of no interest.
_NOISE = ["All log messages before absl", "cudart_stub", "cpu_feature_guard", "^To enable the following instructions"]
_NOISE += ["oneDNN custom operations are on"] + ["cuInit"] * (not os.path.exists("/dev/nvidiactl"))


def show_messages(verbose=False):
    """Shows this package's messages and the warnings of all others, without prefixes."""
    handler = LogHandler()
    if not verbose:
        handler.addFilter(_of_interest)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
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
    with _caught_stderr() as caught:
        import tensorflow as tf

        tf.config.list_physical_devices()  # Looks for GPUs.
    print(re.sub("[^\r]", " ", shown), end="", file=sys.stderr, flush=True)
    noise = re.compile("|".join(_NOISE))
    sys.stderr.writelines(line for line in caught if not noise.search(line))


@contextlib.contextmanager
def _caught_stderr():
    """Yields a list, to which the lines of standard error are added when the block ends."""
    # TensorFlow's C++ code writes to file descriptor 2 itself, some lines before any log level applies, so that
    # replacing `sys.stderr` would not catch them. A copy of the descriptor is kept, a temporary file takes its place
    # while the block runs, and then the copy comes back, also after an error. Without this, every command would begin
    # with a dozen lines about CPU instructions. It can go when TensorFlow starts silently.
    lines, terminal = [], os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            file.seek(0)
            lines += file.read().decode("utf-8", "replace").splitlines(keepends=True)

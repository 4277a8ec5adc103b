"""TensorFlow without the lines that it prints at every start."""

import contextlib
import functools
import os
import re
import sys
import tempfile

# Whether a machine without an NVIDIA device has no driver is of no interest.
_NOISE = ["All log messages before absl", "cudart_stub", "cpu_feature_guard", "^To enable the following instructions"]
_NOISE += ["oneDNN custom operations are on", "oneDNN supports DT_INT64 only on"]
_NOISE += ["cuInit"] * (not os.path.exists("/dev/nvidiactl"))


@contextlib.contextmanager
def quiet_start():
    """Hides what TensorFlow prints at its start, if the block imports it."""
    if "tensorflow" in sys.modules:
        yield
        return
    with _filtered_stderr():
        yield
        if "tensorflow" in sys.modules:
            sys.modules["tensorflow"].config.list_physical_devices()  # Looks for GPUs.


@functools.cache
def quiet_integers():
    """Has oneDNN warn of 64-bit integers, which it does once, and hides the line. Uses a device: call late."""
    import tensorflow as tf

    with _filtered_stderr(), tf.device("CPU:0"):
        tf.transpose(tf.zeros([2, 2], tf.int64))


@contextlib.contextmanager
def _filtered_stderr():
    """Takes known lines out of standard error; all others appear when the block ends, also after an error."""
    # TensorFlow's C++ code writes to file descriptor 2 itself, some lines before any log level applies, so that
    # replacing `sys.stderr` would not catch them, and those of the level of errors remain at any useful log level. A
    # copy of the descriptor is kept, a temporary file takes its place while the block runs, and then the copy comes
    # back. Without this, every program would begin with up to ten lines about the processor. It can go when TensorFlow
    # starts silently.
    try:
        terminal = os.dup(2)
    except OSError:  # A program without standard error.
        yield
        return
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            file.seek(0)
            noise = re.compile("|".join(_NOISE).encode())
            os.write(2, b"".join(line for line in file if not noise.search(line)))

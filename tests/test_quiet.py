"""What TensorFlow prints at its start, which is hidden, and what it prints besides, which is not."""

import subprocess
import sys

import pytest

# Like TensorFlow's C++ code, it writes to the file descriptor.
TENSORFLOW = """
import os
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\\n")
os.write(2, b"I0000 00:00:17 1 port.cc:153] oneDNN custom operations are on. You may see other results\\n")
os.write(2, b"E0000 00:00:17 1 cuda_dnn.cc:9] Loaded runtime CuDNN library: 8.0 but source was compiled with 9.0\\n")
if {fails}:
    raise ImportError("libcudart")
class config:
    def list_physical_devices():
        os.write(2, b"I0000 00:00:17 1 cudart_stub.cc:31] Could not find cuda drivers on your machine\\n")
"""
PROGRAM = """
from keras_bert.quiet import quiet_start
try:
    with quiet_start():
        import tensorflow
except ImportError as error:
    print(error)
with quiet_start():
    print("line", flush=True)
"""


@pytest.mark.parametrize("fails", [False, True])
def test_only_known_lines_are_hidden(tmp_path, fails):
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW.format(fails=fails))
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ("libcudart\n" if fails else "") + "line\n"
    assert done.stderr.splitlines() == [
        "E0000 00:00:17 1 cuda_dnn.cc:9] Loaded runtime CuDNN library: 8.0 but source was compiled with 9.0"
    ]


@pytest.mark.slow  # Starts TensorFlow.
@pytest.mark.tensorflow
def test_the_first_lines_of_readme_print_nothing_else():
    program = (
        "import keras_bert; print(keras_bert.load('bert_tiny_books').predict('He [MASK].')['fills'][0][0]['token'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")

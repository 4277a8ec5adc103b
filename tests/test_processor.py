"""Kernels for the processor, and what it has no instructions for."""

import os
import subprocess
import sys

import keras
import pytest

import keras_bert
from keras_bert import processor

VARIABLE = "TF_ENABLE_ONEDNN_OPTS"


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="for x86-64 Linux")
@pytest.mark.parametrize(
    ("chosen", "imported", "expected"), [(None, False, "1"), ("0", False, "0"), (None, True, None), ("1", True, "1")]
)
def test_onednn_is_on_unless_someone_decided(monkeypatch, chosen, imported, expected):
    if chosen is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, chosen)
    if imported:
        monkeypatch.setitem(sys.modules, "tensorflow", None)
    else:
        monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    processor.use_onednn()
    assert os.environ.get(VARIABLE) == expected


@pytest.mark.slow  # Starts TensorFlow.
@pytest.mark.tensorflow
@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="for x86-64 Linux")
def test_tensorflow_starts_with_it():
    program = """
import keras_bert
import tensorflow.python.util._pywrap_util_port as port
print(port.IsMklEnabled())
"""
    command = [sys.executable, "-c", program]
    environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
    done = subprocess.run(command, capture_output=True, env=environment, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flags\t\t: fpu sse2 avx512f avx512_bf16", True),
        ("flags\t\t: fpu sse2 avx2 avx512f", False),
        ("Features\t: fp asimd bf16", True),
        ("Features\t: fp asimd", False),
        ("vendor_id\t: unknown", True),
        (None, True),
    ],
)
def test_instructions_for_bfloat16(tmp_path, text, expected):
    if text is not None:
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{text}\n")
    assert processor.has_bfloat16(tmp_path / "cpuinfo") is expected


@pytest.mark.tensorflow
def test_emulation_is_said_once(monkeypatch, caplog):
    monkeypatch.setattr(processor, "has_bfloat16", lambda: False)
    processor.say_emulated.cache_clear()
    processor.warn_of_emulation([keras_bert.layers.LayerNorm(dtype="float32")])
    assert caplog.messages == []
    for dtype in ("mixed_bfloat16", "bfloat16"):
        layers = [keras.layers.Dense(1), keras_bert.layers.LayerNorm(dtype=dtype)]
        processor.warn_of_emulation(layers)
        (message,) = caplog.messages
        assert message.startswith("this processor has no instructions for bfloat16")
    processor.say_emulated.cache_clear()

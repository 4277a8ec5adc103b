"""TensorFlow's fast kernels on any x86-64 processor, and formats of numbers that a processor emulates."""

import functools
import logging
import os
import pathlib
import sys


def use_onednn():
    """Switches TensorFlow's oneDNN kernels on, unless the user has decided or TensorFlow was imported before.

    TensorFlow does so itself with AVX-512 VNNI or newer instructions alone, but they are faster without these too, see
    docs/guides/precision_memory.md. TensorFlow reads the variable once, when it is imported.
    """
    if sys.platform == "linux" and os.uname().machine == "x86_64" and "tensorflow" not in sys.modules:
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


@functools.cache
def has_bfloat16(cpuinfo="/proc/cpuinfo"):
    """Returns whether the processor has instructions for bfloat16; `True` where that is unknown."""
    try:
        words = set(pathlib.Path(cpuinfo).read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return True
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16"}) or not words & {"sse2", "asimd"}


def warn_of_emulation(layers):
    """Says, once, that layers which compute in bfloat16 are slow on this processor."""
    tensorflow = sys.modules.get("tensorflow")
    accelerated = tensorflow and any(map(tensorflow.config.list_logical_devices, ("GPU", "TPU")))
    if not accelerated and not has_bfloat16() and any(layer.compute_dtype == "bfloat16" for layer in layers):
        say_emulated()


@functools.cache
def say_emulated():
    logging.getLogger("keras_bert").warning(
        "this processor has no instructions for bfloat16, which is emulated: float32 is faster"
    )

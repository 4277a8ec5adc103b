"""Answers of SavedModels in TensorFlow's C++ runtime, without Python."""

import importlib.util
import os
import pathlib
import shutil
import subprocess

import numpy as np
import tensorflow as tf

from keras_bert.exporting import verification

SOURCE = pathlib.Path(__file__).with_name("native_runner.cc")


def compiler():
    """Returns a C++ compiler, or `None`."""
    return shutil.which(os.environ.get("CXX") or "g++") or shutil.which("clang++")


def build(program):
    """Compiles `native_runner.cc` for the installed TensorFlow; takes 15 seconds."""
    # The wheel's flags only name the framework. Sessions and kernels are in the other library, which registers them
    # when it is loaded: nothing calls it by name, so the linker must be told to keep it.
    linked = ["-Wl,--no-as-needed", *tf.sysconfig.get_link_flags(), "-l:libtensorflow_cc.so.2"]
    linked.append(f"-Wl,-rpath,{tf.sysconfig.get_lib()}")
    flags = ["-O1", "-w", *tf.sysconfig.get_compile_flags()]
    subprocess.run([compiler(), *flags, str(SOURCE), "-o", str(program), *linked], check=True)


def run(program, directory, signature, inputs):
    """Returns the outputs of a signature, arrays by name. A character of a string represents a byte."""
    folder = pathlib.Path(importlib.util.find_spec("tensorflow_text").origin).parent
    command = [str(program), str(directory), signature, *map(str, sorted(folder.glob("python/ops/*.so")))]
    request = "".join(_line(name, np.asarray(values)) for name, values in inputs.items())
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    return dict(map(_parse, done.stdout.splitlines()))


def _line(name, values):
    flat = values.ravel().tolist()
    kind = "string" if values.dtype == object else "int32"
    plain = [text.encode("latin-1").hex() or "-" for text in flat] if kind == "string" else map(str, flat)
    return f"{name}\t{kind}\t{' '.join(map(str, values.shape))}\t{' '.join(plain)}\n"


def _parse(line):
    name, kind, shape, values = line.split("\t")
    values = values.split()
    if kind == "string":
        values = [bytes.fromhex(value.removeprefix("-")).decode("latin-1") for value in values]
    else:
        values = list(map(float if "float" in kind else int, values))
    return name, verification.array({"dtype": kind, "shape": list(map(int, shape.split())), "values": values})

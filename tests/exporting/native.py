"""Answers of SavedModels in TensorFlow's C++ runtime, without Python."""

import importlib.util
import os
import pathlib
import shutil
import subprocess

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import node_def_pb2

_ENCODE = np.vectorize(lambda text: text.encode("latin-1"), [object])
_DECODE = np.vectorize(lambda text: text.decode("latin-1"), [object])
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
    request = node_def_pb2.NodeDef()
    for name, values in inputs.items():
        values = np.asarray(values)
        values = _ENCODE(values) if values.dtype == object else values.astype("int32")
        request.attr[name].tensor.CopyFrom(tf.make_tensor_proto(values))
    done = subprocess.run(command, input=request.SerializeToString(), capture_output=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.decode().strip().splitlines()[-1])
    answer = node_def_pb2.NodeDef.FromString(done.stdout)
    arrays = {name: tf.make_ndarray(value.tensor) for name, value in answer.attr.items()}
    return {name: _DECODE(values) if values.dtype == object else values for name, values in arrays.items()}

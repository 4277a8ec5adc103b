"""ONNX models in int8, and their outputs from ONNX Runtime."""

import onnxruntime
from onnx import helper
from onnxruntime.quantization import quantize_dynamic


def write_int8(proto, path):
    """Writes a float32 ONNX model with dynamic quantization, in standard operators.

    Tables have one scale, kernels one for each output channel, activations one for each batch.
    """
    # The tool asks for pre-processing, which means shape inference and constant folding: there is nothing to fold.
    helper.set_model_props(proto, {"onnx.quant.pre_process": "onnxruntime.quant"})
    # With 8 bits, processors without VNNI (Intel before 2019, AMD before 2022) would silently overflow.
    quantize_dynamic(proto, str(path), per_channel=True, reduce_range=True)


def onnx_runner(path):
    """Returns a function from a dict of int32 arrays to the dict of outputs, computed by ONNX Runtime on the CPU."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda batch: dict(zip(names, session.run(names, batch), strict=True))

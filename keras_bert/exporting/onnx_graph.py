"""An ONNX graph that grows node by node, from the inputs of a model to its outputs."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from onnx import helper, numpy_helper

# Types of constants by the kind of NumPy's; all others are float32.
_CONSTANT_TYPES = {"i": "int64", "u": "int64", "b": "bool"}


class Graph:
    """The nodes and the constants of an ONNX graph, which grows from its inputs to its outputs.

    The functions in `Head.onnx` get one. Tensors are known by their names, strings.

    Args:
        names: names that no constant and no node may have, such as those of the inputs and the outputs of the model.
            Defaults to none.

    Example:
        def write_scale(graph, layer, hidden):
            return graph.add("Mul", hidden, graph.weight(layer.scale, layer.name))
    """

    def __init__(self, names: Iterable = ()):
        self.nodes = []
        self.constants = []
        self._names = set(names)

    def add(self, op: str, *inputs: Any, **attributes) -> str:
        """Adds a node for an operator of ONNX, of opset 17, and returns the name of its output.

        Inputs are names of tensors, numbers or arrays; integers become int64, other numbers float32.
        """
        tensors = []
        for value in inputs:
            tensors.append(value if isinstance(value, str) else self.constant(value))
        output = self._unused_name(f"{op}_{len(self.nodes)}")
        self.nodes.append(helper.make_node(op, tensors, [output], name=output, **attributes))
        return output

    def constant(self, value: Any, name: str | None = None) -> str:
        """Adds a constant and returns its name: the given one, with a number if another tensor has it.

        Integers become int64, booleans stay, and other numbers become float32.
        """
        value = np.asarray(value)
        dtype = _CONSTANT_TYPES.get(value.dtype.kind, "float32")
        # A number without axes would get one.
        array = np.ascontiguousarray(value, dtype).reshape(value.shape)
        unused_name = self._unused_name(name or f"constant_{len(self.constants)}")
        self.constants.append(numpy_helper.from_array(array, unused_name))
        return unused_name

    def _unused_name(self, name):
        """Returns a name that no tensor has: the given one, or one with a number."""
        unused = name
        number = 2
        while unused in self._names:
            unused = f"{name}_{number}"
            number += 1
        self._names.add(unused)
        return unused

    def rename_outputs(self, tensors):
        """Gives tensors the names of the outputs of the model; `tensors` are their names by those of outputs."""
        made = set()
        for node in self.nodes:
            made.update(node.output)
        new_names = {}
        for name, tensor in tensors.items():
            if tensor in new_names or tensor not in made:  # Two outputs are the same, or one is an input or a constant.
                tensor = self.add("Identity", tensor)
            new_names[tensor] = name
        for node in self.nodes:
            for places in (node.input, node.output):
                places[:] = [new_names.get(tensor, tensor) for tensor in places]

    def cast(self, tensor: str, dtype: Any) -> str:
        """Converts a tensor to a dtype with a name of NumPy's."""
        return self.add("Cast", tensor, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def weight(self, variable: Any, name: str) -> str:
        """Adds a variable, or a tensor of Keras, as a constant; see `constant`."""
        return self.constant(array_of(variable), name)

    def dense(self, inputs: str, layer: Any, name: str) -> str:
        """Adds a `keras_bert.layers.Dense`, whose kernel may be quantized or adapted by LoRA, with its activation."""
        rows = self.add("MatMul", inputs, self.weight(layer.float_table(), f"{name}/kernel"))
        if layer.use_bias:
            rows = self.add("Add", rows, self.weight(layer.bias, f"{name}/bias"))
        return self.activate(rows, keras.activations.serialize(layer.activation))

    def layer_norm(self, inputs: str, layer: Any, name: str) -> str:
        """Adds a `keras_bert.layers.LayerNorm`."""
        gamma = self.weight(layer.gamma, f"{name}/gamma")
        beta = self.weight(layer.beta, f"{name}/beta")
        return self.add("LayerNormalization", inputs, gamma, beta, axis=-1, epsilon=layer.epsilon)

    def activate(self, inputs: str, activation: str) -> str:
        """Adds an activation function with a name from `BertConfig.hidden_act`."""
        add = self.add
        match activation:
            case "gelu":
                one_plus = add("Add", add("Erf", add("Div", inputs, np.sqrt(2.0))), 1.0)
                return add("Mul", add("Mul", inputs, one_plus), 0.5)
            case "gelu_new":
                cubic = add("Mul", add("Pow", inputs, 3.0), 0.044715)
                scaled = add("Mul", add("Add", inputs, cubic), np.sqrt(2 / np.pi))
                one_plus = add("Add", add("Tanh", scaled), 1.0)
                return add("Mul", add("Mul", inputs, 0.5), one_plus)
            case "silu":
                return add("Mul", inputs, add("Sigmoid", inputs))
            case "relu":
                return add("Relu", inputs)
            case "tanh":
                return add("Tanh", inputs)
            case "linear":
                return inputs
            case _:
                raise KeyError(activation)

    def positions(self, ids: str) -> str:
        """Adds the positions of token ids `(batch, length)`, int64 `(length,)`."""
        length = self.add("Gather", self.add("Shape", ids), 1, axis=0)
        return self.add("Range", 0, length, 1)


def array_of(variable):
    """Returns the values of a variable: integers and booleans as they are, others as float32."""
    dtype = keras.backend.standardize_dtype(variable.dtype)
    if "int" not in dtype and dtype != "bool":
        variable = keras.ops.cast(variable, "float32")
    return keras.ops.convert_to_numpy(variable)

"""Compares a functional model with the one that a builder makes: "did this builder make it?", for any builder."""

import dataclasses
import random
import re
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import keras

# Settings of layers that may differ from those of a smaller model, or change after a model was built.
_SIZES = (
    "hidden_size",
    "input_dim",
    "intermediate_size",
    "max_length",
    "output_dim",
    "output_size",
    "units",
    "width",
)
_IGNORED = {
    *_SIZES,
    "name",
    "trainable",
    "dtype",
    "reverse_dtype",
    "seed",
    "remat",
    "parts",
    "lora_rank",
    "lora_alpha",
    "batch_shape",
    "quantization_config",
}
_PART_SETTINGS = ("activation", "epsilon", "rate")
_SETTINGS = weakref.WeakKeyDictionary()  # Of the layers of models that are as their builders made them.
_FAMILIES = weakref.WeakKeyDictionary()  # Of models that are none of BERT's.


class OtherGraphError(Exception):
    """Raised where a model differs from those of the builders."""


def expect(condition, message):
    """Raises `OtherGraphError` with a message unless the condition is true."""
    if not condition:
        raise OtherGraphError(message[0].upper() + message[1:])


@dataclasses.dataclass(frozen=True)
class Family:
    """The models of some builders, and how they are described.

    A builder outside of this package's core notes its family with each model, so that `describe`, `save` and `export`
    take the model without knowing the builder.
    """

    builders: str  # What makes these models, for messages.
    layers: Callable  # From a model to its layers by the builder's names.
    read: Callable  # From these layers to the description of the model.
    rebuild: Callable  # From a description and the model to what the builder makes, best of the smallest sizes.
    hint: Callable = lambda model: ""  # From a model to a sentence for the message that it is another one.
    noted: Callable = lambda description: True  # Whether the builders of such models note them, see `built`.

    def built(self, model):
        """Notes that a builder of the family just made a model."""
        _FAMILIES[model] = self
        return built(model, self.layers(model))

    def describe(self, model):
        """Returns the description of a model, also after it was saved and loaded by Keras.

        Raises:
            ValueError: if no builder of the family makes this graph.
        """
        try:
            check_functional(model)
            layers = self.layers(model)
            try:
                description = self.read(layers)
            except (KeyError, AttributeError) as error:
                raise OtherGraphError(f"The layer {error} is missing, or of another class") from None
            kind = None
            if not self.noted(description):
                kind = description.head
            check_built(model, layers, lambda: self.rebuild(description, model), kind)
        except OtherGraphError as error:
            raise self.refusal(model, error) from None
        _FAMILIES.setdefault(model, self)
        return description

    def refusal(self, model, reason):
        """Returns the error for a model that no builder made."""
        return ValueError(
            f"`model` must come from {self.builders}, with nothing added, removed or changed. {reason}."
            f"{self.hint(model)} Received: model={model.name!r}. keras_bert only saves and exports models from its "
            "builders; Keras saves any model: model.save('model.keras'), and exports any model on texts: "
            "keras_bert.build_text_model(model, preprocessor).export(folder)"
        )


def family_of(model, default):
    """Returns the `Family` that a builder noted, or the default."""
    return _FAMILIES.get(model, default)


def own_layers(model):
    """Returns the layers of a functional model by name, without inputs."""
    return {layer.name: layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer)}


def check_functional(model):
    """Raises unless a model is functional, with dicts of tensors as inputs and outputs, none of them strings."""
    expect(type(model).call.__qualname__ == "Functional.call", "its class overrides `call`")
    inputs = getattr(model, "inputs", None) or []
    takes_strings = any(tensor.dtype == "string" for tensor in inputs)
    expect(not takes_strings, "it takes strings: pass the model on token ids that build_text_model received")
    has_dicts = isinstance(getattr(model, "input", None), dict) and isinstance(model.output, dict)
    expect(has_dicts, "its inputs and outputs are not dicts")


def built(model, layers):
    """Notes that a builder just made a model, which then need not be compared until a setting changes."""
    _SETTINGS[model] = (None, _settings_of_layers(layers))
    return model


def check_built(model, layers, build, kind=None):
    """Raises `OtherGraphError` unless a model is the one that a builder makes, apart from sizes, weights and dtypes.

    `layers` are those of the model, by the names that the builder gives them; `build` returns what the builder makes,
    best of the smallest sizes. `kind` is the name of a head whose builder notes nothing: what other builders noted of
    the model does not count.
    """
    settings = (kind, _settings_of_layers(layers))
    if _SETTINGS.get(model) == settings:
        return
    state = random.getstate()
    expected = build()
    random.setstate(state)  # New layers draw seeds; weights of later models must not depend on this one.
    check_functional(model)
    _GraphComparison(model, expected, layers).run()
    _check_shared_sizes(layers)
    _SETTINGS[model] = settings


class _Pair(NamedTuple):
    """Two values that must be the same in both graphs, and the beginning of the message if they are not."""

    value: Any
    other: Any
    place: str


class _GraphComparison:
    """Follows the graphs of a functional model and of the expected one from the outputs to the inputs.

    `layers` are those of the model, by the names that the builder of the expected one gives them.
    """

    def __init__(self, model, expected, layers):
        self._model = model
        self._expected = expected
        self._layers = layers
        self._counterparts = {}  # The tensors of the other graph, by the ids of those of each.
        self._todo = []

    def run(self):
        """Raises `OtherGraphError` at the first difference."""
        self._note_inputs(self._model.input, self._expected.input)
        self._todo.append(_Pair(self._model.output, self._expected.output, "its outputs are"))
        while self._todo:
            self._compare(*self._todo.pop())

    def _compare(self, value, other, place):
        if isinstance(other, dict):
            self._compare_dicts(value, other, place)
        elif isinstance(other, list | tuple):
            self._compare_lists(value, other, place)
        elif isinstance(other, keras.KerasTensor):
            is_new = self._note_tensors(value, other)
            if is_new:
                self._compare_origins(value, other)
        else:
            expect(type(value) is type(other) and value == other, f"{place} {value!r:.100}")

    def _compare_dicts(self, value, other, place):
        names = "no dict"
        if isinstance(value, dict):
            names = ", ".join(map(repr, sorted(value)))
        expect(isinstance(value, dict) and set(value) == set(other), f"{place} {names}")
        for name in other:
            self._todo.append(_Pair(value[name], other[name], f"{place} {name!r}"))

    def _compare_lists(self, value, other, place):
        is_as_long = isinstance(value, list | tuple) and len(value) == len(other)
        expect(is_as_long, f"{place} of another number")
        for element, other_element in zip(value, other, strict=True):
            self._todo.append(_Pair(element, other_element, place))

    def _compare_origins(self, tensor, other):
        """Compares the operations of which two tensors are outputs, and notes what these are called with."""
        operation, node, index = tensor._keras_history
        twin, twin_node, twin_index = other._keras_history
        expect(
            type(operation) is type(twin),
            f"{_origin_name(tensor)} replaces {type(twin).__name__} {twin.name!r}",
        )
        expect(index == twin_index, f"another output of {operation.name!r} is used")
        if isinstance(twin, keras.Model):
            check_functional(operation)
            self._note_inputs(operation.input, twin.input)
            self._todo.append(_Pair(operation.output, twin.output, "the outputs of the nested model are"))
        elif isinstance(twin, keras.layers.Layer):
            is_known = self._layers.get(twin.name) is operation
            expect(is_known, f"the layer {operation.name!r} replaces {twin.name!r}")
        _check_settings(operation, twin)
        self._todo.append(
            _Pair(
                _arguments(operation, node),
                _arguments(twin, twin_node),
                f"the layer {operation.name!r} is called with",
            )
        )

    def _note_inputs(self, inputs, others):
        """Notes the inputs of two models as the same."""
        expect(set(inputs) == set(others), f"its inputs are {', '.join(map(repr, sorted(inputs)))}")
        for name, tensor in inputs.items():
            self._note_tensors(tensor, others[name])

    def _note_tensors(self, tensor, other):
        """Notes two tensors as the same; returns whether they are new."""
        is_new = id(tensor) not in self._counterparts
        is_tensor = isinstance(tensor, keras.KerasTensor)
        expect(is_tensor, f"a constant replaces the output of {_origin_name(other)}")
        is_pair = (
            self._counterparts.setdefault(id(tensor), other) is other
            and self._counterparts.setdefault(id(other), tensor) is tensor
        )
        expect(is_pair, f"{_origin_name(tensor)} is connected in another way")
        return is_new


def _origin_name(tensor):
    operation = tensor._keras_history.operation
    return f"{operation.name!r} ({type(operation).__name__})"


def _arguments(operation, node):
    """Returns the arguments of a call that change the first output."""
    arguments = operation._inbound_nodes[node].arguments
    given = {}
    for name, value in arguments.kwargs.items():
        # Keras passes a mask, a dict of `None`, to a nested model.
        if any(_is_given(part) for part in keras.tree.flatten(value)):
            given[name] = value
    given.pop("return_attention_scores", None)
    return [list(arguments.args), given]


def _is_given(value):
    return value is not None and value is not False


class _Setting(NamedTuple):
    """A setting of an operation, or of one of its sublayers, which are numbered from 1."""

    number: int
    part: str
    name: str


def _check_settings(operation, twin):
    """Raises if an operation lacks a setting of its counterpart, or has another value of it."""
    settings = _own_settings(operation)
    for setting, expected in _own_settings(twin).items():
        value = settings.get(setting)
        name = setting.name
        if setting.part:
            name = f"{setting.part}.{name}"
        expect(
            value == expected,
            f"the layer {operation.name!r} has {name}={value!r:.100}, where {expected!r:.100} is expected",
        )


def _settings_of_layers(layers):
    return {name: _own_settings(layer) for name, layer in layers.items()}


def _own_settings(operation):
    """Returns the values of an operation and of its sublayers by `_Setting`."""
    if isinstance(operation, keras.Model):
        return {}
    settings = {}
    for name, value in operation.get_config().items():
        if name not in _IGNORED and not name.endswith("_initializer"):
            settings[_Setting(0, "", name)] = _as_from_json(value)
    if isinstance(operation, keras.layers.Layer):
        for number, part in enumerate(operation._flatten_layers(include_self=False), 1):
            for name in _PART_SETTINGS:
                settings[_Setting(number, part.name, name)] = getattr(part, name, None)
    return settings


def _as_from_json(value):
    """Returns a setting as after a round trip through JSON."""
    if isinstance(value, list | tuple):
        return [_as_from_json(element) for element in value]
    return value


def _check_shared_sizes(layers):
    """Raises if layers that differ only in their number have different sizes, which a config stores once."""
    sizes = {}
    for name, layer in layers.items():
        unnumbered = re.sub(r"\d+", "", name)
        for size in _SIZES:
            value = getattr(layer, size, None)
            known = sizes.setdefault((unnumbered, size), value)
            expect(value == known, f"the layer {layer.name!r} has {size}={value}, where others have {known}")

"""Compares a functional model with the one that a builder makes: "did this builder make it?", for any builder."""

import dataclasses
import random
import re
import weakref
from collections.abc import Callable

import keras

# Settings of layers that may differ from those of a smaller model, or change after a model was built.
_SIZES = ("hidden_size", "input_dim", "intermediate_size", "max_length", "output_dim", "output_size", "units", "width")
_IGNORED = {*_SIZES, "name", "trainable", "dtype", "reverse_dtype", "seed", "remat", "parts", "lora_rank", "lora_alpha"}
_IGNORED |= {"batch_shape", "quantization_config"}
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
            kind = None if self.noted(description) else description.head
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
    strings = any(tensor.dtype == "string" for tensor in getattr(model, "inputs", None) or [])
    expect(not strings, "it takes strings: pass the model on token ids that build_text_model received")
    dicts = isinstance(getattr(model, "input", None), dict) and isinstance(model.output, dict)
    expect(dicts, "its inputs and outputs are not dicts")


def built(model, layers):
    """Notes that a builder just made a model, which then need not be compared until a setting changes."""
    _SETTINGS[model] = None, _settings(layers)
    return model


def check_built(model, layers, build, kind=None):
    """Raises `OtherGraphError` unless a model is the one that a builder makes, apart from sizes, weights and dtypes.

    `layers` are those of the model, by the names that the builder gives them; `build` returns what the builder makes,
    best of the smallest sizes. `kind` is the name of a head whose builder notes nothing: what other builders noted of
    the model does not count.
    """
    settings = kind, _settings(layers)
    if _SETTINGS.get(model) == settings:
        return
    state = random.getstate()
    expected = build()
    random.setstate(state)  # New layers draw seeds; weights of later models must not depend on this one.
    _compare(model, expected, layers)
    _check_sizes(layers)
    _SETTINGS[model] = settings


def _compare(model, expected, layers):
    """Follows both graphs from the outputs to the inputs."""
    check_functional(model)
    same, todo = {}, [(model.output, expected.output, "its outputs are")]

    def pair(tensor, other):
        """Notes two tensors as the same; returns whether they are new."""
        is_new = id(tensor) not in same
        expect(isinstance(tensor, keras.KerasTensor), f"a constant replaces the output of {_origin_name(other)}")
        pairs = same.setdefault(id(tensor), other), same.setdefault(id(other), tensor)
        expect(pairs[0] is other and pairs[1] is tensor, f"{_origin_name(tensor)} is connected in another way")
        return is_new

    def pair_inputs(inputs, others):
        expect(set(inputs) == set(others), f"its inputs are {', '.join(map(repr, sorted(inputs)))}")
        for name, tensor in inputs.items():
            pair(tensor, others[name])

    pair_inputs(model.input, expected.input)
    while todo:
        value, other, place = todo.pop()
        if isinstance(other, dict):
            names = ", ".join(map(repr, sorted(value))) if isinstance(value, dict) else "no dict"
            expect(isinstance(value, dict) and set(value) == set(other), f"{place} {names}")
            todo += [(value[name], other[name], f"{place} {name!r}") for name in other]
        elif isinstance(other, list | tuple):
            expect(isinstance(value, list | tuple) and len(value) == len(other), f"{place} of another number")
            todo += [(*parts, place) for parts in zip(value, other, strict=True)]
        elif not isinstance(other, keras.KerasTensor):
            expect(type(value) is type(other) and value == other, f"{place} {value!r:.100}")
        elif pair(value, other):
            (operation, node, index), (twin, twin_node, twin_index) = value._keras_history, other._keras_history
            expect(type(operation) is type(twin), f"{_origin_name(value)} replaces {type(twin).__name__} {twin.name!r}")
            expect(index == twin_index, f"another output of {operation.name!r} is used")
            if isinstance(twin, keras.Model):
                check_functional(operation)
                pair_inputs(operation.input, twin.input)
                todo.append((operation.output, twin.output, "the outputs of the nested model are"))
            elif isinstance(twin, keras.layers.Layer):
                expect(layers.get(twin.name) is operation, f"the layer {operation.name!r} replaces {twin.name!r}")
            _check_settings(operation, twin)
            called = f"the layer {operation.name!r} is called with"
            todo.append((_arguments(operation, node), _arguments(twin, twin_node), called))


def _origin_name(tensor):
    operation = tensor._keras_history.operation
    return f"{operation.name!r} ({type(operation).__name__})"


def _arguments(operation, node):
    """Returns the arguments of a call that change the first output."""
    arguments = operation._inbound_nodes[node].arguments
    # Keras passes a mask, a dict of `None`, to a nested model.
    given = {name: value for name, value in arguments.kwargs.items() if any(map(_is_given, keras.tree.flatten(value)))}
    given.pop("return_attention_scores", None)
    return [list(arguments.args), given]


def _is_given(value):
    return value is not None and value is not False


def _check_settings(operation, twin):
    found, expected = _own_settings(operation), _own_settings(twin)
    for place in expected:
        (part, name), value = place[1:], found.get(place)
        whose = f"the layer {operation.name!r} has {f'{part}.' if part else ''}{name}"
        expect(value == expected[place], f"{whose}={value!r:.100}, where {expected[place]!r:.100} is expected")


def _settings(layers):
    return {name: _own_settings(layer) for name, layer in layers.items()}


def _own_settings(operation):
    """Returns the settings of an operation and of its sublayers, keyed by number, sublayer and setting."""
    if isinstance(operation, keras.Model):
        return {}
    settings = {
        (0, "", name): _plain(value)
        for name, value in operation.get_config().items()
        if name not in _IGNORED and not name.endswith("_initializer")
    }
    parts = operation._flatten_layers(include_self=False) if isinstance(operation, keras.layers.Layer) else []
    for number, part in enumerate(parts, 1):
        settings |= {(number, part.name, name): getattr(part, name, None) for name in _PART_SETTINGS}
    return settings


def _plain(value):
    """Returns a setting as after a round trip through JSON."""
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _check_sizes(layers):
    """Raises if layers that differ only in their number have different sizes, which a config stores once."""
    sizes = {}
    for name, layer in layers.items():
        for size in _SIZES:
            value = getattr(layer, size, None)
            known = sizes.setdefault((re.sub(r"\d+", "", name), size), value)
            expect(value == known, f"the layer {layer.name!r} has {size}={value}, where others have {known}")

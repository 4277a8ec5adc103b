"""A model with its optimizer and losses, and the graphs that train and evaluate it, for one run after the other."""

import dataclasses
import json
import types
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_bert.training.adamw import AdamW
from keras_bert.training.distribution import dividing, is_chief
from keras_bert.training.evaluation import Evaluator
from keras_bert.training.losses import Loss
from keras_bert.training.schedule import linear_numbers
from keras_bert.training.step import StepOptions, TrainStep

_PACKAGES = ("keras", "keras_bert")  # The graphs of their layers depend on nothing but their config and attributes.
_NAMES = ("name", "_name", "_path", "_auto_name")  # Attributes of layers.


@dataclasses.dataclass(frozen=True)
class ProgramParts:
    """What the runs of a program have: each run may have another model, of the same graph, and another optimizer."""

    model: keras.Model
    optimizer: keras.Optimizer
    losses: list[Loss]
    means: list[Loss]  # Metrics that are computed batch by batch.
    strategy: tf.distribute.Strategy
    options: StepOptions


@dataclasses.dataclass(frozen=True)
class GraphKey:
    """Everything that the graphs of a program depend on. Two runs with equal keys differ in values alone."""

    model: str  # The layers with their configs and connections: sizes, dropout rates, precision, adapters.
    attributes: list  # The plain values among the attributes of the layers, such as the scale of an adapter.
    variables: list  # Shape, type and whether it is trained, for each variable of the model.
    optimizer: str  # Its class and config, without the numbers of a linear schedule.
    losses: list  # Keys of the `Loss`es that are minimized, and of those that are metrics.
    strategy: tf.distribute.Strategy
    micro_batches: int
    jit_compile: bool
    rewire: Callable | None

    @classmethod
    def of(cls, parts):
        """Returns the key of some `ProgramParts`; `None` if their graph may depend on more than a key states."""
        model = parts.model
        optimizer = parts.optimizer
        if not isinstance(optimizer, AdamW) or not len(linear_numbers(optimizer.schedule)):
            return None
        layers = list(model._flatten_layers())
        if not all(_is_known(layer) for layer in layers):
            return None
        try:
            config = model.get_config()
        except (NotImplementedError, TypeError, ValueError):  # A model without a config.
            return None
        return cls(
            model=json.dumps(_with_numbers_for_names(config), default=str),
            attributes=[_plain_attributes(layer) for layer in layers],
            variables=[_variable_key(variable) for variable in model.variables],
            optimizer=f"{type(optimizer).__name__} {json.dumps(_optimizer_settings(optimizer), default=str)}",
            losses=[value_key(parts.losses), value_key(parts.means)],
            strategy=parts.strategy,
            micro_batches=parts.options.micro_batches,
            jit_compile=parts.options.jit_compile,
            rewire=parts.options.rewire,
        )


def _variable_key(variable):
    """Returns shape, type and whether it is trained."""
    return tuple(variable.shape), str(variable.dtype), variable.trainable


def _optimizer_settings(optimizer):
    """Returns the config of an optimizer without its name and its schedule, which is linear."""
    settings = optimizer.get_config()
    del settings["name"], settings["learning_rate"]
    return settings


def _is_known(layer):
    """Whether a layer and its functions are those of the packages, not of a user."""
    made_by = [type(layer)]
    for value in vars(layer).values():
        if isinstance(value, types.FunctionType):
            made_by.append(value)
    packages = {part.__module__.partition(".")[0] for part in made_by}
    return packages.issubset(_PACKAGES)


def value_key(value, within=()):
    """Returns what the graph of a `Loss`, of a function or of a plain value depends on.

    The same task of other rows, such as a fold, makes its loss again. Functions have equal keys if the same lines made
    them from equal plain values: a loss with other class weights has another key. Whatever else a function uses is
    equal to itself alone. `within` are the functions that use the value.
    """
    if isinstance(value, Loss):
        values = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return value_key(values, within)
    if isinstance(value, types.FunctionType) and value not in within:  # A recursive one uses itself.
        return _function_key(value, within)
    if isinstance(value, list | tuple):
        return tuple(value_key(part, within) for part in value)
    if isinstance(value, bool | int | float | str | None):
        return type(value), value
    return _itself(value)


def _function_key(function, within):
    """Returns the key of the code of a function, of its defaults and of the values that it uses."""
    defaults = list(function.__defaults__ or ())
    defaults.extend((function.__kwdefaults__ or {}).values())
    used = [_content(cell) for cell in function.__closure__ or ()]
    inner = (*within, function)
    return _itself(function.__code__), value_key(defaults, inner), value_key(used, inner)


def _content(cell):
    """Returns the value of a variable that a function uses; the variable itself before it has one."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell


def _itself(value):
    """Returns a key that no other object has; with the object, so that none gets its number."""
    return id(value), value


def _plain_attributes(layer):
    """Returns the plain values among the attributes of a layer, without its names, and the names of its functions."""
    plain = {}
    for name, value in vars(layer).items():
        if isinstance(value, types.FunctionType):
            plain[name] = value.__qualname__
        elif name not in _NAMES and isinstance(value, bool | int | float | str | None):
            plain[name] = value
    return plain


def _with_numbers_for_names(config):
    """Returns the config of a model with numbers in place of the names of layers, which Keras counts on."""
    numbers = {}
    _number_names(config, numbers)
    return _replaced(config, numbers)


def _number_names(config, numbers):
    """Adds the names in a part of a config to the numbers by name, in the order in which they appear."""
    if isinstance(config, dict):
        name = config.get("name")
        if isinstance(name, str):
            numbers.setdefault(name, f"#{len(numbers)}")
        for part in config.values():
            _number_names(part, numbers)
    elif isinstance(config, list | tuple):
        for part in config:
            _number_names(part, numbers)


def _replaced(config, numbers):
    """Returns a part of a config with the numbers of all strings that are names."""
    if isinstance(config, dict):
        return {key: _replaced(part, numbers) for key, part in config.items()}
    if isinstance(config, list | tuple):
        return [_replaced(part, numbers) for part in config]
    if isinstance(config, str):
        return numbers.get(config, config)
    return config


class Program:
    """The graphs of some `ProgramParts`, each traced once.

    Tracing takes seconds, more than the steps of a small run, and TensorFlow never frees all of a traced graph. Runs
    that differ in values alone therefore have one program, see `Programs`.
    """

    def __init__(self, parts):
        self.model = parts.model
        self.optimizer = parts.optimizer
        self.strategy = parts.strategy
        self.losses = parts.losses
        self.optimizer.build(self.model.trainable_variables)
        self.step = TrainStep(self.model, self.optimizer, self.losses, parts.options)
        evaluated = [*self.losses, *parts.means]
        show = is_chief(self.strategy)
        self.evaluator = Evaluator(self.model, self.strategy, evaluated, show=show)
        self.divide = dividing(self.losses, parts.options.micro_batches)
        self._train = tf.function(self._train_steps, autograph=False)

    def start_over(self, parts):
        """Begins another run: sets all that a run changes, as if the program was new.

        Sets the variables of the model to those of `parts.model`, the optimizer's to those of a first step with the
        schedule of `parts.optimizer`, the dropout seed to that of `parts.options`, and the scale of float16 losses.
        """
        for variable, other in zip(self.model.variables, parts.model.variables, strict=True):
            variable.assign(other.value)
        self.optimizer.start_over(parts.optimizer.schedule)
        self.step.start_over(parts.options.seed)

    def train(self, iterator, step, count, stop):
        """Trains `count` steps from `step` on; returns the numbers of each, an array. See `TrainStep`."""
        run_inputs = self.step.run_inputs()
        numbers = self._train(iterator, tf.constant(step), tf.constant(count), stop, run_inputs)
        return numbers.numpy()

    def _train_steps(self, iterator, first, count, stop, run):
        """Trains `count` steps in a graph; returns the numbers of each, `(count, numbers)`."""

        def is_left(index, _):
            return index < count

        def train(index, numbers):
            inputs, targets, weights, totals = next(iterator)
            arguments = (inputs, targets, weights, totals, first + index, stop, run)
            result = self.strategy.run(self.step, arguments)
            of_this_replica = self.strategy.experimental_local_results(result)[0]
            return index + 1, numbers.write(index, of_this_replica)

        # Several steps in one call of a graph: Python, the transfer of the numbers and the check for signals cost once
        # per call instead of once per step, a few milliseconds that are as long as the step of a small model. It can go
        # if calls of a graph return before their results are there.
        numbers = tf.TensorArray(tf.float32, count, element_shape=[None])
        _, numbers = tf.while_loop(is_left, train, (0, numbers))
        return numbers.stack()


class Programs:
    """Hands the program of a run to the next one, if its graphs are the same; the last program alone is kept.

    Example:
        programs = Programs()
        for seed in (1, 2, 3):
            trainer = Trainer(model_fn, optimizer_fn, loss, seed=seed, programs=programs)
            trainer.fit(batches)  # Traced for the first seed.
    """

    def __init__(self):
        self._key: Any = None
        self._program: Any = None

    def program(self, parts):
        """Returns the `Program` of a run, at its first step. Call in the scope of the strategy."""
        key = GraphKey.of(parts)
        if self._program is not None and key is not None and key == self._key:
            self._program.start_over(parts)
            return self._program
        self.clear()  # Two programs at a time would need the memory of both.
        program = Program(parts)
        if key is not None:
            self._key = key
            self._program = program
        return program

    @property
    def has_program(self):
        """Whether there is a program that the next run may take over."""
        return self._program is not None

    def clear(self):
        """Forgets the program, whose memory is free once its last run has ended."""
        self._key = None
        self._program = None

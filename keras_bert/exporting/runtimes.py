"""Runs a file for another runtime and compares its outputs with those of the model that it was made from."""

import dataclasses
import pathlib
import statistics
import time
import warnings
from collections.abc import Callable

import keras
import numpy as np

from keras_bert.exporting.verification import TOLERANCES, compare, scale_of
from keras_bert.heads.registry import answering
from keras_bert.layers.registry import positions_named

_ANY_LENGTH = ((1, 1), (3, 17), (2, 64))  # Rows and lengths of the probes of a model for any length.
_ROWS = (1, 3)  # Those of a model for one length.
_CALLS = 5


@dataclasses.dataclass(frozen=True)
class RuntimeReport:
    """What a runtime computed with a written file.

    Attributes:
        path: path of the file.
        size: int, number of bytes.
        difference: float, the largest difference from the Keras model's outputs, relative to the largest value of an
            output.
        latencies: dict of the median time for one text in seconds, by the number of its tokens.
    """

    path: pathlib.Path
    size: int
    difference: float
    latencies: dict

    def __str__(self):
        times = []
        for length, seconds in self.latencies.items():
            times.append(f"{1000 * seconds:.1f} ms for {length} tokens")
        return (
            f"{self.path}: {self.size / 1e6:.1f} MB, largest difference {self.difference:.1g} of the largest output; "
            f"one text takes {', '.join(times)}"
        )


@dataclasses.dataclass(frozen=True)
class Runner:
    """What computes a file, or one of its signatures.

    Attributes:
        run: function from a dict of int32 arrays to the dict of outputs.
        length: int, the length of the sequences that it takes, `None` for any.
    """

    run: Callable
    length: int | None = None


@dataclasses.dataclass(frozen=True)
class Case:
    """Inputs for a runner, and the outputs of the model."""

    runner: Runner
    inputs: dict
    outputs: dict


def check_runtime(model, description, path, runners, precision: str):
    """Returns the `RuntimeReport` of a file; raises if it differs from its model by more than `TOLERANCES[precision]`.

    `runners` is a list of `Runner`s.
    """
    cases = []
    for runner in runners:
        for inputs in probes(model, description, runner.length):
            cases.append(Case(runner, inputs, _outputs(model, inputs)))
    scales = _scales(cases)
    largest = 0.0
    for case in cases:
        outputs = case.runner.run(case.inputs)
        for name, expected in case.outputs.items():
            difference = compare(expected, outputs[name], TOLERANCES[precision], scales[name])
            if difference.problem:
                raise ValueError(
                    f"{path.name} was not written, since it does not compute what the model does: for inputs of shape "
                    f"{case.inputs['token_ids'].shape}, {name} {difference.problem}; "
                    f"expected at most {TOLERANCES[precision]:.0e}"
                )
            largest = max(largest, difference.relative)
    latencies = {}
    for runner in runners:
        length, seconds = _latency(runner, model, description)
        latencies[length] = seconds
    return RuntimeReport(path, path.stat().st_size, largest, latencies)


def _scales(cases):
    """Returns the largest value of each output in all cases, by name."""
    scales = {}
    for case in cases:
        for name, values in case.outputs.items():
            scales[name] = max(scales.get(name, 0.0), scale_of(values))
    return scales


def probes(model, description, length=None):
    """Returns batches of random token ids with padding, of one length or of several."""
    shapes = _ANY_LENGTH
    if length is not None:
        shapes = [(rows, length) for rows in _ROWS]
    limit = _limit(description)
    return [_probe(model, description, rows, min(size, limit)) for rows, size in shapes]


def _limit(description):
    """Returns the maximum length of a probe."""
    limit = positions_named(description.positions).limit(description.config)
    return np.inf if limit is None else limit


def _probe(model, description, rows, length):
    """Returns random inputs of a model, int32 arrays; the first row has no padding."""
    rng = np.random.default_rng(rows * length)
    config = description.config
    axes = answering(description.head).axes
    sizes = {"batch": rows, "choices": 2, "length": length, "predictions": 2}
    shapes = {}
    for name in model.input:
        shapes[name] = [sizes[axis] for axis in axes(name)]
    real = rng.integers(1, length + 1, (*shapes["token_ids"][:-1], 1))
    real[0] = length
    inputs = {
        "token_ids": rng.integers(0, config.vocab_size, shapes["token_ids"]),
        "segment_ids": rng.integers(0, max(config.type_vocab_size, 1), shapes["segment_ids"]),
        "padding_mask": np.arange(length) < real,
    }
    if "mask_positions" in shapes:
        inputs["mask_positions"] = rng.integers(0, length, shapes["mask_positions"])
    return {name: values.astype("int32") for name, values in inputs.items()}


def _outputs(model, inputs):
    """Returns the arrays of a model's outputs, without lists."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "You are using a softmax over axis")  # Of a text of one token.
        outputs = model(inputs, training=False)
    arrays = {}
    for name, value in outputs.items():
        if not isinstance(value, list):
            arrays[name] = keras.ops.convert_to_numpy(value)
    return arrays


def _latency(runner, model, description):
    """Returns the length of a text, and the median time that it takes."""
    length = runner.length
    if not length:
        _, longest = _ANY_LENGTH[-1]
        length = min(longest, _limit(description))
    inputs = _probe(model, description, rows=1, length=length)
    times = []
    for _ in range(_CALLS):
        start = time.perf_counter()
        runner.run(inputs)
        times.append(time.perf_counter() - start)
    return length, statistics.median(times)

"""Runs a file for another runtime and compares its outputs with those of the model that it was made from."""

import dataclasses
import pathlib
import statistics
import time
import warnings

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
        times = ", ".join(f"{1000 * seconds:.1f} ms for {length} tokens" for length, seconds in self.latencies.items())
        return (
            f"{self.path}: {self.size / 1e6:.1f} MB, largest difference {self.difference:.1g} of the largest output; "
            f"one text takes {times}"
        )


def check_runtime(model, description, path, runners, precision: str):
    """Returns the `RuntimeReport` of a file; raises if it differs from its model by more than `TOLERANCES[precision]`.

    A runner is a pair: a function from a dict of int32 arrays to a dict of outputs, and the length of the sequences
    that it takes, `None` for any.
    """
    cases = [(run, batch) for run, length in runners for batch in probes(model, description, length)]
    expected = [_outputs(model, batch) for _, batch in cases]
    scales = {name: max(scale_of(outputs[name]) for outputs in expected) for name in expected[0]}
    differences = [0.0]
    for (run, batch), outputs in zip(cases, expected, strict=True):
        got = run(batch)
        for name, values in outputs.items():
            difference = compare(values, got[name], TOLERANCES[precision], scales[name])
            if difference.problem:
                raise ValueError(
                    f"{path.name} was not written, since it does not compute what the model does: for inputs of shape "
                    f"{batch['token_ids'].shape}, {name} {difference.problem}; "
                    f"expected at most {TOLERANCES[precision]:.0e}"
                )
            differences.append(difference.relative)
    latencies = dict(_latency(run, model, description, length) for run, length in runners)
    return RuntimeReport(path, path.stat().st_size, max(differences), latencies)


def probes(model, description, length=None):
    """Returns batches of random token ids with padding, of one length or of several."""
    limit = _limit(description)
    shapes = _ANY_LENGTH if length is None else [(rows, length) for rows in _ROWS]
    return [_probe(model, description, rows, min(size, limit)) for rows, size in shapes]


def _limit(description):
    """Returns the maximum length of a probe."""
    limit = positions_named(description.positions).limit(description.config)
    return np.inf if limit is None else limit


def _probe(model, description, rows, length):
    rng, config = np.random.default_rng(rows * length), description.config
    sizes = {"batch": rows, "choices": 2, "length": length, "predictions": 2}
    shapes = {name: [sizes[axis] for axis in answering(description.head).axes(name)] for name in model.input}
    real = rng.integers(1, length + 1, (*shapes["token_ids"][:-1], 1))
    real[0] = length
    batch = {
        "token_ids": rng.integers(0, config.vocab_size, shapes["token_ids"]),
        "segment_ids": rng.integers(0, max(config.type_vocab_size, 1), shapes["segment_ids"]),
        "padding_mask": np.arange(length) < real,
    }
    if "mask_positions" in shapes:
        batch["mask_positions"] = rng.integers(0, length, shapes["mask_positions"])
    return {name: values.astype("int32") for name, values in batch.items()}


def _outputs(model, batch):
    """Returns the arrays of a model's outputs, without lists."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "You are using a softmax over axis")  # Of a text of one token.
        outputs = model(batch, training=False)
    return {name: keras.ops.convert_to_numpy(value) for name, value in outputs.items() if not isinstance(value, list)}


def _latency(run, model, description, length):
    """Returns the length of a text, and the median time that it takes."""
    length = length or min(_ANY_LENGTH[-1][-1], _limit(description))
    batch, times = _probe(model, description, 1, length), []
    for _ in range(_CALLS):
        start = time.perf_counter()
        run(batch)
        times.append(time.perf_counter() - start)
    return length, statistics.median(times)

"""Verifies SavedModels: runs their probes in a new process and checks their ops against TensorFlow Serving's."""

import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from keras_bert.exporting import assets
from keras_bert.files import json_text

_HERE = pathlib.Path(__file__).parent
# Relative to the largest value of an output. The graph rounds differently than the eager model: over all heads, this
# changed outputs by at most 2e-6 in float32, 5e-3 in float16 (11 bits) and 5e-2 in bfloat16 (8 bits). Different weights
# or a different tokenizer change them by 1e-1 or more.
# In int8, the stored answers are the graph's: on another processor, values between two steps may round the other way.
# Dynamic int8 is that of `export_onnx` and `export_litert`, compared with the float32 model: rounding weights and
# activations changed outputs by up to 2e-1.
TOLERANCES = {
    "float32": 1e-5,
    "mixed_float16": 2e-2,
    "float16": 2e-2,
    "mixed_bfloat16": 1e-1,
    "bfloat16": 1e-1,
    "int8": 5e-2,
    "dynamic_int8": 3e-1,
}
# Floats along what was generated: where near ties change the one, the other follows.
_ALONG = {"attention": "target_tokens"}
_EXTREME = 1e30  # Larger values mean "none" and are excluded from the scale.


@dataclasses.dataclass(frozen=True)
class VerificationReport:
    """The result of `verify`: lines to print, and problems, of which a valid SavedModel has none."""

    directory: str
    lines: list
    problems: list


@dataclasses.dataclass(frozen=True)
class Probe:
    """Inputs of a signature, arrays by name, and the outputs that the model had at export, nested lists by name."""

    inputs: dict
    outputs: dict

    @property
    def rows(self):
        """The number of rows of the inputs."""
        return len(next(iter(self.inputs.values())))


@dataclasses.dataclass(frozen=True)
class StoredProbes:
    """What `export` has stored with a SavedModel to verify it.

    Attributes:
        probes: dict of each signature's `Probe`.
        calls: list of a call for each probe, followed by calls for each of its rows alone, see `probe_runner`.
        precision: string, the precision of the model.
        is_calibrated: bool, whether the ranges of int8 do not depend on the batch.
    """

    probes: dict
    calls: list
    precision: str
    is_calibrated: bool


@dataclasses.dataclass(frozen=True)
class Difference:
    """The largest difference between an output and the expected one, and a description of the problem, or `None`.

    `discrete` marks problems of strings, integers or shapes, which near ties can cause in 16 bits.
    """

    absolute: float = 0.0
    relative: float = 0.0
    problem: str | None = None
    discrete: bool = False


@dataclasses.dataclass(frozen=True)
class Compared:
    """The `Difference` of an output, for the whole probe or for one of its rows alone."""

    output: str
    difference: Difference
    is_alone: bool = False

    @property
    def label(self):
        """How messages call it."""
        return f"{self.output} alone" if self.is_alone else self.output


def verify(directories, tolerance=None):
    """Verifies SavedModels written by `export`.

    Runs every signature on the inputs of its probe in one new process, without this package. The outputs must equal
    those of the model at export, must start with the batch dimension, and must be the same for each text alone.
    TensorFlow Serving must link all ops.

    Args:
        directories: paths of the SavedModels.
        tolerance: float, maximum difference relative to the largest value of an output. Defaults to the value in
            `TOLERANCES` for the model's precision.

    Returns:
        A list with a `VerificationReport` for each.
    """
    directories = [str(directory) for directory in directories]
    stored = {}
    problems = {}
    for directory in dict.fromkeys(directories):
        try:
            stored[directory] = _read_stored_probes(directory)
        except _UnreadableProbes as error:
            problems[directory] = str(error)
    requests = []
    for directory, probes in stored.items():
        requests.append({"directory": directory, "calls": probes.calls})
    answers = dict(zip(stored, ask(requests), strict=True))

    reports = []
    for directory in directories:
        if directory in problems:
            reports.append(VerificationReport(directory, [], [problems[directory]]))
        else:
            reports.append(_report(directory, stored[directory], answers[directory], tolerance))
    return reports


def ask(requests):
    """Returns the answers of SavedModels in one new process; `probe_runner` documents requests and answers."""
    if not requests:
        return []
    with tempfile.TemporaryDirectory() as folder:
        asked = pathlib.Path(folder, "requests.json")
        answered = pathlib.Path(folder, "answers.json")
        asked.write_text(json_text(requests, ensure_ascii=True))
        command = [sys.executable, "-I", str(_HERE / "probe_runner.py"), str(asked), str(answered)]
        environment = {"TF_CPP_MIN_LOG_LEVEL": "2"} | dict(os.environ)
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
        if done.returncode:
            words = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing on its standard error"]
            program = pathlib.Path(command[0]).name
            raise ValueError(f"{program} ended with status {done.returncode}: {words[-1][:300]}")
        return json.loads(answered.read_text())


class _UnreadableProbes(Exception):
    """A folder without probes that can be asked; its text says why."""


def _read_stored_probes(directory):
    """Returns the `StoredProbes` of a SavedModel; raises `_UnreadableProbes` for a folder without them."""
    folder = pathlib.Path(directory)
    if not (folder / "saved_model.pb").is_file():
        raise _UnreadableProbes("no SavedModel: it has no saved_model.pb")
    try:
        stored = json.loads((folder / assets.FOLDER / assets.PROBES).read_text(encoding="utf-8"))
        facts = json.loads((folder / assets.FOLDER / assets.FACTS).read_text(encoding="utf-8"))
        probes = {}
        for name, probe in stored.items():
            inputs = {key: _input_array(values) for key, values in probe["inputs"].items()}
            probes[name] = Probe(inputs, probe["outputs"])
        return StoredProbes(
            probes,
            _calls(probes),
            precision=facts["precision"],
            is_calibrated=facts.get("calibrated", False),
        )
    except FileNotFoundError as error:
        name = pathlib.Path(error.filename).name
        raise _UnreadableProbes(f"no {assets.FOLDER}/{name}, which `export` writes") from None
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise _UnreadableProbes(f"{assets.FOLDER} is damaged: {type(error).__name__}: {error}") from None


def _input_array(values):
    """Returns an array of numbers or of string objects, since NumPy strings lose trailing zero bytes."""
    array = np.array(values, object)
    if isinstance(next(iter(array.flat)), str):
        return array
    return np.array(array.tolist())


def _calls(probes):
    """Returns a call for each probe, followed by calls for each of its rows alone."""
    calls = []
    for name, probe in probes.items():
        slices = [slice(None)]
        for row in range(probe.rows):
            slices.append(slice(row, row + 1))
        for rows in slices:
            inputs = {key: _request(values[rows]) for key, values in probe.inputs.items()}
            calls.append([name, inputs])
    return calls


def _request(values):
    """Returns an array as JSON can hold it, also without rows or columns."""
    return {"shape": list(values.shape), "values": values.ravel().tolist()}


def array(answer):
    """Returns the array of an output in an answer; strings are objects."""
    if answer["dtype"] == "string":
        dtype = np.dtype(object)
    elif "float" in answer["dtype"]:
        dtype = np.dtype("f8")
    else:
        dtype = np.dtype("i8")
    return np.array(answer["values"], dtype).reshape(answer["shape"])


def _report(directory, stored, served, tolerance):
    """Returns the `VerificationReport` of a SavedModel that has answered its probes, or does not load."""
    if "error" in served:
        return VerificationReport(directory, [], [f"does not load: {served['error']}"])
    signatures = served["signatures"]
    if tolerance is None:
        tolerance = TOLERANCES.get(stored.precision, 1e-5)
    lines = []
    problems = _unmatched_signatures(stored.probes, signatures)
    answers = iter(served["answers"])
    for name, probe in stored.probes.items():
        whole = next(answers)
        alone = [next(answers) for _ in range(probe.rows)]
        if name not in signatures:
            continue
        line, wrong = _check_signature(probe, whole, alone, tolerance, stored)
        if line is not None:
            lines.append(f"{name}: {line}")
        problems += [f"{name}: {problem}" for problem in wrong]
    line, unlinked = _check_ops(directory)
    return VerificationReport(directory, [*lines, line], problems + unlinked)


def _unmatched_signatures(probes, signatures):
    """Returns the problems of probes without a signature, and of signatures without a probe."""
    problems = []
    for name in probes:
        if name not in signatures:
            problems.append(f"{name}: no such signature")
    for name in signatures:
        if name not in probes:
            problems.append(f"{name}: there is no probe for it")
    return problems


def _check_signature(probe, whole, alone, tolerance, stored):
    """Compares the whole probe with the stored answer, and each of its rows alone with the whole.

    Returns:
        A line to print, `None` if there is no answer, and a list of problems.
    """
    for answer in (whole, *alone):
        if "error" in answer:
            return None, [answer["error"]]
    problems = [f"output {key} is missing" for key in probe.outputs if key not in whole]
    problems += [f"output {key} is not among those of the probe" for key in whole if key not in probe.outputs]
    # Without calibration, the ranges of int8 depend on the batch.
    compares_alone = stored.precision != "int8" or stored.is_calibrated
    at_once = []
    one_by_one = []
    for key in sorted(probe.outputs.keys() & whole.keys()):
        got = array(whole[key])
        at_once.append(Compared(key, compare(probe.outputs[key], got, tolerance)))
        if got.shape[:1] != (probe.rows,):
            problems.append(
                f"{key} does not start with the batch dimension: {probe.rows} rows in, shape {got.shape} out"
            )
        elif compares_alone:
            for row in range(probe.rows):
                difference = _compare_alone(got, row, array(alone[row][key]), tolerance)
                one_by_one.append(Compared(key, difference, is_alone=True))
    ties = _near_ties([*at_once, *one_by_one], stored.precision)
    problems += _wrong_outputs([*at_once, *one_by_one], ties, stored.precision)
    line = f"{probe.rows} rows, {_largest(at_once)}; "
    line += f"a row alone {_largest(one_by_one)}" if compares_alone else "a row depends on its batch"
    if ties:
        line += f"; near ties changed {', '.join(ties)}"
    return line, problems


def _compare_alone(whole, row, alone, tolerance):
    """Compares a row of a batch with the same row alone, which has no padding."""
    batch = whole[row : row + 1]
    if alone.shape[:1] != (1,) or alone.ndim != batch.ndim:
        return Difference(problem=f"has shape {alone.shape}")
    common = tuple(slice(size) for size in alone.shape)
    padding = np.ones(batch.shape, bool)
    padding[common] = False
    if any(value not in ("", 0, -1) for value in batch[padding]):
        return Difference(problem=f"has shape {alone.shape}, but there is more than padding in {batch.shape}")
    scale = scale_of(whole) if whole.dtype.kind == "f" else None
    return compare(batch[common], alone, tolerance, scale)


def _is_exact(precision):
    """Returns whether strings and integers must be equal; below 32 bits, near ties may change them."""
    return precision not in TOLERANCES or precision == "float32"


def _near_ties(compared, precision):
    """Returns the names of the discrete outputs that near ties have changed."""
    if _is_exact(precision):
        return []
    names = []
    for item in compared:
        if item.difference.discrete and item.output not in names:
            names.append(item.output)
    return names


def _wrong_outputs(compared, ties, precision):
    """Returns the problems of outputs; below 32 bits, only floats are checked that do not follow near ties."""
    problems = []
    for item in compared:
        difference = item.difference
        is_tie = difference.discrete and not _is_exact(precision)
        follows_tie = _ALONG.get(item.output) in ties
        if difference.problem and not is_tie and not follows_tie:
            problems.append(f"{item.label} {difference.problem}")
    return problems


def _largest(compared):
    """Returns the largest differences in words."""
    absolute = 0.0
    relative = 0.0
    for item in compared:
        absolute = max(absolute, item.difference.absolute)
        relative = max(relative, item.difference.relative)
    return f"largest difference {absolute:.2g} ({relative:.2g} relative)"


def compare(expected, got, tolerance, scale=None):
    """Returns the `Difference` of two arrays: strings and integers must be equal, floats within `tolerance * scale`."""
    try:
        expected = _like(got, expected)
    except (ValueError, TypeError):
        return Difference(problem="has stored values of another type")
    if expected.shape != got.shape:
        return Difference(problem=f"has shape {got.shape}, expected {expected.shape}", discrete=True)
    if got.dtype.kind != "f":
        different = np.argwhere(expected != got)
        if not len(different):
            return Difference()
        place = tuple(different[0].tolist())
        problem = f"is {got.item(place)!r}, expected {expected.item(place)!r}, at {list(place)}"
        return Difference(problem=problem, discrete=True)
    if not np.isfinite(got).all():
        return Difference(problem="has values that are not finite")
    plain = np.abs(expected) < _EXTREME
    if (plain != (np.abs(got) < _EXTREME)).any():
        return Difference(problem="has a value where there should be none, or none where there should be one")
    absolute = float(np.abs(expected - got)[plain].max(initial=0.0))
    relative = absolute / (scale or scale_of(expected))
    if relative <= tolerance:
        return Difference(absolute, relative)
    problem = f"differs by {absolute:.2g}, {relative:.2g} of its largest value, more than {tolerance:g}"
    return Difference(absolute, relative, problem)


def scale_of(values):
    """Returns the largest absolute value of an array of floats; 1 if it is empty or all values are 0."""
    values = np.abs(values)
    return float(values[values < _EXTREME].max(initial=0.0)) or 1.0


def _like(got, expected):
    """Converts nested lists to an array. An empty one gets its last axes from `got`, since lists do not store them."""
    converted = np.array(expected, got.dtype)
    is_empty = converted.size == got.size == 0 and got.shape[: converted.ndim] == converted.shape
    return converted.reshape(got.shape) if is_empty else converted


@functools.cache
def serving_ops():
    """Returns the names in `serving_ops.txt`, and its line about the versions that it was made from."""
    lines = (_HERE / "serving_ops.txt").read_text().splitlines()
    names = set()
    for line in lines:
        if not line.startswith("#"):
            names.update(line.split())
    return frozenset(names), lines[0].removeprefix("# ")


def _check_ops(directory):
    """Returns a line about the ops of a SavedModel, and problems: ops that TensorFlow Serving does not link."""
    known, made_from = serving_ops()
    used = assets.ops(pathlib.Path(directory))
    missing = [op for op in used if op not in known]
    line = f"ops: {len(used)} kinds, {len(missing)} not linked by TensorFlow Serving ({made_from})"
    return line, [f"TensorFlow Serving does not link the op {op}" for op in missing]

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


@dataclasses.dataclass
class Report:
    """The result of `verify`: lines to print, and problems, of which a valid SavedModel has none."""

    directory: str
    lines: list = dataclasses.field(default_factory=list)
    problems: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Difference:
    """The largest difference between an output and the expected one, and a description of the problem, or `None`.

    `discrete` marks problems of strings, integers or shapes, which near ties can cause in 16 bits.
    """

    absolute: float = 0.0
    relative: float = 0.0
    problem: str | None = None
    discrete: bool = False


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
        A list with a `Report` for each.
    """
    reports = [Report(str(directory)) for directory in directories]
    read = [(report, *found) for report in reports if (found := _read(report))]
    requests = [{"directory": report.directory, "calls": calls} for report, _, _, calls in read]
    for (report, probes, facts, _), served in zip(read, ask(requests), strict=True):
        if "error" in served:
            report.problems.append(f"does not load: {served['error']}")
            continue
        signatures, answers = served["signatures"], iter(served["answers"])
        report.problems += [f"{name}: no such signature" for name in probes if name not in signatures]
        report.problems += [f"{name}: there is no probe for it" for name in signatures if name not in probes]
        most = TOLERANCES.get(facts["precision"], 1e-5) if tolerance is None else tolerance
        for name, (inputs, outputs) in probes.items():
            whole, *alone = [next(answers) for _ in range(1 + _batch(inputs))]
            if name in signatures:
                _check_signature(report, name, outputs, whole, alone, most, facts)
        _check_ops(report)
    return reports


def ask(requests):
    """Returns the answers of SavedModels in one new process; `probe_runner` documents requests and answers."""
    if not requests:
        return []
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = pathlib.Path(folder, "requests.json"), pathlib.Path(folder, "answers.json")
        asked.write_text(json_text(requests, ensure_ascii=True))
        command = [sys.executable, "-I", str(_HERE / "probe_runner.py"), str(asked), str(answered)]
        environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
        if done.returncode:
            words = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing on its standard error"]
            raise ValueError(f"{pathlib.Path(command[0]).name} ended with status {done.returncode}: {words[-1][:300]}")
        return json.loads(answered.read_text())


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
    expected = np.array(expected, got.dtype)
    empty = expected.size == got.size == 0 and got.shape[: expected.ndim] == expected.shape
    return expected.reshape(got.shape) if empty else expected


def _read(report):
    """Returns the probes and the facts of a SavedModel, and the calls to make; `None` with a problem in the report."""
    folder = pathlib.Path(report.directory)
    if not (folder / "saved_model.pb").is_file():
        report.problems.append("no SavedModel: it has no saved_model.pb")
        return None
    try:
        probes = json.loads((folder / assets.FOLDER / assets.PROBES).read_text(encoding="utf-8"))
        facts = json.loads((folder / assets.FOLDER / assets.FACTS).read_text(encoding="utf-8"))
        probes = {
            name: ({key: _input(value) for key, value in probe["inputs"].items()}, probe["outputs"])
            for name, probe in probes.items()
        }
        return probes, {"calibrated": False, "precision": facts["precision"], **facts}, _calls(probes)
    except FileNotFoundError as error:
        report.problems.append(f"no {assets.FOLDER}/{pathlib.Path(error.filename).name}, which `export` writes")
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        report.problems.append(f"{assets.FOLDER} is damaged: {type(error).__name__}: {error}")
    return None


def _input(values):
    """Returns an array of numbers or of string objects, since NumPy strings lose trailing zero bytes."""
    values = np.array(values, object)
    if isinstance(next(iter(values.flat)), str):
        return values
    return np.array(values.tolist())


def _calls(probes):
    """Returns a call for each probe, followed by calls for each of its rows alone."""
    return [
        [name, {key: _request(value[rows]) for key, value in inputs.items()}]
        for name, (inputs, _) in probes.items()
        for rows in [slice(None), *(slice(row, row + 1) for row in range(_batch(inputs)))]
    ]


def _batch(inputs):
    return len(next(iter(inputs.values())))


def _request(values):
    return {"shape": list(values.shape), "values": values.ravel().tolist()}


def array(answer):
    """Returns the array of an output in an answer; strings are objects."""
    dtype = np.dtype(object if answer["dtype"] == "string" else "f8" if "float" in answer["dtype"] else "i8")
    return np.array(answer["values"], dtype).reshape(answer["shape"])


def _check_signature(report, name, stored, whole, alone, tolerance, facts):
    """Compares the whole probe with the stored answer, and each of its rows alone with the whole."""
    failed = [f"{name}: {answer['error']}" for answer in (whole, *alone) if "error" in answer]
    if failed:
        report.problems.append(failed[0])
        return
    problems = [f"output {key} is missing" for key in stored if key not in whole]
    problems += [f"output {key} is not among those of the probe" for key in whole if key not in stored]
    rows, at_once, one_by_one = len(alone), [], []
    # Without calibration, the ranges of int8 depend on the batch.
    compare_alone = facts["precision"] != "int8" or facts["calibrated"]
    for key in sorted(set(stored) & set(whole)):
        got = array(whole[key])
        at_once.append((key, compare(stored[key], got, tolerance)))
        if got.shape[:1] != (rows,):
            problems.append(f"{key} does not start with the batch dimension: {rows} rows in, shape {got.shape} out")
            continue
        if compare_alone:
            one_by_one += [(f"{key} alone", _compare_alone(got, row, alone, key, tolerance)) for row in range(rows)]
    wrong, ties = _judge((*at_once, *one_by_one), facts["precision"])
    report.problems += [f"{name}: {problem}" for problem in (*problems, *wrong)]
    single = f"a row alone {_largest(one_by_one)}" if compare_alone else "a row depends on its batch"
    report.lines.append(f"{name}: {rows} rows, {_largest(at_once)}; {single}{ties}")


def _judge(named, precision):
    """Returns problems, and a note on discrete outputs changed by near ties: below 32 bits, only floats are checked."""
    exact = precision not in TOLERANCES or precision == "float32"
    ties = dict.fromkeys(key.removesuffix(" alone") for key, difference in named if difference.discrete and not exact)
    wrong = [
        f"{key} {difference.problem}"
        for key, difference in named
        if difference.problem
        and (exact or not difference.discrete)
        and _ALONG.get(key.removesuffix(" alone")) not in ties
    ]
    return wrong, f"; near ties changed {', '.join(ties)}" if ties else ""


def _compare_alone(whole, row, alone, key, tolerance):
    """Compares a row of a batch with the same row alone, which has no padding."""
    mine, batch = array(alone[row][key]), whole[row : row + 1]
    if mine.shape[:1] != (1,) or mine.ndim != batch.ndim:
        return Difference(problem=f"has shape {mine.shape}")
    common = tuple(slice(size) for size in mine.shape)
    padding = np.ones(batch.shape, bool)
    padding[common] = False
    if any(value not in ("", 0, -1) for value in batch[padding]):
        return Difference(problem=f"has shape {mine.shape}, but there is more than padding in {batch.shape}")
    return compare(batch[common], mine, tolerance, scale_of(whole) if whole.dtype.kind == "f" else None)


def _largest(named):
    absolute = max((difference.absolute for _, difference in named), default=0.0)
    relative = max((difference.relative for _, difference in named), default=0.0)
    return f"largest difference {absolute:.2g} ({relative:.2g} relative)"


@functools.cache
def serving_ops():
    """Returns the names in `serving_ops.txt`, and its line about the versions that it was made from."""
    lines = (_HERE / "serving_ops.txt").read_text().splitlines()
    names = {name for line in lines if not line.startswith("#") for name in line.split()}
    return frozenset(names), lines[0].removeprefix("# ")


def _check_ops(report):
    known, made_from = serving_ops()
    used = assets.ops(pathlib.Path(report.directory))
    missing = [op for op in used if op not in known]
    report.problems += [f"TensorFlow Serving does not link the op {op}" for op in missing]
    report.lines.append(f"ops: {len(used)} kinds, {len(missing)} not linked by TensorFlow Serving ({made_from})")

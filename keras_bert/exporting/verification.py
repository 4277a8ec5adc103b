"""Whether a SavedModel is fit to ship: its probes in a fresh process, its ops beside those of TensorFlow Serving."""

import dataclasses
import functools
import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

from keras_bert.exporting import assets

_HERE = pathlib.Path(__file__).parent
# Of the largest value of an output. The graph rounds at other places than the model called eagerly does: over all heads
# that moved outputs by 2e-6 at most in float32, 5e-3 in float16 (11 bits) and 5e-2 in bfloat16 (8 bits); here is twice
# as much and more. Other weights or another tokenizer move them by 1e-1 and more.
TOLERANCES = {"float32": 1e-5, "mixed_float16": 2e-2, "float16": 2e-2, "mixed_bfloat16": 1e-1, "bfloat16": 1e-1}
_EXTREME = 1e30  # Stands for "none", and is no scale.


@dataclasses.dataclass
class Report:
    """What `verify` found: lines to read, and what is wrong, empty for a model that is fit to ship."""

    directory: str
    lines: list = dataclasses.field(default_factory=list)
    problems: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Difference:
    """How far an answer is from the expected one: of floats, the largest; and what is wrong, or `None`.

    `discrete` is what is wrong with strings, integers or a shape: in 16 bits near ties decide them.
    """

    absolute: float = 0.0
    relative: float = 0.0
    problem: str | None = None
    discrete: bool = False


def verify(directories, tolerance=None, native=False):
    """Checks SavedModels that `export` wrote.

    Every signature is run on the inputs of its probe in one fresh process, without this package: the answers must be
    those that the model gave when it was exported, begin with the batch, and be the same for a text alone. All ops must
    be among those that TensorFlow Serving links.

    Args:
        directories: the SavedModels.
        tolerance: the largest difference of floats, of the largest value of an output; by default that of
            `TOLERANCES` for the precision of the model.
        native: whether `serving_default` also runs in TensorFlow's C++ runtime; needs a C++ compiler.

    Returns:
        A `Report` for each.
    """
    program = build_native_runner() if native else None
    reports = [Report(str(directory)) for directory in directories]
    read = {report.directory: _read(report) for report in reports}
    sound = [report for report in reports if not report.problems]
    requests = [{"directory": report.directory, "calls": read[report.directory][2]} for report in sound]
    for report, served in zip(sound, ask(requests), strict=True):
        if "error" in served:
            report.problems.append(f"does not load: {served['error']}")
            continue
        probes, precision, _ = read[report.directory]
        most = TOLERANCES.get(precision, 1e-5) if tolerance is None else tolerance
        exact = precision not in TOLERANCES or precision == "float32"
        _check_signatures(report, probes, served, most, exact)
        _check_ops(report)
        if native and not report.problems and "serving_default" in probes:
            _check_native(report, probes, most, exact, program)
    return reports


def ask(requests):
    """The answers of SavedModels in one fresh process; for the form of both see `probe_runner`."""
    if not requests:
        return []
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = pathlib.Path(folder, "requests.json"), pathlib.Path(folder, "answers.json")
        asked.write_text(json.dumps(requests))
        _run([sys.executable, "-I", str(_HERE / "probe_runner.py"), str(asked), str(answered)], b"")
        return json.loads(answered.read_text())


def compare(expected, got, tolerance, scale=None):
    """The `Difference` of two arrays: strings and integers must be equal, floats nearly so.

    Args:
        expected: the array that should have come, or nested lists of its values.
        got: the one that came.
        tolerance: the largest difference of floats, in units of `scale`.
        scale: the largest value of `expected` where it is `None`.
    """
    try:
        expected = _like(got, expected)
    except (ValueError, TypeError):
        return Difference(problem="has no such values stored")
    if expected.shape != got.shape:
        return Difference(problem=f"has shape {got.shape} for {expected.shape}", discrete=True)
    if got.dtype.kind != "f":
        different = np.argwhere(expected != got)
        if not len(different):
            return Difference()
        place = tuple(different[0].tolist())
        problem = f"is {got.item(place)!r} for {expected.item(place)!r} at {list(place)}"
        return Difference(problem=problem, discrete=True)
    if not np.isfinite(got).all():
        return Difference(problem="has values that are not finite")
    plain = np.abs(expected) < _EXTREME
    if (plain != (np.abs(got) < _EXTREME)).any():
        return Difference(problem="has a value where there should be none, or none where there should be one")
    absolute = float(np.abs(expected - got)[plain].max(initial=0.0))
    relative = absolute / (scale or scale_of(expected))
    wrong = f"differs by {absolute:.2g}, {relative:.2g} of its largest value" if relative > tolerance else None
    return Difference(absolute, relative, wrong)


def scale_of(values):
    """The largest value of an array of floats; 1 where there is none or where all are 0."""
    values = np.abs(values)
    return float(values[values < _EXTREME].max(initial=0.0)) or 1.0


def _like(got, expected):
    """Nested lists as an array; an empty one gets the last axes, which lists cannot hold."""
    expected = np.array(expected, got.dtype)
    empty = expected.size == got.size == 0 and got.shape[: expected.ndim] == expected.shape
    return expected.reshape(got.shape) if empty else expected


def _read(report):
    """The probes and the precision of a SavedModel, and the calls to make."""
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
        return probes, facts["precision"], _calls(probes)
    except FileNotFoundError as error:
        report.problems.append(f"no {assets.FOLDER}/{pathlib.Path(error.filename).name}, which `export` writes")
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        report.problems.append(f"{assets.FOLDER} is damaged: {type(error).__name__}: {error}")
    return None


def _input(values):
    """An array of integers, or of strings as objects: NumPy's own strings would lose the zeros at their ends."""
    values = np.array(values, object)
    return values if isinstance(next(iter(values.flat)), str) else values.astype("int32")


def _calls(probes):
    """Each probe, and after it each of its rows alone."""
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
    """The array of an output out of an answer; strings are objects."""
    kind = np.dtype(object if answer["dtype"] == "string" else "f8" if "float" in answer["dtype"] else "i8")
    return np.array(answer["values"], kind).reshape(answer["shape"])


def _check_signatures(report, probes, served, tolerance, exact):
    report.problems += [f"{name}: no such signature" for name in probes if name not in served["signatures"]]
    report.problems += [f"{name}: there is no probe for it" for name in served["signatures"] if name not in probes]
    answers = iter(served["answers"])
    for name, (inputs, outputs) in probes.items():
        whole, *alone = [next(answers) for _ in range(1 + _batch(inputs))]
        if name in served["signatures"]:
            _check_signature(report, name, outputs, whole, alone, tolerance, exact)


def _check_signature(report, name, stored, whole, alone, tolerance, exact):
    """One signature: the whole probe beside the stored answer, and each of its rows beside the whole."""
    failed = [f"{name}: {answer['error']}" for answer in (whole, *alone) if "error" in answer]
    if failed:
        report.problems.append(failed[0])
        return
    problems = _named_alike(stored, whole)
    rows, at_once, one_by_one = len(alone), [], []
    for key in sorted(set(stored) & set(whole)):
        got = array(whole[key])
        at_once.append((key, compare(stored[key], got, tolerance)))
        if got.shape[:1] != (rows,):
            problems.append(f"{key} does not begin with the batch: {rows} rows in, shape {got.shape} out")
            continue
        one_by_one += [(f"{key} alone", _compare_alone(got, row, alone, key, tolerance)) for row in range(rows)]
    wrong, ties = _judge((*at_once, *one_by_one), exact)
    report.problems += [f"{name}: {problem}" for problem in (*problems, *wrong)]
    report.lines.append(f"{name}: {rows} rows, {_largest(at_once)}; a row alone {_largest(one_by_one)}{ties}")


def _judge(named, exact):
    """What is wrong, and the end of a line about what near ties decide: in 16 bits floats alone are judged."""
    wrong = [f"{key} {found.problem}" for key, found in named if found.problem and (exact or not found.discrete)]
    ties = dict.fromkeys(key.removesuffix(" alone") for key, found in named if found.discrete and not exact)
    return wrong, f"; by near ties other {', '.join(ties)}" if ties else ""


def _named_alike(stored, got):
    missing = [f"output {key} is missing" for key in stored if key not in got]
    return missing + [f"output {key} is not among those of the probe" for key in got if key not in stored]


def _compare_alone(whole, row, alone, key, tolerance):
    """A row of a batch beside the same one alone, which has no padding after it."""
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
    absolute = max((found.absolute for _, found in named), default=0.0)
    relative = max((found.relative for _, found in named), default=0.0)
    return f"largest difference {absolute:.2g} ({relative:.2g} relative)"


@functools.cache
def serving_ops():
    """The names in `serving_ops.txt`, and the line of it that says what it was made from."""
    lines = (_HERE / "serving_ops.txt").read_text().splitlines()
    names = {name for line in lines if not line.startswith("#") for name in line.split()}
    return frozenset(names), lines[0].removeprefix("# ")


def _check_ops(report):
    known, made_from = serving_ops()
    used = assets.ops(pathlib.Path(report.directory))
    missing = [op for op in used if op not in known]
    report.problems += [f"TensorFlow Serving does not link the op {op}" for op in missing]
    report.lines.append(f"ops: {len(used)} kinds, {len(missing)} not linked by TensorFlow Serving ({made_from})")


def _check_native(report, probes, tolerance, exact, program):
    name = "serving_default"
    inputs, stored = probes[name]
    try:
        got = run_natively(program, report.directory, name, inputs)
    except ValueError as error:
        report.problems.append(f"{name} natively: {error}")
        return
    found = [(key, compare(stored[key], got[key], tolerance)) for key in sorted(stored)]
    wrong, ties = _judge(found, exact)
    report.problems += [f"{name} natively: {problem}" for problem in wrong]
    report.lines.append(f"{name} natively, without Python: {_largest(found)}{ties}")


def run_natively(program, directory, signature, inputs):
    """The answer of a signature in TensorFlow's C++ runtime.

    Args:
        program: what `build_native_runner` gave.
        directory: the SavedModel.
        signature: its name.
        inputs: arrays by name; a character of a string stands for a byte.

    Returns:
        Arrays by name, as `array` gives them.
    """
    request = "".join(_written(name, np.asarray(values)) for name, values in inputs.items())
    command = [str(program), str(directory), signature, *map(str, _text_libraries())]
    answer = _run(command, request.encode()).decode()
    return dict(_read_line(line) for line in answer.splitlines())


def _written(name, values):
    flat = values.ravel().tolist()
    kind = "string" if values.dtype == object else "int32"
    plain = [text.encode("latin-1").hex() or "-" for text in flat] if kind == "string" else map(str, flat)
    return f"{name}\t{kind}\t{' '.join(map(str, values.shape))}\t{' '.join(plain)}\n"


def _read_line(line):
    name, kind, shape, values = line.split("\t")
    values = values.split()
    if kind == "string":
        values = [bytes.fromhex(value.removeprefix("-")).decode("latin-1") for value in values]
    else:
        values = list(map(float if "float" in kind else int, values))
    return name, array({"dtype": kind, "shape": list(map(int, shape.split())), "values": values})


def build_native_runner(cache=None):
    """Compiles `native_runner.cc` for the installed TensorFlow, once; it takes a quarter of a minute.

    Args:
        cache: the folder that keeps the program, by default `$XDG_CACHE_HOME/keras_bert`.

    Returns:
        Its path.
    """
    source, libraries = _HERE / "native_runner.cc", tf.sysconfig.get_lib()
    cache = pathlib.Path(cache or os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "keras_bert"
    key = hashlib.sha256(source.read_bytes() + f"{tf.__version__} {libraries}".encode()).hexdigest()[:16]
    program = cache / f"native_runner-{key}"
    if program.is_file():
        return program
    compiler = shutil.which(os.environ.get("CXX") or "g++") or shutil.which("clang++")
    if compiler is None:
        raise ValueError("to run natively needs a C++ compiler, but there is no $CXX, g++ or clang++")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        fresh = pathlib.Path(folder, "program")
        # The wheel's flags know of the framework alone. Sessions and kernels are in the other library, which registers
        # them when it is loaded: nothing calls it by name, so the linker must be told to keep it.
        linked = ["-Wl,--no-as-needed", *tf.sysconfig.get_link_flags(), "-l:libtensorflow_cc.so.2"]
        linked.append(f"-Wl,-rpath,{libraries}")
        _run([compiler, "-O1", "-w", *tf.sysconfig.get_compile_flags(), str(source), "-o", str(fresh), *linked], b"")
        fresh.replace(program)
    return program


def _text_libraries():
    """The shared libraries of TF-Text's ops."""
    return sorted(pathlib.Path(importlib.util.find_spec("tensorflow_text").origin).parent.glob("python/ops/*.so"))


def _run(command, given):
    """The standard output of a program; its last words are the error where it fails."""
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}
    done = subprocess.run(command, input=given, capture_output=True, env=environment, check=False)
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing on its standard error"]
        raise ValueError(f"{pathlib.Path(command[0]).name} ended with status {done.returncode}: {words[-1][:300]}")
    return done.stdout

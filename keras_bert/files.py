"""Atomic writes of files and folders, by any number of processes; JSON and its differences; hashes."""

import contextlib
import csv
import errno
import hashlib
import io
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import socket
import tempfile
import time
import types

try:
    import fcntl
except ImportError:  # Windows.
    fcntl = None  # type: ignore[assignment]

# The public ones.
__all__ = [
    "as_numbers",
    "difference",
    "file_hash",
    "json_text",
    "read_json",
    "read_lines",
    "read_object",
    "replacing",
    "write_json",
    "write_text",
]

# Where TensorFlow Serving looks for the requests that warm up a SavedModel.
WARMUP_REQUESTS = "assets.extra/tf_serving_warmup_requests"

# The metadata that `keras_bert.export` stores in a SavedModel.
MODEL_FACTS = "assets.extra/keras_bert.json"

# The file in a folder of `_workspace` with the name of the folder that is being replaced.
_PLACE = "place"

# A process that has made its folder of `_workspace` locks it within this time, or never.
_BEGINNING_S = 3600

# Errors of a full disk, of a quota and of a limit on the size of files.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def replacing(path):
    """Yields a temporary path for a file or a folder that replaces `path` when the block ends without an error.

    Links and permissions are kept; a device or a pipe, such as /dev/stdout, is written to. Of several processes that
    write the same path, the last one replaces it.

    Example:
        with replacing("results.json") as temporary:
            temporary.write_text("{}")
    """
    path = pathlib.Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        with _naming(path), tempfile.TemporaryDirectory() as folder:
            temporary = pathlib.Path(folder) / "content"
            yield temporary
            path.write_bytes(temporary.read_bytes())
        return
    path = pathlib.Path(os.path.realpath(path))
    with _workspace(path) as folder:
        # Short, since file systems limit names to 255 bytes, and with the suffix, which NumPy and Keras read.
        temporary = folder / f"new-{path.name[-24:]}"
        yield temporary
        if path.is_file() and temporary.is_file():
            shutil.copymode(path, temporary)
        _publish(temporary, path)


def _publish(temporary, path):
    """Moves a file or a folder to its place; what another process has put there meanwhile is replaced, too."""
    for number in itertools.count():
        if path.is_dir() and temporary.is_dir():
            temporary.with_name(_PLACE).write_text(path.name, encoding="utf-8")  # For `_put_back`.
            with contextlib.suppress(FileNotFoundError):  # Another process has just done it.
                path.replace(temporary.with_name(f"old-{number}"))
        try:
            return temporary.replace(path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


@contextlib.contextmanager
def _workspace(path):
    """Yields a new folder beside a path, which is removed at the end; those of killed processes are removed before.

    A process holds a lock on its folder, which ends with the process, also on another machine. Errors of a full disk
    name the path.
    """
    for left in path.parent.glob(".writing-*"):
        with contextlib.suppress(OSError):  # Its process lives, or another one has just removed it.
            _remove_left(left)
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = pathlib.Path(tempfile.mkdtemp(prefix=".writing-", dir=path.parent))
        try:
            with open(folder / "lock", "w") as lock:
                with contextlib.suppress(OSError):
                    _lock(lock, wait=True)
                lock.write(_this_process())
                lock.flush()
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_left(workspace):
    """Removes the folder of `_workspace` of a process that was killed; raises an `OSError` if the process lives."""
    is_old = time.time() - workspace.stat().st_mtime > _BEGINNING_S
    lock = workspace / "lock"
    if not lock.exists():
        if is_old:
            workspace.rmdir()
        return
    with open(lock, "r+") as file:
        _lock(file)
        if file.read() or is_old:  # A process that is about to lock it has not written yet.
            _put_back(workspace)
            shutil.rmtree(workspace, ignore_errors=True)


def _put_back(workspace):
    """Moves back the folder that a process had taken from its place when it was killed before it moved the new one."""
    place = workspace / _PLACE
    if not place.exists():
        return
    path = workspace.parent / place.read_text(encoding="utf-8")
    taken = sorted(workspace.glob("old-*"), key=lambda old: int(old.name.removeprefix("old-")))
    if taken and not path.exists():
        taken[-1].replace(path)


def _lock(file, wait=False):
    """Locks an open file until it is closed; an `OSError` means that another process has, or that nobody can."""
    if fcntl is None:
        raise OSError("Windows has other locks")
    if wait:
        fcntl.flock(file, fcntl.LOCK_EX)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unfinished(path):
    """Whether a path is a lock of `one_writer`, or what a killed process left of `replacing` or `adding_to`."""
    return path.name == ".lock" or path.name.startswith(".writing-")


def _this_process():
    return f"process {os.getpid()} on {socket.gethostname()}"


class LinesFile:
    """A file that grows by whole lines, also if the program is interrupted or the disk is full.

    It is opened by the first lines, so that an earlier file stays until there are some. A pipe or a device is written
    to as it is.

    Example:
        with LinesFile("answers.jsonl") as file:
            file.append("{}\\n")
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self._file = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._file is not None:
            self._file.close()

    def append(self, text):
        """Writes lines at once; what UTF-8 cannot encode becomes `?`."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "wb", buffering=0)  # noqa: SIM115 (`__exit__` closes it.)
        start = self._file.tell() if self.path.is_file() else None
        content = memoryview(text.encode("utf-8", "replace"))
        try:
            while content:
                content = content[self._file.write(content) :]
        except BaseException as error:
            if start is not None:
                self._file.truncate(start)
            if isinstance(error, OSError) and error.errno in _FULL:
                raise OSError(error.errno, os.strerror(error.errno), str(self.path)) from None
            raise


@contextlib.contextmanager
def _naming(path):
    """Turns the errors of a full disk, of any library, into one line that names the path."""
    try:
        yield
    except Exception as error:
        for code in _FULL:
            if os.strerror(code) in str(error):
                raise OSError(code, f"{os.strerror(code)}, nothing was written", str(path)) from None
        raise


@contextlib.contextmanager
def one_writer(directory, write=True):
    """Locks a folder until the block or the process ends; raises an error if another process has locked it.

    Locks nothing if there is no folder, or if this is a process that does not write: of several workers, one does.
    """
    if not (directory and write):
        yield
        return
    pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
    with open(pathlib.Path(directory) / ".lock", "a+") as lock:
        lock.seek(0)
        try:
            _lock(lock)
        except (BlockingIOError, PermissionError):  # The latter on network folders.
            raise ValueError(
                f"another run writes to {directory}: {lock.read()}. Wait until it ends, or choose another folder"
            ) from None
        except OSError:
            pass
        lock.truncate(0)
        lock.write(_this_process())
        lock.flush()
        yield


def check_writable(directory, name="output_dir"):
    """Creates a folder; raises an error if that is impossible, or if nothing can be written to it."""
    try:
        pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        problem = f"{directory}, {error.strerror}"
        raise ValueError(f"`{name}` must be a folder to which files can be written. Received: {problem}") from None


def check_replaceable(directory, names):
    """Raises an error if a folder that would be replaced contains anything besides files and folders of these names."""
    directory = pathlib.Path(directory)
    received = None
    if directory.is_file():
        received = f"the file {directory}"
    elif directory.is_dir():
        others = [path.name for path in directory.iterdir() if path.name not in names]
        if others:
            received = f"{directory} with {min(others)}"
    if received is not None:
        raise ValueError(
            f"the output replaces its folder: expected a new folder, or one with only {', '.join(names)}. "
            f"Received: {received}"
        )


@contextlib.contextmanager
def adding_to(directory, last=(), stale=()):
    """Yields a temporary folder whose files move into `directory` when the block ends without an error.

    Files with the names `last`, without which nobody reads the others, are removed before and move last: a process
    that is killed meanwhile leaves no mixture of old and new files that opens. `stale` are names of older files that
    would be read together with the new ones.
    """
    directory = pathlib.Path(os.path.realpath(directory))
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"the output must be a directory. Received: the file {directory}")
    with _workspace(directory) as folder:
        temporary = folder / "new"
        temporary.mkdir()
        yield temporary
        directory.mkdir(exist_ok=True)
        with _in_turn(directory):
            _remove(directory, [name for name in last if (temporary / name).exists()])
            _remove(directory, stale)
            files = sorted(temporary.rglob("*"), key=lambda file: file.parent == temporary and file.name in last)
            for file in files:
                place = directory / file.relative_to(temporary)
                if file.is_dir():
                    place.mkdir(exist_ok=True)
                else:
                    os.replace(file, place)


def _remove(directory, names):
    """Removes files of a folder that are there."""
    for name in names:
        (directory / name).unlink(missing_ok=True)


@contextlib.contextmanager
def _in_turn(directory):
    """Lets one process at a time into the block, where the file system can lock a folder."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            _lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def write_text(path, text):
    """Writes UTF-8 text; characters that UTF-8 cannot encode, such as lone surrogates, become question marks."""
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "replace"))


def json_text(value, *, measured=False, **options):
    """Returns a value as JSON, in which `NaN` and `Infinity` never stand: they are no JSON, and parsers stop there.

    Args:
        value: nested dicts, lists, strings and numbers.
        measured: bool, whether numbers that are not finite are written as `null`, such as the score of a run that
            diverged or the answer of a model; see `as_numbers`. Defaults to `False`: they are refused, as in settings
            and in whatever else must be read back unchanged.
        **options: those of `json.dumps`. `ensure_ascii` defaults to `False`.
    """
    options.setdefault("ensure_ascii", False)
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        wrong = next(_not_finite(value), None)
        if wrong is None:  # Another error, such as a circular reference.
            raise
    if not measured:
        place, number = wrong
        raise ValueError(f"JSON has no numbers but finite ones. Received: {place}={number}")
    return json.dumps(with_nulls(value), allow_nan=False, **options)


def _not_finite(value, place=""):
    """Yields the places and the values of the numbers that are not finite."""
    if isinstance(value, float):
        if not math.isfinite(value):
            yield place or "value", value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _not_finite(part, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _not_finite(part, f"{place}[{index}]")


def with_nulls(value):
    """Returns nested values with `None` in place of numbers that are not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: with_nulls(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [with_nulls(part) for part in value]
    return value


def as_numbers(values):
    """Returns a dict of measured numbers as they were before `write_json` wrote them: `None` is NaN."""
    return {name: math.nan if value is None else value for name, value in values.items()}


def write_json(path, value, *, measured=False):
    """Writes a readable JSON file; strings that UTF-8 cannot encode are escaped and read back unchanged.

    Args:
        path: path of the file, which is replaced at once.
        value: nested dicts, lists, strings and numbers.
        measured: bool, whether numbers that are not finite are written as `null`, such as the score of a run that
            diverged; `as_numbers` reverses it. Defaults to `False`: they are refused.

    Example:
        write_json("scores.json", {"accuracy": 0.91, "loss": float("nan")}, measured=True)
        scores = as_numbers(read_json("scores.json"))
    """
    try:
        text = json_text(value, measured=measured, indent=1)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json_text(value, measured=measured, indent=1, ensure_ascii=True)
    write_text(path, text + "\n")


def read_json(path):
    """Reads a JSON file."""
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def read_object(path):
    """Reads a JSON object, of any program; errors name the file."""
    try:
        values = read_json(path)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a JSON file: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path}: expected a JSON object. Received: {type(values).__name__}")
    return values


def read_lines(path):
    """Reads a file with a JSON object of measured numbers in each line, see `as_numbers`."""
    return [as_numbers(json.loads(line)) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


def csv_text(columns, rows, *, delimiter=",", with_header=True):
    """Returns dicts as the lines of a table, which end with LF."""
    text = io.StringIO()
    # With LF as `lineterminator`, Python 3.12 and before leave carriage returns without quotes.
    lines = types.SimpleNamespace(write=lambda line: text.write(line.removesuffix("\r\n") + "\n"))
    writer = csv.DictWriter(lines, columns, delimiter=delimiter, lineterminator="\r\n")
    if with_header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def fingerprint(value):
    """Returns a short hash of a JSON value."""
    return hashlib.sha256(json_text(value, ensure_ascii=True).encode()).hexdigest()[:16]


def file_hash(path):
    """Returns the SHA-256 hash of the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def add_array(digest, array):
    """Adds the shape and the content of a NumPy array to a hash of `hashlib`."""
    digest.update(str(array.shape).encode())
    digest.update(array.ravel().view("uint8"))


def difference(before, now):
    """Describes the first difference between two JSON-serializable values; `None` if they are equal.

    Example:
        difference({"model": "base", "seed": 1}, {"model": "base", "seed": 2})  # "`seed` was 1, is 2"
    """
    return _difference(before, now, "")


def _difference(before, now, name):
    """Returns the `difference` of two values that are called `name`."""
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return _difference(dict(enumerate(before)), dict(enumerate(now)), name)
    if isinstance(before, dict) and isinstance(now, dict):
        return _first_difference(before, now, name)
    if before == now:
        return None
    match = re.match(r"content\.(\w+_file|\d+|.*)", name)  # Hashes, of files or of the data of a list of files.
    if match is None:
        return f"`{name}` was {before!r}, is {now!r}"
    if match[1].isdigit():
        return "the content of the data has changed"
    return f"the content of `{match[1]}` has changed"


def _first_difference(before, now, name):
    """Returns the `difference` of two dicts that are called `name`."""
    for key in before | now:
        inner = f"{name}.{key}" if name else str(key)
        if key not in now:
            return f"`{inner}` is set only in the earlier run: {before[key]!r}"
        if key not in before:
            return f"`{inner}` is set only now: {now[key]!r}"
        found = _difference(before[key], now[key], inner)
        if found:
            return found
    return None

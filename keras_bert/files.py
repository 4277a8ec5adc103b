"""Atomic writes of files and folders; JSON and its differences; hashes."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import tempfile

# Where TensorFlow Serving looks for the requests that warm up a SavedModel.
WARMUP_REQUESTS = "assets.extra/tf_serving_warmup_requests"

# The metadata that `keras_bert.export` stores in a SavedModel.
MODEL_FACTS = "assets.extra/keras_bert.json"


@contextlib.contextmanager
def replacing(path):
    """Yields a temporary path for a file or a folder that replaces `path` when the block ends without an error.

    Links and permissions are kept; a device or a pipe, such as /dev/stdout, is written to.

    Example:
        with replacing("results.json") as temporary:
            temporary.write_text("{}")
    """
    path = pathlib.Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            temporary = pathlib.Path(folder) / "content"
            yield temporary
            path.write_bytes(temporary.read_bytes())
        return
    path = pathlib.Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    # Always the same name, so that the next process finds what a killed one left behind; short, since file systems
    # limit names to 255 bytes. It keeps the suffix, which NumPy and Keras read.
    temporary = path.with_name(f".writing-{fingerprint(path.name)}-{path.name[-24:]}")
    _remove(temporary)
    try:
        yield temporary
        if path.is_dir() and temporary.is_dir():
            shutil.rmtree(path)
        elif path.is_file() and temporary.is_file():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        _remove(temporary)


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
    other = [path.name for path in directory.iterdir() if path.name not in names] if directory.is_dir() else []
    if directory.is_file() or other:
        found = f"{directory} with {min(other)}" if other else f"the file {directory}"
        raise ValueError(
            f"`directory` is replaced: expected a new folder, or one with only {', '.join(names)}. Received: {found}"
        )


@contextlib.contextmanager
def adding_to(directory):
    """Yields a temporary folder whose files move into `directory` when the block ends without an error."""
    directory = pathlib.Path(directory)
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"`directory` must be a directory. Received: the file {directory}")
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = pathlib.Path(tempfile.mkdtemp(prefix=".writing-", dir=directory.parent))
    try:
        yield temporary
        directory.mkdir(exist_ok=True)
        for file in temporary.rglob("*"):
            place = directory / file.relative_to(temporary)
            place.mkdir(exist_ok=True) if file.is_dir() else os.replace(file, place)
    finally:
        shutil.rmtree(temporary)


def write_text(path, text):
    """Writes UTF-8 text; characters that UTF-8 cannot encode, such as lone surrogates, become question marks."""
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "replace"))


def write_json(path, value):
    """Writes a readable JSON file; strings that UTF-8 cannot encode are escaped and read back unchanged."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, indent=1)
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
    """Reads a file with a JSON value in each line."""
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


def fingerprint(value):
    """Returns a short hash of a JSON value."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def file_hash(path):
    """Returns the SHA-256 hash of the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def add_array(digest, array):
    """Adds the shape and the content of a NumPy array to a hash of `hashlib`."""
    digest.update(str(array.shape).encode())
    digest.update(array.ravel().view("uint8"))


def difference(before, now, name=""):
    """Describes the first difference between two JSON-serializable values; `None` if they are equal."""
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        before, now = (dict(enumerate(values)) for values in (before, now))
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *(key for key in now if key not in before)]:
            inner = f"{name}.{key}" if name else str(key)
            if key not in before or key not in now:
                side, value = ("in the earlier run", before[key]) if key in before else ("now", now[key])
                return f"`{inner}` is set only {side}: {value!r}"
            if found := difference(before[key], now[key], inner):
                return found
        return None
    return None if before == now else f"`{name}` was {before!r}, is {now!r}"


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

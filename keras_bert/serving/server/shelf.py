"""A folder of models: loads the latest working version of each model and replaces it without downtime.

    saved_models/<model>/<version number>/saved_model.pb

Checkpoint folders (`config.json`, no version) are skipped. If a version fails to load, the current one stays; the
status contains the error, and loading is retried when the files change.
"""

import contextlib
import dataclasses
import logging
import pathlib
import threading
import time
from typing import NamedTuple

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.apis.get_model_status_pb2 import ModelVersionStatus

from keras_bert.files import WARMUP_REQUESTS
from keras_bert.serving.errors import RequestError, one_line
from keras_bert.serving.server.saved_model import SavedModel

_LOG = logging.getLogger("keras_bert.serving")


class Files(NamedTuple):
    """The folder of a version, and the names, sizes and modification times of its files."""

    path: pathlib.Path
    stats: tuple


@dataclasses.dataclass(frozen=True, eq=False)
class Version:
    """A loaded version. Requests that hold it can use it after another version has replaced it."""

    name: str
    number: int
    files: Files
    model: SavedModel


class Shelf:
    """The models of a folder. Call `poll` in a separate thread to update them: it blocks while models load."""

    def __init__(self, directory):
        self._directory = pathlib.Path(directory)
        if not self._directory.is_dir():
            raise ValueError(f"{directory}: the model folder does not exist")
        self._lock = threading.Lock()
        self._scanned = None  # Model -> {number: Files}, or `None` for a checkpoint; from the last poll.
        self._served = {}  # Model -> Version
        self._failures = {}  # (model, number) -> (Files, message)
        self._loading = None  # (model, number)
        self._polled = False

    @property
    def ready(self):
        """Whether the first poll has finished and a model is served."""
        return self._polled and bool(self._served)

    def models(self):
        """Returns the names of the models that have a version, including models that are not loaded."""
        with self._lock:
            return sorted({*self._with_versions(), *self._served})

    def _with_versions(self):
        return [name for name, versions in (self._scanned or {}).items() if versions]

    def version(self, name, number=None):
        """Returns the `Version` for a request. With the last reference to it, its memory is freed."""
        with self._lock:
            version = self._served.get(name)
            if version is None:
                known = self._scanned is None or self._scanned.get(name)
                code = "UNAVAILABLE" if known else "NOT_FOUND"
                raise RequestError(code, f"model {name} is not served: {self._why_not(name)}")
        if number not in (None, version.number):
            message = f"version {number} of model {name} is not loaded. Expected one of: {version.number}"
            raise RequestError("NOT_FOUND", message)
        return version

    def status(self, name, number=None):
        """Returns the `ModelVersionStatus` of each version, or only of version `number`, latest first.

        That is TensorFlow Serving's message: clients know no other fields. A version that did not load is at its end.
        """
        with self._lock:
            errors = self._errors(name)
            states = self._states(name, errors)
            if not states:
                raise RequestError("NOT_FOUND", f"model {name} has no status: {self._why_not(name)}")
        numbers = sorted(states, reverse=True)
        if number is not None:
            if number not in states:
                known = ", ".join(map(str, numbers))
                raise RequestError("NOT_FOUND", f"model {name} has no version {number}. Expected one of: {known}")
            numbers = [number]
        return [_version_status(known, states[known], errors.get(known)) for known in numbers]

    def _states(self, name, errors):
        """Returns the states of the versions of a model by their numbers."""
        states = dict.fromkeys(errors, "END")
        if self._loading is not None:
            model, number = self._loading
            if model == name:
                states[number] = "LOADING"
        if name in self._served:
            states[self._served[name].number] = "AVAILABLE"
        return states

    def _errors(self, name):
        """Error messages by version number. A served version has one if its changed files failed to load."""
        errors = {}
        for (model, number), (_, message) in self._failures.items():
            if model == name:
                errors[number] = message
        return errors

    def _why_not(self, name):
        """Returns why a model is not served."""
        errors = self._errors(name)
        if errors:
            number, message = list(errors.items())[-1]
            return f"version {number}: {message}"
        if self._scanned is None or self._scanned.get(name):
            return "it is still loading"
        if name not in self._scanned:
            names = ", ".join(sorted(self._with_versions())) or "none, the folder has no model"
            return f"unknown model. Expected one of: {names}"
        if self._scanned[name] is None:
            return "it is a checkpoint; export it first"
        return f"its folder has no version. Expected {self._directory / name}/<number>/saved_model.pb"

    def poll(self):
        """Scans the folder, loads new versions and drops those that they replace."""
        models = _find_models(self._directory)
        with self._lock:
            before = models if self._scanned is None else self._scanned
            self._scanned = models
            failures = {}
            for (name, number), failure in self._failures.items():
                if number in (models.get(name) or ()):
                    failures[name, number] = failure
            self._failures = failures
        for name in models | self._served:
            self._update(name, models.get(name), before.get(name) or {})
        self._polled = True

    def _update(self, name, versions, before):
        """Serves the latest version that loads. Until one does, the current version stays.

        Only what two polls see is acted on: files may still be being written, and a missing folder replaced.

        Args:
            name: string, name of the model.
            versions: dict of the `Files` of its versions in this poll, `None` for a checkpoint or a missing folder.
            before: dict of those in the poll before.
        """
        served = self._served.get(name)
        numbers = set(versions or ())
        if served and served.number in before:
            numbers.add(served.number)
        for number in sorted(numbers, reverse=True):
            is_served = served is not None and served.number == number
            files = versions.get(number) if versions else None
            is_complete = files is not None and files == before.get(number)
            if is_complete and not self._has_tried(name, number, files) and self._load(name, number, files):
                return
            if is_served:
                return
        if versions is None:
            with self._lock:
                self._served.pop(name, None)

    def _has_tried(self, name, number, files):
        """Whether the files of a version are those that are served, or that could not be loaded."""
        failed_files, _ = self._failures.get((name, number), (None, None))
        served = self._served.get(name)
        is_served = served is not None and served.number == number and served.files == files
        return is_served or failed_files == files

    def _load(self, name, number, files):
        """Loads a version and serves it; returns whether it could be loaded."""
        with self._lock:
            self._loading = name, number
        _LOG.info("%s/%d is loading ...", one_line(name), number)
        start = time.monotonic()
        version = None
        message = None
        try:
            version = Version(name, number, files, _load_model(files.path))
            _LOG.info("%s/%d loaded in %.1f s", one_line(name), number, time.monotonic() - start)
        except Exception as error:  # A broken file may raise anything.
            message = one_line(error)
            _LOG.error("%s/%d failed to load: %s", one_line(name), number, message)
        with self._lock:
            self._loading = None
            self._failures.pop((name, number), None)
            if version:
                self._served[name] = version
            else:
                self._failures[name, number] = files, message
        return version is not None


def _version_status(number, state, error):
    """Returns a version's status; `error` is the message of the files that failed to load, or `None`."""
    code = "OK" if error is None else "FAILED_PRECONDITION"
    status = {"error_code": code, "error_message": error or ""}
    return ModelVersionStatus(version=number, state=state, status=status)


def _load_model(path):
    """Loads the `SavedModel` of a folder and warms it up, since the first run of a graph is slow."""
    model = SavedModel(path)
    _warm_up(model, path / WARMUP_REQUESTS)
    return model


def _warm_up(model, file):
    """Replays the predict requests of TensorFlow Serving's warmup file. A failing request is an error."""
    if not file.is_file():
        return
    records = tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    for number, record in enumerate(records, 1):
        try:
            log = prediction_log_pb2.PredictionLog.FromString(record)
            if log.WhichOneof("log_type") == "predict_log":
                request = log.predict_log.request
                signature = model.signature(request.model_spec.signature_name)
                signature.check_names(request.inputs)
                signature({name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()})
        except Exception as error:
            raise ValueError(f"{WARMUP_REQUESTS}: request {number} fails: {error}") from error


def _find_models(directory):
    """Returns the `Files` of each version by model and number; `None` for checkpoint folders.

    A folder that a command has trained in is a model too: its export is in `saved_model`.
    """
    models = {}
    for folder in sorted(directory.iterdir()):
        if not folder.is_dir() or folder.name.startswith("."):
            continue
        versions = {}
        with contextlib.suppress(OSError):  # One unreadable folder must not stop the others.
            versions = _find_versions(folder)
        if not versions and (folder / "config.json").is_file():
            models[folder.name] = None
        else:
            models[folder.name] = versions
    return models


def _find_versions(folder):
    """Returns the `Files` of each version by number."""
    if (folder / "saved_model").is_dir():
        folder = folder / "saved_model"
    return {int(path.name): _files(path) for path in folder.iterdir() if _is_version(path)}


def _is_version(path):
    """Whether the name is a 64-bit integer, as in TensorFlow Serving."""
    return path.name.isascii() and path.name.isdigit() and int(path.name) < 2**63 and path.is_dir()


def _files(path):
    stats = []
    for file in sorted(path.rglob("*")):
        with contextlib.suppress(OSError):  # The file was removed meanwhile.
            stat = file.stat()
            stats.append((str(file.relative_to(path)), stat.st_size, stat.st_mtime_ns))
    return Files(path, tuple(stats))

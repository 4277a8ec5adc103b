"""A folder of models: loads the latest working version of each model and replaces it without downtime.

    saved_models/<model>/<version number>/saved_model.pb

Checkpoint folders (`config.json`, no version) are skipped. If a version fails to load, the current one stays; the
status contains the error, and loading is retried when the files change.
"""

import contextlib
import dataclasses
import gc
import logging
import pathlib
import threading
import time

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.apis.get_model_status_pb2 import ModelVersionStatus

from keras_bert.files import WARMUP_REQUESTS
from keras_bert.serving.errors import CODES, RequestError, one_line
from keras_bert.serving.server.saved_model import SavedModel

_LOG = logging.getLogger("keras_bert.serving")


@dataclasses.dataclass(eq=False)
class Version:
    """A loaded version. It stays usable while it is leased, even after another version has replaced it."""

    name: str
    number: int
    stamp: tuple
    model: SavedModel
    users: int = 0  # Changed only in the event loop's thread.


class Shelf:
    """The models of a folder. Call `poll` in a separate thread to update them: it blocks while models load."""

    def __init__(self, directory):
        self._directory = pathlib.Path(directory)
        if not self._directory.is_dir():
            raise ValueError(f"{directory}: the model folder does not exist")
        self._lock = threading.Lock()
        self._folders = {}  # Model -> {number: path}, as found by the last poll
        self._checkpoints = set()
        self._served = {}  # Model -> Version
        self._failures = {}  # (model, number) -> (stamp, message)
        self._loading = set()  # (model, number)
        self._retired = []  # Replaced versions, some still in use
        self._changing = {}  # (model, number) -> stamp of files that may still be changing
        self._missing = set()  # Models whose served version the last poll did not find
        self._scanned = self._polled = False

    @property
    def ready(self):
        """Whether the first poll has finished and a model is served."""
        return self._polled and bool(self._served)

    def models(self):
        """Returns the names of the models that have a version, including models that are not loaded."""
        with self._lock:
            return sorted({*self._with_versions(), *self._served})

    def _with_versions(self):
        return [name for name, versions in self._folders.items() if versions]

    @contextlib.contextmanager
    def lease(self, name, number=None):
        """Yields the `Version` for a request; it stays usable inside the `with` even if its files are removed."""
        with self._lock:
            version = self._served.get(name)
            if version is None:
                known = not self._scanned or self._folders.get(name)
                code = "UNAVAILABLE" if known else "NOT_FOUND"
                raise RequestError(code, f"model {name} is not served: {self._why_not(name)}")
            if number not in (None, version.number):
                message = f"version {number} of model {name} is not loaded. Expected one of: {version.number}"
                raise RequestError("NOT_FOUND", message)
            version.users += 1
        try:
            yield version
        finally:
            version.users -= 1

    def status(self, name, number=None):
        """Returns the `ModelVersionStatus` of each version, or only of version `number`, latest first."""
        with self._lock:
            errors = self._errors(name)
            states = dict.fromkeys(errors, "END")
            states |= {old.number: "UNLOADING" for old in self._retired if old.name == name}
            states |= {loading: "LOADING" for model, loading in self._loading if model == name}
            if name in self._served:
                states[self._served[name].number] = "AVAILABLE"
            if not states:
                raise RequestError("NOT_FOUND", f"model {name} has no status: {self._why_not(name)}")
        if number is not None and number not in states:
            known = ", ".join(map(str, sorted(states, reverse=True)))
            raise RequestError("NOT_FOUND", f"model {name} has no version {number}. Expected one of: {known}")
        found = []
        for version in sorted(states, reverse=True) if number is None else [number]:
            found.append(ModelVersionStatus(version=version, state=states[version]))
            found[-1].status.error_code = CODES.index("FAILED_PRECONDITION" if version in errors else "OK")
            found[-1].status.error_message = errors.get(version, "")
        return found

    def _errors(self, name):
        """Error messages by version number. A served version has one if its changed files failed to load."""
        return {number: message for (model, number), (_, message) in self._failures.items() if model == name}

    def _why_not(self, name):
        if errors := self._errors(name):
            return "version {}: {}".format(*list(errors.items())[-1])
        if self._folders.get(name) or not self._scanned:
            return "it is still loading"
        if name in self._folders:
            return f"its folder has no version. Expected {self._directory / name}/<number>/saved_model.pb"
        if name in self._checkpoints:
            return "it is a checkpoint; export it first"
        names = ", ".join(sorted(self._with_versions())) or "none, the folder has no model"
        return f"unknown model. Expected one of: {names}"

    def poll(self):
        """Scans the folder, loads new versions and unloads replaced versions that are no longer in use."""
        folders, checkpoints = _find_models(self._directory)
        with self._lock:
            self._folders, self._checkpoints, self._scanned = folders, checkpoints, True
            self._failures = {key: value for key, value in self._failures.items() if key[1] in folders.get(key[0], ())}
        for name in {**folders, **self._served}:
            self._update(name, folders.get(name, {}))
        self._unload()
        self._polled = True

    def _update(self, name, paths):
        """Serves the latest version that loads. Until one does, the current version stays."""
        served = self._served.get(name)
        missing = {name} if served and served.number not in paths else set()
        # A missing folder may be about to be replaced: keep the version for one more poll.
        kept = {served.number} if missing - self._missing else set()
        self._missing = self._missing - {name} | missing
        for number in sorted({*paths, *kept}, reverse=True):
            current = served if served and served.number == number else None
            version = self._load(name, number, paths[number], current) if number in paths else None
            if version:
                self._replace(name, version)
            if version or current:
                return
        if name not in self._folders:
            self._replace(name, None)

    def _load(self, name, number, path, current):
        """Returns a new `Version`, or `None` if the files are unchanged, still being written or fail to load."""
        key, stamp = (name, number), _fingerprint(path)
        if stamp in (current and current.stamp, self._failures.get(key, (None,))[0]):
            return None
        if self._polled and self._changing.get(key) != stamp:
            self._changing[key] = stamp
            return None
        self._changing.pop(key, None)
        with self._lock:
            self._loading.add(key)
        start, failure = time.monotonic(), None
        try:
            model = _load_model(path)
            _LOG.info("%s/%d loaded in %.1f s", one_line(name), number, time.monotonic() - start)
            return Version(name, number, stamp, model)
        except Exception as error:  # A broken file may raise anything.
            failure = stamp, one_line(error)
            _LOG.error("%s/%d failed to load: %s", one_line(name), number, one_line(error))
            return None
        finally:
            with self._lock:
                self._failures.pop(key, None)
                if failure:
                    self._loading.discard(key)
                    self._failures[key] = failure

    def _replace(self, name, version):
        with self._lock:
            old = self._served.pop(name, None)
            if old:
                self._retired.append(old)
            if version:
                self._loading.discard((name, version.number))
                self._served[name] = version

    def _unload(self):
        with self._lock:
            idle = [version for version in self._retired if version.users == 0]
            self._retired = [version for version in self._retired if version not in idle]
        for version in idle:
            version.model.close()
            _LOG.info("%s/%d unloaded", one_line(version.name), version.number)
        if idle:
            gc.collect()  # Graphs contain reference cycles.

    def close(self):
        """Unloads all versions that are not in use."""
        for name in list(self._served):
            self._replace(name, None)
        self._unload()


def _load_model(path):
    """Loads the `SavedModel` of a folder and warms it up, since the first run of a graph is slow."""
    model = SavedModel(path)
    try:
        _warm_up(model, path / WARMUP_REQUESTS)
    except BaseException:
        model.close()
        raise
    return model


def _warm_up(model, file):
    """Replays the predict requests of TensorFlow Serving's warmup file. A failing request is an error."""
    records = tf.data.TFRecordDataset(str(file)).as_numpy_iterator() if file.is_file() else ()
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
    """Returns `{model: {version number: path}}` and the names of checkpoint folders."""
    models, checkpoints = {}, set()
    for folder in sorted(directory.iterdir()):
        if folder.is_dir() and not folder.name.startswith("."):
            versions = {}
            with contextlib.suppress(OSError):  # One unreadable folder must not stop the others.
                versions = {int(path.name): path for path in folder.iterdir() if _is_version(path)}
            if not versions and (folder / "config.json").is_file():
                checkpoints.add(folder.name)
            else:
                models[folder.name] = versions
    return models, checkpoints


def _is_version(path):
    """Whether the name is a 64-bit integer, as in TensorFlow Serving."""
    return path.name.isascii() and path.name.isdigit() and int(path.name) < 2**63 and path.is_dir()


def _fingerprint(path):
    """Returns the names, sizes and modification times of all files of a folder."""
    found = []
    for file in sorted(path.rglob("*")):
        with contextlib.suppress(OSError):  # The file was removed meanwhile.
            stat = file.stat()
            found.append((str(file.relative_to(path)), stat.st_size, stat.st_mtime_ns))
    return tuple(found)

"""A folder of models: finds versions, loads the newest good one of each model, and replaces it without a gap.

    saved_models/<model>/<version number>/saved_model.pb

Folders that are checkpoints (`config.json`, no version) are no models. A version that does not load never replaces one
that did: its error stands in the status and is tried again once its files change.
"""

import contextlib
import dataclasses
import gc
import logging
import pathlib
import threading
import time

from keras_bert.serving.errors import RequestError, bad, one_line
from keras_bert.serving.server.folders import find_models, fingerprint
from keras_bert.serving.server.saved_model import SavedModel
from keras_bert.serving.server.warmup import warm_up

_LOG = logging.getLogger("keras_bert.serving")


@dataclasses.dataclass(eq=False)
class Version:
    """A loaded version. It stays usable while it is held, also after another has taken its place."""

    name: str
    number: int
    stamp: tuple
    model: SavedModel
    users: int = 0
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def hold(self):
        with self.lock:
            self.users += 1

    def release(self):
        with self.lock:
            self.users -= 1


@dataclasses.dataclass(frozen=True)
class Status:
    """What is said of a version: its state in TensorFlow Serving's words, and its error, if there is one."""

    version: int
    state: str
    code: str = "OK"
    message: str = ""


class Shelf:
    """The models of a folder.

    Args:
        directory: the folder.
        labels: `{model: {label: version}}`; labelled versions are loaded beside the newest.
        load: makes a model of a version's folder, ready for requests.

    `poll` brings it up to date; it takes as long as loading takes and belongs into a thread of its own.
    """

    def __init__(self, directory, labels=None, load=None):
        self._directory = pathlib.Path(directory)
        if not self._directory.is_dir():
            raise ValueError(f"{directory}: there is no such folder of models")
        self._labels = labels or {}
        self._load = load or load_version
        self._lock = threading.Lock()
        self._folders = {}  # Model -> {number: path}, as found by the last poll.
        self._checkpoints = set()
        self._loaded = {}  # Model -> {number: Version}
        self._served = {}  # Model -> number of the version that answers who names none
        self._failures = {}  # (model, number) -> (stamp, Status)
        self._loading = set()  # (model, number)
        self._retired = []  # Versions without a place, some still held.
        self._moving = {}  # (model, number) -> stamp of files that may still be in the making
        self._missing = set()  # (model, number) of loaded versions whose folder the last poll did not find
        self._polled = False

    @property
    def ready(self):
        """Whether everything that was there at the start has been looked at, and there is something to serve."""
        return self._polled and bool(self._served)

    def models(self):
        """Names of the models, loaded or not."""
        with self._lock:
            return sorted(set(self._folders) | set(self._loaded))

    @contextlib.contextmanager
    def lease(self, name, number=None, label=None):
        """The `Version` for a request, usable inside the `with`, whatever happens on the disk meanwhile."""
        with self._lock:
            version = self._find(name, number, label)
            version.hold()
        try:
            yield version
        finally:
            version.release()

    def status(self, name, number=None, label=None):
        """`Status`es of a model's versions, newest first; of one version with `number` or `label`."""
        with self._lock:
            if label is not None:
                number = self._number_of(name, label)
            found = self._statuses(name)
            if not found:
                raise RequestError("NOT_FOUND", f"model {name} has no status: {self._why_not(name)}")
        asked = [status for status in found if number in (None, status.version)]
        if not asked:
            known = ", ".join(str(status.version) for status in found)
            raise RequestError("NOT_FOUND", f"model {name} has no version {number}. Expected one of: {known}")
        return asked

    def _statuses(self, name):
        found = {status.version: status for (model, _), (_, status) in self._failures.items() if model == name}
        found |= {old.number: Status(old.number, "UNLOADING") for old in self._retired if old.name == name}
        found |= {number: Status(number, "LOADING") for model, number in self._loading if model == name}
        for number in self._loaded.get(name, ()):
            # Its files may have been replaced by such that do not load.
            _, failure = self._failures.get((name, number), (None, Status(number, "END")))
            found[number] = dataclasses.replace(failure, state="AVAILABLE")
        return [found[number] for number in sorted(found, reverse=True)]

    def _find(self, name, number, label):
        if label is not None:
            number = self._number_of(name, label)
        elif number is None:
            number = self._served.get(name)
        version = self._loaded.get(name, {}).get(number)
        if version is not None:
            return version
        if name in self._loaded and number is not None:
            loaded = ", ".join(map(str, sorted(self._loaded[name])))
            raise RequestError(
                "NOT_FOUND", f"version {number} of model {name} is not loaded. Expected one of: {loaded}"
            )
        known = not self._polled or self._folders.get(name)
        raise RequestError(
            "UNAVAILABLE" if known else "NOT_FOUND", f"model {name} is not served: {self._why_not(name)}"
        )

    def _number_of(self, name, label):
        labels = self._labels.get(name, {})
        if label not in labels:
            expected = f"Expected one of: {', '.join(labels)}" if labels else "It has none"
            raise bad(f"model {name} has no version label {label}. {expected}")
        return labels[label]

    def _why_not(self, name):
        errors = [status for (model, _), (_, status) in self._failures.items() if model == name]
        if errors:
            return f"version {errors[-1].version}: {errors[-1].message}"
        if self._folders.get(name) or not self._polled:
            return "it is still loading"
        if name in self._folders:
            return f"its folder has no version. Expected {self._directory / name}/<number>/saved_model.pb"
        if name in self._checkpoints:
            return "it is a checkpoint, to be exported first"
        return (
            f"there is no such model. Expected one of: {', '.join(sorted(self._folders)) or 'none, the shelf is empty'}"
        )

    def poll(self):
        """Looks at the folder: loads what is new, unloads what has been replaced and is no longer in use."""
        folders, checkpoints = find_models(self._directory)
        with self._lock:
            self._folders, self._checkpoints = folders, checkpoints
            self._failures = {key: value for key, value in self._failures.items() if key[1] in folders.get(key[0], ())}
            gone = [name for name in self._loaded if name not in folders and not self._only_now_missing(name, {})]
        for name, numbers in folders.items():
            self._update(name, numbers)
        for name in gone:
            self._serve(name, None, set())
        if self._unload():
            gc.collect()  # Graphs are full of circles.
        self._polled = True

    def _update(self, name, numbers):
        kept = self._only_now_missing(name, numbers)
        newest = next((number for number in sorted({*numbers, *kept}, reverse=True) if self._good(name, number)), None)
        if newest is None:
            return  # Nothing that loads: what is served stays.
        labelled = {number for number in self._labels.get(name, {}).values() if number in numbers}
        self._serve(name, newest, {newest} | {number for number in labelled if self._good(name, number)})

    def _only_now_missing(self, name, numbers):
        """Loaded versions whose folder has just gone: perhaps it is being replaced, so they have one more poll."""
        gone = {number for number in self._loaded.get(name, ()) if number not in numbers}
        new = {number for number in gone if (name, number) not in self._missing}
        self._missing = {key for key in self._missing if key[0] != name} | {(name, number) for number in gone}
        return new

    def _good(self, name, number):
        """Whether a version is loaded, after trying to load what is new or has changed."""
        path = self._folders[name].get(number)
        loaded = self._loaded.get(name, {}).get(number)
        if path is None:
            return loaded is not None
        stamp = fingerprint(path)
        failure = self._failures.get((name, number))
        if (loaded and loaded.stamp == stamp) or (failure and failure[0] == stamp):
            return loaded is not None
        if self._polled and self._moving.get((name, number)) != stamp:
            # Files that changed since the last look may still be on their way.
            self._moving[name, number] = stamp
            return loaded is not None
        self._moving.pop((name, number), None)
        return self._try(name, number, path, stamp) or loaded is not None

    def _try(self, name, number, path, stamp):
        with self._lock:
            self._loading.add((name, number))
        start = time.monotonic()
        try:
            model = self._load(path)
        except Exception as error:  # Whatever a broken file makes TensorFlow say.
            message = one_line(error)
            _LOG.error("%s/%d does not load: %s", name, number, message)
            with self._lock:
                self._failures[name, number] = stamp, Status(number, "END", "FAILED_PRECONDITION", message)
                self._loading.discard((name, number))
            return False
        with self._lock:
            versions = self._loaded.setdefault(name, {})
            if number in versions:
                self._retired.append(versions[number])
            versions[number] = Version(name, number, stamp, model)
            self._failures.pop((name, number), None)
            self._loading.discard((name, number))
        _LOG.info("%s/%d is loaded, after %.1f s", name, number, time.monotonic() - start)
        return True

    def _serve(self, name, number, wanted):
        """Switches to a version, and takes leave of those that nobody asks for any more."""
        with self._lock:
            if number is None:
                self._served.pop(name, None)
            else:
                self._served[name] = number
            versions = self._loaded.get(name, {})
            for old in [version for version in versions.values() if version.number not in wanted]:
                self._retired.append(versions.pop(old.number))
            if not versions:
                self._loaded.pop(name, None)

    def _unload(self):
        with self._lock:
            idle = [version for version in self._retired if version.users == 0]
            self._retired = [version for version in self._retired if version not in idle]
        for version in idle:
            version.model.close()
            _LOG.info("%s/%d is unloaded", version.name, version.number)
        return len(idle)

    def close(self):
        """Unloads everything that is not in use."""
        for name in list(self._loaded):
            self._serve(name, None, set())
        self._unload()


def load_version(path):
    """The `SavedModel` of a folder, warm."""
    model = SavedModel(path)
    try:
        warm_up(model, path)
    except BaseException:
        model.close()
        raise
    return model

"""Snapshots of variables on disk; the state of a run, restored from its newest snapshot, and its best weights."""

import contextlib
import hashlib
import json
import logging
import math
import pathlib
import re
import shutil

import keras
import tensorflow as tf

from keras_bert.files import as_numbers, difference, read_json, replacing, with_nulls, write_json
from keras_bert.progress import announced
from keras_bert.training.distribution import is_chief, sum_over_replicas
from keras_bert.training.loss_names import total
from keras_bert.training.schedule import FunctionSchedule

_LOG = logging.getLogger("keras_bert")
_NAME = re.compile(r"step-(\d{9})")


class Snapshots:
    """Snapshots of variables and of a JSON-serializable state: folders, written atomically, verified when read.

    The `keep` most recent ones are kept, all with `None`. All processes read, those with `write` write.
    """

    def __init__(self, directory, keep=2, write=True):
        self.directory, self.keep, self.write = pathlib.Path(directory), keep, write

    def folder(self, step):
        return self.directory / f"step-{step:09}"

    def save(self, step, variables, state):
        """Saves `{name: variable}` as a TensorFlow tensor bundle, with a checksum for each tensor, and the state."""
        if not self.write:
            return
        with replacing(self.folder(step)) as temporary:
            temporary.mkdir()
            values = [tf.convert_to_tensor(value) for value in variables.values()]
            tf.raw_ops.SaveV2(prefix=str(temporary / "variables"), **_whole(variables), tensors=values)
            write_json(temporary / "state.json", {"step": step, **state})
        if self.keep is not None:
            self.keep_only(*self.steps()[: self.keep])

    def keep_only(self, *steps):
        """Removes all snapshots except those of the given steps."""
        for old in set(self.steps()) - set(steps) if self.write else ():
            shutil.rmtree(self.folder(old))

    def newest(self):
        """Returns the state of the newest snapshot whose state is readable, or `None`."""
        for step in self.steps():
            with contextlib.suppress(OSError, ValueError):
                return read_json(self.folder(step) / "state.json")
        return None

    def restore(self, variables, check=lambda state: None, step=None):
        """Restores the variables from the newest undamaged snapshot, or that of `step`; returns its state or `None`.

        `check` is called with the state before anything is assigned, and may raise.
        """
        steps = self.steps() if step is None else [step]
        for step in steps:
            folder, dtypes = self.folder(step), [variable.dtype for variable in variables.values()]
            try:
                state = read_json(folder / "state.json")
                check(state)
                values = tf.raw_ops.RestoreV2(prefix=str(folder / "variables"), **_whole(variables), dtypes=dtypes)
            except (tf.errors.OpError, OSError, json.JSONDecodeError, UnicodeDecodeError, KeyError) as error:
                if step == steps[-1]:
                    raise ValueError(
                        f"{self.directory} has no readable snapshot. Remove it to start over. Received: {error}"
                    ) from None
                _LOG.warning("%s is damaged, using the previous snapshot (%s)", folder, str(error).split("\n")[0])
                continue
            for variable, value in zip(variables.values(), values, strict=True):
                variable.assign(value)
            return state
        return None

    def steps(self):
        """Returns the steps of the snapshots, the newest first."""
        matches = [_NAME.fullmatch(path.name) for path in self.directory.glob("step-*")]
        return sorted((int(match[1]) for match in matches if match), reverse=True)


def newest_step(directory):
    """Returns the step of the newest snapshot of a run, 0 without one: where the run resumes.

    Args:
        directory: path of the folder of the run, which has `snapshots/`.
    """
    newest = Snapshots(pathlib.Path(directory) / "snapshots", write=False).newest()
    return 0 if newest is None else newest["step"]


def _whole(variables):
    """Returns the names and slices of whole tensors, for TensorFlow's ops."""
    return {"tensor_names": list(variables), "shape_and_slices": [""] * len(variables)}


class RunState:
    """Stores the state for an exact resume in `snapshots/` of a run's directory, and its best weights in `best/`.

    With several workers, only the chief writes; without a directory, nothing is written. Frozen weights are in neither;
    their hash is one of the `settings`, see `run_settings`, which must match those of a snapshot. `variables` are what
    training changes besides the model's weights, by name.

    `metric` is that of the best weights, `"-name"` if lower is better, or `None`. NaN is worse than any number; of
    equal scores, the one with the lower loss is best. After `patience` evaluations without improvement the run stops.
    `extend` names settings that may change when a finished run continues with more steps, besides the number of steps,
    the batches and the learning rate schedule; `None` does not allow it. `losses` are the names of the losses.

    `done` tells whether to stop before the last step, `interrupted` whether the evaluation of the last finished step
    has to be repeated. `result` is that of `fit`, `log` the state of a `RunLog`.
    """

    def __init__(
        self, directory, strategy, model, variables, settings, *, metric=None, patience=None, extend=None, losses=()
    ):
        self._directory, self._strategy, self._settings, self._losses = directory, strategy, settings, losses
        self.metric, self._patience, self._extend = metric, patience, extend
        frozen = {id(weight) for weight in _frozen_weights(model)}
        self._weights = {
            f"model/{index}/{weight.path}": weight
            for index, weight in enumerate(model.weights)
            if id(weight) not in frozen
        }
        self._variables = {**self._weights, **variables}
        self.best, self.worse = None, 0  # `worse` counts the evaluations since the best one.
        self.done, self.interrupted, self.result, self.log = False, False, {}, None
        self._needed = []  # Steps of best weights that snapshots refer to.
        if directory is not None:
            write = is_chief(strategy)
            self._snapshots = Snapshots(directory / "snapshots", write=write)
            self._best_weights = Snapshots(directory / "best", keep=None, write=write)

    def restore(self):
        """Restores the newest snapshot, if there is one; returns its step or 0."""
        snapshot = self._directory and self._snapshots.restore(self._variables, self._check)
        step = snapshot["step"] if snapshot else 0
        if sum_over_replicas(self._strategy, step) != step * self._strategy.num_replicas_in_sync:
            raise ValueError(
                f"the workers found different snapshots, this one of step {step}. Expected a `directory` that all "
                f"workers share. Received: directory={str(self._directory)!r}"
            )
        if snapshot:
            self._take(snapshot["state"])
            self._needed = [self.best_step]
            if self.best is not None and self.best_step not in self._best_weights.steps():
                raise ValueError(
                    f"{self._best_weights.directory} has no weights of step {self.best_step}, the best step of the "
                    "run to resume. Restore them, or remove its snapshots to start over"
                )
        elif self._directory:
            self._best_weights.keep_only()  # A new run does not see the best weights of another.
        return step

    def _take(self, state):
        """Takes what `save` wrote."""
        self.best = state["best"]
        self.worse = state["worse"]
        self.done = state["done"]
        self.interrupted = state.get("interrupted", False)  # Snapshots had none once.
        self.result = as_numbers(state["result"])
        self.log = state["log"]

    def _check(self, snapshot):
        before, now = dict(snapshot["settings"]), dict(self._settings)
        if self._extend is not None and before["total_steps"] == snapshot["step"] < now["total_steps"]:
            for settings in (before, now):
                settings["optimizer"] = {**settings["optimizer"], "learning_rate": None}
                for name in ("total_steps", "batches", *self._extend):
                    settings.pop(name, None)
        if differs := difference(before, now):
            raise ValueError(
                f"{self._snapshots.directory} contains a run with different settings: {differs}. Expected the same "
                "settings to resume it, or another `directory` for a new run"
            )

    @property
    def best_step(self):
        """The step of the best weights; `None` without any."""
        return None if self.best is None else self.result["step"]

    def update(self, step, results, evaluated=True):
        """Records the results of a step, `evaluated` on held-out data or not; saves the best weights."""
        if not (evaluated and self.metric):
            self.result = results
            return
        name = self.metric.removeprefix("-")
        if name not in results:
            raise ValueError(
                f"`best` must be one of {', '.join(results)}, or '-' and a name. Received: best={self.metric!r}"
            )
        score = -results[name] if self.metric.startswith("-") else results[name]
        if math.isnan(score):
            _LOG.warning("`%s` is NaN at step %s, which counts as worse than any number", name, f"{step:,}")
        elif self._is_better(score, results):
            self.best, self.worse, self.result = score, 0, {**results, "step": step}
            with announced("saving", show=self._best_weights.write):
                self._best_weights.save(step, self._weights, {})
            self._best_weights.keep_only(step, *self._needed)
            return
        if self.best is None:
            self.result = {**results, "step": step}
        self.worse += 1
        self.done = self._patience is not None and self.worse >= self._patience

    def _is_better(self, score, results):
        """Returns whether the results of a step with a score are better than the best ones."""
        if self.best is None:
            return True
        return (score, -total(results, self._losses)) > (self.best, -total(self.result, self._losses))

    def save(self, step, log):
        """Saves a snapshot with the state of the log."""
        self.log = log
        state = {name: getattr(self, name) for name in ("best", "worse", "done", "interrupted", "result", "log")}
        with announced("saving", show=self._snapshots.write):
            self._snapshots.save(step, self._variables, {"state": with_nulls(state), "settings": self._settings})
        self._needed = [self.best_step, *self._needed[:1]]  # The two snapshots that are kept.
        self._best_weights.keep_only(*self._needed)

    def finish(self):
        """Restores the best weights, if any; otherwise the model keeps the weights of the last step."""
        if not self.metric:
            return
        sum_over_replicas(self._strategy, 0)  # Workers wait for each other: the first one writes, all read.
        if self.best is None:
            name = self.metric.removeprefix("-")
            _LOG.warning("`%s` was NaN at every evaluation: the model keeps the weights of the last step", name)
        else:
            self._best_weights.restore(self._weights, step=self.best_step)
            sum_over_replicas(self._strategy, 0)  # All have read: the caller may remove the directory.


def run_settings(settings, batches, total_steps, options, optimizer, model):
    """Returns the settings that must match those of a snapshot on resume: a dict as it looks after JSON."""
    frozen = _frozen_weights(model)
    size = {"steps": batches.steps, "examples": batches.num_examples, "tokens": batches.tokens, "seed": batches.seed}
    return {
        **settings,
        "total_steps": total_steps,
        "batches": size,
        **options,
        "optimizer": _optimizer_settings(optimizer),
        "weights": {weight.path: list(weight.shape) for weight in model.weights},
        **({"frozen_weights": _hash(frozen)} if frozen else {}),
    }


def _optimizer_settings(optimizer):
    """Returns the config of an optimizer; a function as schedule is known by its rates, not its name."""
    schedule = optimizer._learning_rate
    if not isinstance(schedule, FunctionSchedule):
        return _plain(optimizer.get_config())
    optimizer._learning_rate = None  # The function is left out: Keras cannot serialize each.
    try:
        return {**_plain(optimizer.get_config()), "learning_rate": schedule.rates()}
    finally:
        optimizer._learning_rate = schedule


def _frozen_weights(model):
    """Returns the weights that could be trained, but are frozen: the statistics of BatchNormalization are not."""
    trained = {id(weight) for weight in model.trainable_weights}
    layers = model._flatten_layers()
    return [weight for layer in layers for weight in layer._trainable_variables if id(weight) not in trained]


def _hash(weights):
    digest = hashlib.sha256()
    for weight in weights:
        digest.update(keras.ops.convert_to_numpy(weight.value).tobytes())
    return digest.hexdigest()[:16]


def _plain(config):
    """Returns a config as it looks after JSON, without names, which change from run to run."""
    if isinstance(config, dict):
        return {key: _plain(value) for key, value in config.items() if key != "name"}
    return [_plain(value) for value in config] if isinstance(config, list | tuple) else config

"""The state of a run, restored from its newest snapshot, its best weights, and the settings that must match."""

import dataclasses
import hashlib
import logging
import math
from collections.abc import Sequence

import keras

from keras_bert.files import as_numbers, difference, with_nulls
from keras_bert.progress import announced
from keras_bert.training.distribution import is_chief, sum_over_replicas
from keras_bert.training.loss_names import total
from keras_bert.training.schedule import FunctionSchedule
from keras_bert.training.snapshots import Snapshots

_LOG = logging.getLogger("keras_bert")


@dataclasses.dataclass(frozen=True)
class Selection:
    """How the best weights of a run are chosen, and when the run stops early.

    NaN is worse than any number; of equal scores, the one with the lower loss is best.

    Args:
        metric: str, that of the best weights, `"-name"` if lower is better. Defaults to `None`: no weights are chosen.
        patience: int, evaluations without improvement after which the run stops. Defaults to `None`, no limit.
        losses: names of the losses.
    """

    metric: str | None = None
    patience: int | None = None
    losses: Sequence[str] = ()

    @property
    def name(self):
        """The name of the metric."""
        return self.metric.removeprefix("-")

    def score(self, results):
        """Returns the score of an evaluation: higher is better."""
        if self.name not in results:
            raise ValueError(
                f"`best` must be one of {', '.join(results)}, or '-' and a name. Received: best={self.metric!r}"
            )
        value = results[self.name]
        return -value if self.metric.startswith("-") else value

    def is_better(self, score, results, best_score, best_results):
        """Returns whether results with a score, a number, are better than the best ones; a score of `None` is none."""
        if best_score is None:
            return True
        loss = total(results, self.losses)
        best_loss = total(best_results, self.losses)
        return (score, -loss) > (best_score, -best_loss)

    def is_exhausted(self, evaluations):
        """Whether the run stops after as many evaluations without improvement."""
        return self.patience is not None and evaluations >= self.patience


class RunState:
    """Stores the state for an exact resume in `snapshots/` of a run's directory, and its best weights in `best/`.

    With several workers, only the chief writes; without a directory, nothing is written. Frozen weights are in neither;
    their hash is one of the `settings`.

    Args:
        directory: path of the run's directory, or `None`.
        strategy: the `tf.distribute` strategy.
        model: a `keras.Model`.
        variables: dict of what training changes besides the model's weights, by name.
        settings: dict that must match that of a snapshot, see `run_settings`.
        selection: the `Selection` of the best weights, which need a directory. Defaults to none.
        extend: list of names of settings that may change when a finished run continues with more steps, besides the
            number of steps, the batches and the learning rate schedule. Defaults to `None`: a run does not continue.

    Attributes:
        settings: dict, the argument.
        done: bool, whether to stop before the last step.
        interrupted: bool, whether the evaluation of the last finished step has to be repeated.
        result: that of `fit`.
        log: the state of a `RunLog`.
    """

    def __init__(
        self,
        directory,
        strategy,
        model,
        variables,
        settings,
        selection=Selection(),
        extend=None,
    ):
        self._directory = directory
        self._strategy = strategy
        self.settings = settings
        self._selection = selection
        self._extend = extend
        self._weights = _unfrozen_weights(model)
        self._variables = self._weights | variables
        self._best_score = None
        self._worse_evaluations = 0  # Since the best one.
        self._needed = []  # Steps of best weights that snapshots refer to.
        self.done = False
        self.interrupted = False
        self.result = {}
        self.log = None
        self._snapshots = None
        self._best_weights = None
        if directory is not None:
            write = is_chief(strategy)
            self._snapshots = Snapshots(directory / "snapshots", write=write)
            self._best_weights = Snapshots(directory / "best", keep=None, write=write)

    @property
    def metric(self):
        """The metric of the best weights, see `Selection`."""
        return self._selection.metric

    def restore(self):
        """Restores the newest snapshot, if there is one; returns its step or 0."""
        snapshot = None
        if self._directory is not None:
            snapshot = self._snapshots.restore(self._variables, self._check_settings)
        step = snapshot["step"] if snapshot else 0
        self._check_workers(step)
        if snapshot:
            self._take(snapshot["state"])
        elif self._directory is not None:
            self._best_weights.keep_only()  # A new run does not see the best weights of another.
        return step

    def _check_settings(self, snapshot):
        """Raises an error if a snapshot is that of a run with other settings."""
        before = dict(snapshot["settings"])
        now = dict(self.settings)
        if self._extend is not None and before["total_steps"] == snapshot["step"] < now["total_steps"]:
            before = self._without_extended(before)
            now = self._without_extended(now)
        differs = difference(before, now)
        if differs:
            raise ValueError(
                f"{self._snapshots.directory} contains a run with different settings: {differs}. Expected the same "
                "settings to resume it, or another folder for a new run"
            )

    def _without_extended(self, settings):
        """Returns settings without those that an extension changes."""
        kept = {name: value for name, value in settings.items() if name not in self._extend}
        kept.pop("total_steps", None)
        kept.pop("batches", None)
        kept["optimizer"] = settings["optimizer"] | {"learning_rate": None}
        return kept

    def _check_workers(self, step):
        """Raises an error if the workers have restored different snapshots."""
        if sum_over_replicas(self._strategy, step) != step * self._strategy.num_replicas_in_sync:
            raise ValueError(
                f"the workers found different snapshots, this one of step {step}. Expected a folder that all "
                f"workers share. Received: directory={str(self._directory)!r}"
            )

    def _take(self, state):
        """Takes what `save` wrote, if the best weights that it refers to are there."""
        self._best_score = state["best"]
        self._worse_evaluations = state["worse"]
        self.done = state["done"]
        self.interrupted = state.get("interrupted", False)  # Snapshots had none once.
        self.result = as_numbers(state["result"])
        self.log = state["log"]
        self._needed = [self.best_step]
        if self.best_step is not None and self.best_step not in self._best_weights.steps():
            raise ValueError(
                f"{self._best_weights.directory} has no weights of step {self.best_step}, the best step of the "
                "run to resume. Restore them, or remove its snapshots to start over"
            )

    @property
    def best_step(self):
        """The step of the best weights; `None` without any."""
        return None if self._best_score is None else self.result["step"]

    def stop_early(self):
        """Ends the run after the present step."""
        self.done = True

    def note_evaluation(self, interrupted):
        """Records whether the last evaluation was interrupted, and so has to be repeated."""
        self.interrupted = interrupted

    def update(self, step, results, evaluated=True):
        """Records the results of a step, `evaluated` on held-out data or not; saves the best weights."""
        if not evaluated or not self.metric:
            self.result = results
            return
        score = self._selection.score(results)
        if math.isnan(score):
            name = self._selection.name
            _LOG.warning("`%s` is NaN at step %s, which counts as worse than any number", name, f"{step:,}")
            self._note_worse(step, results)
        elif self._selection.is_better(score, results, self._best_score, best_results=self.result):
            self._note_best(step, results, score)
        else:
            self._note_worse(step, results)

    def _note_best(self, step, results, score):
        self._best_score = score
        self._worse_evaluations = 0
        self.result = results | {"step": step}
        with announced("saving", show=self._best_weights.write):
            self._best_weights.save(step, self._weights, {})
        self._best_weights.keep_only(step, *self._needed)

    def _note_worse(self, step, results):
        if self._best_score is None:
            self.result = results | {"step": step}
        self._worse_evaluations += 1
        self.done = self._selection.is_exhausted(self._worse_evaluations)

    def save(self, step, log):
        """Saves a snapshot with the state of the log."""
        self.log = log
        state = {
            "best": self._best_score,
            "worse": self._worse_evaluations,
            "done": self.done,
            "interrupted": self.interrupted,
            "result": self.result,
            "log": self.log,
        }
        stored = {"state": with_nulls(state), "settings": self.settings}
        with announced("saving", show=self._snapshots.write):
            self._snapshots.save(step, self._variables, stored)
        self._needed = [self.best_step, *self._needed[:1]]  # The two snapshots that are kept.
        self._best_weights.keep_only(*self._needed)

    def finish(self):
        """Restores the best weights, if any; otherwise the model keeps the weights of the last step."""
        if not self.metric:
            return
        sum_over_replicas(self._strategy, 0)  # Workers wait for each other: the first one writes, all read.
        if self._best_score is None:
            name = self._selection.name
            _LOG.warning("`%s` was NaN at every evaluation: the model keeps the weights of the last step", name)
        else:
            self._best_weights.restore(self._weights, step=self.best_step)
            sum_over_replicas(self._strategy, 0)  # All have read: the caller may remove the directory.


def run_settings(settings, batches, total_steps, options, optimizer, model):
    """Returns the settings that must match those of a snapshot on resume: a dict as it looks after JSON."""
    frozen = _frozen_weights(model)
    run = dict(settings)
    run["total_steps"] = total_steps
    run["batches"] = {
        "steps": batches.steps,
        "examples": batches.num_examples,
        "tokens": batches.tokens,
        "seed": batches.seed,
    }
    run.update(options)
    run["optimizer"] = _optimizer_settings(optimizer)
    run["weights"] = {weight.path: list(weight.shape) for weight in model.weights}
    if frozen:
        run["frozen_weights"] = _weights_hash(frozen)
    return run


def _optimizer_settings(optimizer):
    """Returns the config of an optimizer; a function as schedule is known by its rates, not its name."""
    schedule = optimizer._learning_rate
    if not isinstance(schedule, FunctionSchedule):
        return _without_names(optimizer.get_config())
    settings = _without_names(optimizer.get_config_without_schedule())
    settings["learning_rate"] = schedule.rates()
    return settings


def _frozen_weights(model):
    """Returns the weights that could be trained, but are frozen: the statistics of BatchNormalization are not."""
    trained = {id(weight) for weight in model.trainable_weights}
    frozen = []
    for layer in model._flatten_layers():
        for weight in layer._trainable_variables:
            if id(weight) not in trained:
                frozen.append(weight)
    return frozen


def _unfrozen_weights(model):
    """Returns the weights that snapshots have, by their names there."""
    frozen = {id(weight) for weight in _frozen_weights(model)}
    weights = {}
    for index, weight in enumerate(model.weights):
        if id(weight) not in frozen:
            weights[f"model/{index}/{weight.path}"] = weight
    return weights


def _weights_hash(weights):
    digest = hashlib.sha256()
    for weight in weights:
        digest.update(keras.ops.convert_to_numpy(weight.value).tobytes())
    return digest.hexdigest()[:16]


def _without_names(config):
    """Returns a config as it looks after JSON, without names, which change from run to run."""
    if isinstance(config, dict):
        return {key: _without_names(value) for key, value in config.items() if key != "name"}
    if isinstance(config, list | tuple):
        return [_without_names(value) for value in config]
    return config

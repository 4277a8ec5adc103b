"""The state of a run: restored from its newest snapshot, saved with the next one."""

from keras_bert.training.best_weights import Best
from keras_bert.training.collectives import sum_over_replicas
from keras_bert.training.distribution import is_chief
from keras_bert.training.snapshots import Snapshots, difference


class RunState:
    """What a run needs to be resumed exactly: variables, results, best weights and the place in the logs.

    Args:
        directory: path of the run. `None` writes nothing.
        strategy: a `tf.distribute` strategy.
        model: the model.
        variables: dict of what training changes besides the weights of the model, by name.
        settings: dict that a snapshot must agree with.
        best: name of the metric whose best weights are kept, or `None`; see `Best`.
        patience: int or `None`, see `Best`.

    Attributes:
        done: bool, whether the run ends before its last step.
        result: dict, the numbers that `fit` returns.
        log: what `RunLog.state` gave for the snapshot, or `None`.
    """

    def __init__(self, directory, strategy, model, variables, settings, best=None, patience=None):
        self._strategy, self._settings = strategy, settings
        self._weights = {f"model/{index}/{weight.path}": weight.value for index, weight in enumerate(model.weights)}
        self._variables = {**self._weights, **variables}
        self._state = {"best": None, "worse": 0, "done": False, "result": {}, "log": None}
        self._directory, self._snapshots, self._best = directory, None, None
        if directory is not None:
            write = is_chief(strategy)
            self._snapshots = Snapshots(directory / "snapshots", write=write)
            self._best = Best(directory, best, patience, write=write)

    @property
    def done(self):
        return self._state["done"]

    @property
    def result(self):
        return self._state["result"]

    @property
    def log(self):
        return self._state["log"]

    def restore(self):
        """Restores the newest snapshot, if there is one; returns its step or 0."""
        found = self._snapshots and self._snapshots.restore(self._variables, self._check)
        step = found["step"] if found else 0
        if sum_over_replicas(self._strategy, step) != step * self._strategy.num_replicas_in_sync:
            raise ValueError(
                f"the workers found different snapshots, this one that of step {step}. Expected a `directory` that all "
                f"workers share. Received: directory={str(self._directory)!r}"
            )
        if found:
            self._state = found["state"]
        if self._best:
            self._best.start(self._state, resumed=step > 0)
        return step

    def _check(self, found):
        if differs := difference(found["settings"], self._settings):
            raise ValueError(
                f"{self._snapshots.directory} has a run of other settings: {differs}. Expected the same ones to resume "
                "it, or another `directory` for a new run"
            )

    def update(self, step, results, evaluated):
        """Takes the results of a step, `evaluated` on held-out data or not."""
        if evaluated and self._best and self._best.metric:
            self._best.update(step, results, self._state, self._weights)
        else:
            self._state["result"] = results

    def save(self, step, log):
        """Saves a snapshot with the state of the log."""
        self._state["log"] = log
        self._snapshots.save(step, self._variables, {"state": self._state, "settings": self._settings})
        self._best.keep_for_resume(self._state)

    def finish(self):
        """Restores the best weights, if they are kept."""
        if self._best and self._best.metric:
            sum_over_replicas(self._strategy, 0)  # The first worker writes, all read: they wait for each other.
            self._best.restore(self._state, self._weights)

"""The best weights of a run: which they are, where they stand, and when to wait for better ones no longer."""

import logging
import math
import pathlib

from keras_bert.training.snapshots import Snapshots

_LOG = logging.getLogger("keras_bert")


class Best:
    """The best weights of a run, in `best/` of its directory. NaN is worse than any number.

    The state that stands in the run's snapshots has four entries of it: `best`, the highest score, `None` before there
    is one; `worse`, how many evaluations were not better since; `done`; and `result`, what the best evaluation gave.

    Args:
        directory: that of the run.
        metric: the name of a score, `"-name"` where less is better. `None` for a run that keeps no best weights.
        patience: after how many evaluations without a better one the run is done; `None` for never.
        write: whether this process writes.
    """

    def __init__(self, directory, metric=None, patience=None, write=True):
        self.metric, self.patience = metric, patience
        self._snapshots = Snapshots(pathlib.Path(directory) / "best", keep=None, write=write)
        self._held = None

    def start(self, state, resumed):
        """Checks that the best weights of a resumed run are there; a new run removes those of an earlier one."""
        if not resumed:
            self._snapshots.keep_only()
        elif state["best"] is not None:
            self._held = state["result"]["step"]
            if not self._snapshots.has(self._held):
                raise ValueError(
                    f"{self._snapshots.directory} has no weights of step {self._held}, the best of the run that is "
                    "resumed. Expected them there, or remove its snapshots to begin anew"
                )

    def judge(self, step, results, state, weights):
        """Takes an evaluation into the state, and saves the weights if they are the best so far."""
        name = self.metric.removeprefix("-")
        if name not in results:
            raise ValueError(
                f"`best` must be one of {', '.join(results)}, or '-' and one. Received: best={self.metric!r}"
            )
        score = -results[name] if self.metric.startswith("-") else results[name]
        if math.isnan(score):
            _LOG.warning("`%s` is NaN at step %s, which counts as worse than any number", name, f"{step:,}")
        elif state["best"] is None or score > state["best"]:
            state.update(best=score, worse=0, result={**results, "step": step})
            self._snapshots.save(step, weights, {})
            self._snapshots.keep_only(step, self._held)
            return
        if state["best"] is None:
            state["result"] = {**results, "step": step}
        state["worse"] += 1
        state["done"] = self.patience is not None and state["worse"] >= self.patience

    def hold(self, state):
        """Keeps the weights that the newest snapshot of the run tells of, to be resumed with, and no others."""
        self._held = None if state["best"] is None else state["result"]["step"]
        self._snapshots.keep_only(self._held)

    def restore(self, state, weights):
        """Reads the best weights into the variables; without any they stay those of the last step."""
        if state["best"] is None:
            name = self.metric.removeprefix("-")
            _LOG.warning("`%s` was NaN at every evaluation: the model keeps the weights of the last step", name)
        else:
            self._snapshots.restore(weights, step=state["result"]["step"])

"""The best weights of a run, and early stopping."""

import logging
import math
import pathlib

from keras_bert.training.snapshots import Snapshots

_LOG = logging.getLogger("keras_bert")


class Best:
    """The best weights of a run, in `best/` of its directory. NaN is worse than any number.

    It updates four entries of the run's state: `best`, the highest score or `None`; `worse`, the number of evaluations
    since then; `done`, whether the run stops early; and `result`, the numbers of the best evaluation.

    Args:
        directory: path of the run.
        metric: name of a score, `"-name"` where less is better. `None` keeps no best weights.
        patience: int, the run is done after this many evaluations without a better one. `None` never stops early.
        write: bool, whether this process writes.
    """

    def __init__(self, directory, metric=None, patience=None, write=True):
        self.metric, self.patience = metric, patience
        self._snapshots = Snapshots(pathlib.Path(directory) / "best", keep=None, write=write)
        self._needed = None

    def start(self, state, resumed):
        """Checks that the best weights of a resumed run are there; a new run removes those of an earlier one."""
        if not resumed:
            self._snapshots.keep_only()
        elif state["best"] is not None:
            self._needed = state["result"]["step"]
            if not self._snapshots.has(self._needed):
                raise ValueError(
                    f"{self._snapshots.directory} has no weights of step {self._needed}, the best of the run that is "
                    "resumed. Expected them there, or remove its snapshots to begin anew"
                )

    def update(self, step, results, state, weights):
        """Updates the state by an evaluation, and saves the weights if they are the best so far."""
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
            self._snapshots.keep_only(step, self._needed)
            return
        if state["best"] is None:
            state["result"] = {**results, "step": step}
        state["worse"] += 1
        state["done"] = self.patience is not None and state["worse"] >= self.patience

    def keep_for_resume(self, state):
        """Keeps the best weights that the newest snapshot refers to, and no others."""
        self._needed = None if state["best"] is None else state["result"]["step"]
        self._snapshots.keep_only(self._needed)

    def restore(self, state, weights):
        """Reads the best weights into the variables; without any they stay those of the last step."""
        if state["best"] is None:
            name = self.metric.removeprefix("-")
            _LOG.warning("`%s` was NaN at every evaluation: the model keeps the weights of the last step", name)
        else:
            self._snapshots.restore(weights, step=state["result"]["step"])

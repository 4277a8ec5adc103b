"""One run of `Trainer.fit`: its plan, what follows each call of the training graph, and why it ends."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from keras_bert.data.batch_source import BatchSource
from keras_bert.training.interruption import InterruptedEvaluation
from keras_bert.training.step_loop import StepsDone


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """What a run trains on, and after which steps it evaluates and saves."""

    batches: BatchSource
    total_steps: int
    evaluation: BatchSource | None
    evaluate_every: int
    save_every: int  # 0 for no snapshots.
    is_saved: bool  # Whether there are snapshots, and a directory for them.
    after_save: Callable | None

    @property
    def call_limits(self):
        """Calls of the training graph end at each multiple of any of these numbers of steps."""
        return (self.save_every or self.total_steps, self.evaluate_every)

    def is_evaluated(self, step):
        """Whether the run is evaluated after a step; the last one always is."""
        if self.evaluation is None:
            return False
        return step % self.evaluate_every == 0 or step == self.total_steps

    def is_snapshot(self, step):
        """Whether a snapshot is due after a step, also if the run goes on."""
        return self.save_every > 0 and step % self.save_every == 0

    def ends_epoch(self, step):
        """Whether a step is the last one of an epoch."""
        return step % self.batches.steps == 0


class Ending(enum.Enum):
    """Why a run ends. After a signal it can be resumed; otherwise it is finished."""

    FINISHED_BEFORE = "an earlier call of `fit` has finished it"
    LAST_STEP = "all steps are done"
    STOPPED_EARLY = "the patience is exhausted, or a callback stops the run"
    SIGNAL = "Ctrl-C or SIGTERM, during training steps or an evaluation, which is then repeated"


class KeptOutputs(NamedTuple):
    """The outputs of an evaluation, whose weights are those of a step."""

    step: int
    batches: BatchSource
    outputs: Any


class TrainingRun:
    """Trains from a step to the end of the run.

    Args:
        plan: a `RunPlan`.
        state: the `RunState`, restored.
        log: the `RunLog`.
        step: int, the last finished step, 0 for a new run.
        evaluate: function of batches that returns the results and the outputs of an evaluation.

    Attributes:
        step: int, the last finished step.
    """

    def __init__(self, plan, state, log, step, evaluate):
        self.step = step
        self._plan = plan
        self._state = state
        self._log = log
        self._evaluate = evaluate
        self._kept = None
        if plan.evaluation is None:
            state.note_evaluation(interrupted=False)  # There is none to repeat.

    @property
    def is_finished(self):
        """Whether there is nothing left to do: an interrupted evaluation of the last step is to be repeated."""
        all_done = self.step == self._plan.total_steps and not self._state.interrupted
        return self._state.done or all_done

    def train(self, loop):
        """Trains with a `StepLoop`; returns the `Ending`. A run that ends in it has saved its state."""
        if self.is_finished:
            return Ending.FINISHED_BEFORE
        plan = self._plan
        ending = None
        if self._state.interrupted:  # The evaluation of the last finished step comes first.
            ending = self._follow(StepsDone(self.step, numbers=[], rates={}, is_signalled=False))
        if ending is not None:
            return ending
        for done in loop.run(plan.batches, self.step, plan.total_steps, plan.call_limits):
            ending = self._follow(done)
            if ending is not None:
                break
        return ending

    def _follow(self, done):
        """Logs, evaluates and saves after a call of the training graph; returns the `Ending`, `None` to go on."""
        self.step = done.step
        means = None
        if done.numbers:
            means = self._log.add(done.step, done.numbers, done.rates)
        is_signalled = done.is_signalled
        if self._plan.evaluation is None:
            self._state.update(done.step, means, evaluated=False)
        elif self._plan.is_evaluated(done.step):
            was_completed = self._evaluate_step()
            is_signalled = is_signalled or not was_completed
        if self._plan.ends_epoch(done.step) and not self._state.interrupted:
            self._log.epoch_ended(done.step)
        if self._log.stops:
            self._state.stop_early()
        if self._state.done:
            self._log.write(done.step, done.rates)
        ending = self._ending(is_signalled)
        if ending is not None or self._plan.is_snapshot(done.step):
            self._save()
        return ending

    def _ending(self, is_signalled):
        """Returns the `Ending` after the present step, or `None`. A signal comes first: whoever sent it is told."""
        if is_signalled:
            return Ending.SIGNAL
        if self._state.done:
            return Ending.STOPPED_EARLY
        if self.step == self._plan.total_steps:
            return Ending.LAST_STEP
        return None

    def _evaluate_step(self):
        """Evaluates after the present step; returns whether the evaluation was completed, not interrupted."""
        state = self._state
        try:
            results, outputs = self._evaluate(self._plan.evaluation)
        except InterruptedEvaluation:
            state.note_evaluation(interrupted=True)
            return False
        state.note_evaluation(interrupted=False)
        self._log.evaluated(self.step, results)
        state.update(self.step, results)
        if state.metric is None or state.best_step == self.step:
            self._kept = KeptOutputs(self.step, self._plan.evaluation, outputs)
        return True

    def _save(self):
        if not self._plan.is_saved:
            return
        self._state.save(self.step, self._log.state())
        if self._plan.after_save is not None:
            self._plan.after_save()

    def kept_outputs(self):
        """Returns the `KeptOutputs` of the weights that the finished run leaves in the model; `None` if it has none."""
        step_of_weights = self.step if self._state.metric is None else self._state.best_step
        if self._kept is None or self._kept.step != step_of_weights:
            return None
        return self._kept

"""What follows each call of the training graph, and why a run ends, without training."""

from types import SimpleNamespace

import keras

from keras_bert.training.interruption import InterruptedEvaluation
from keras_bert.training.run_log import RunLog
from keras_bert.training.run_state import RunState
from keras_bert.training.step_loop import StepsDone
from keras_bert.training.training_run import Ending, RunPlan, TrainingRun


def plan(**options):
    """A run of 7 steps in epochs of 3."""
    values = {
        "batches": SimpleNamespace(steps=3),
        "total_steps": 7,
        "evaluation": "dev",
        "evaluate_every": 2,
        "save_every": 3,
        "is_saved": True,
        "after_save": None,
    }
    return RunPlan(**values | options)


def test_a_plan_tells_what_follows_a_step():
    def steps(follows):
        return list(filter(follows, range(1, 8)))

    assert steps(plan().is_evaluated) == [2, 4, 6, 7]
    assert steps(plan(evaluation=None).is_evaluated) == []
    assert steps(plan().is_snapshot) == [3, 6]
    assert steps(plan(save_every=0).is_snapshot) == []
    assert steps(plan().ends_epoch) == [3, 6]
    assert plan().call_limits == (3, 2)
    assert plan(save_every=0).call_limits == (7, 2)


class Loop:
    """Has trained a step per call, to step 7; a signal comes at a step."""

    def __init__(self, signal=None):
        self._signal = signal

    def run(self, batches, step, total, every):
        numbers = [{"loss": 1.0, "learning_rate": 0.1}]
        for number in range(step + 1, total + 1):
            yield StepsDone(number, numbers, {}, is_signalled=number == self._signal)


class State(RunState):
    """Keeps the steps of its snapshots."""

    def __init__(self, was_interrupted):
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        super().__init__(None, None, model, {}, {})
        self.note_evaluation(was_interrupted)
        self.snapshots = []

    def save(self, step, log):
        self.snapshots.append(step)


class Log(RunLog):
    """Writes nothing; a callback stops the run at the end of an epoch."""

    def __init__(self, stops_at):
        super().__init__(None, total=7, every=1)
        self._stops_at = stops_at
        self._has_stopped = False

    def epoch_ended(self, step):
        self._has_stopped = step == self._stops_at

    @property
    def stops(self):
        return self._has_stopped


def run(step=0, stops_at=None, interrupted_at=None, was_interrupted=False):
    """Returns a run, and the steps of its evaluations and snapshots."""
    evaluations = []
    state = State(was_interrupted)

    def evaluate(batches):
        if training.step == interrupted_at:
            raise InterruptedEvaluation
        evaluations.append(training.step)
        return {"loss": 0.5}, f"outputs of step {training.step}"

    training = TrainingRun(plan(), state, Log(stops_at), step, evaluate)
    return training, {"evaluations": evaluations, "snapshots": state.snapshots}


def test_a_run_ends_with_its_last_step():
    training, done = run()
    assert training.train(Loop()) is Ending.LAST_STEP
    assert training.step == 7
    assert done == {"evaluations": [2, 4, 6, 7], "snapshots": [3, 6, 7]}
    assert training.kept_outputs().outputs == "outputs of step 7"


def test_a_callback_ends_a_run():
    training, done = run(stops_at=3)
    assert training.train(Loop()) is Ending.STOPPED_EARLY
    assert done == {"evaluations": [2], "snapshots": [3]}
    assert training.kept_outputs() is None  # Those of step 2 are not of the weights of step 3.


def test_a_signal_ends_a_run():
    training, done = run()
    assert training.train(Loop(signal=5)) is Ending.SIGNAL
    assert done == {"evaluations": [2, 4], "snapshots": [3, 5]}


def test_an_evaluation_that_a_signal_ends_is_repeated():
    """Also at the last step."""
    training, done = run(interrupted_at=7)
    assert training.train(Loop()) is Ending.SIGNAL
    assert done == {"evaluations": [2, 4, 6], "snapshots": [3, 6, 7]}
    training, done = run(step=7, was_interrupted=True)
    assert training.train(Loop()) is Ending.LAST_STEP
    assert done == {"evaluations": [7], "snapshots": [7]}


def test_a_finished_run_does_nothing():
    training, done = run(step=7)
    assert training.train(Loop()) is Ending.FINISHED_BEFORE
    assert done == {"evaluations": [], "snapshots": []}

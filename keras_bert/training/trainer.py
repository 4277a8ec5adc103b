"""The training loop for any number of replicas, with exact resume; several steps are one call of a graph."""

import contextlib
import itertools
import os
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert.data.batch_source import BatchSource, as_source
from keras_bert.data.packed_batches import PackedBatches
from keras_bert.memory import explain_out_of_memory, keep_freed_memory
from keras_bert.processor import warn_of_emulation
from keras_bert.progress import Progress, announced
from keras_bert.training.callbacks import TensorBoard, adapted
from keras_bert.training.distribution import is_chief, replica_dataset
from keras_bert.training.interruption import InterruptedEvaluation, Interruption, stopped
from keras_bert.training.losses import Loss, Score
from keras_bert.training.memory_estimate import check_memory
from keras_bert.training.program import Parts, Programs
from keras_bert.training.run_log import RunLog
from keras_bert.training.run_state import RunState, run_settings
from keras_bert.training.step import PENALTY, StepOptions

_CALL_S = 1.0  # Approximate limit of the duration of a call, so that progress is shown and Ctrl-C is noticed.


class Trainer:
    """Trains, evaluates and predicts on any `tf.distribute` strategy.

    Losses and weights do not depend on the number of replicas and micro-batches: losses are divided by the total weight
    of the global batch, gradients are summed once and clipped by their global norm.

    Regularizers, constraints and clipping are supported. `add_loss` and layers that update their weights in the forward
    pass, such as BatchNormalization, are supported on one replica without micro-batches. Anything that would depend on
    the number of either, or be ignored, raises an error before the first step.

    On Ctrl-C and SIGTERM, training stops after the current call, about a second, and saves its state. `fit` then raises
    `KeyboardInterrupt` or exits with status 143; a second Ctrl-C raises at once.

    From the first `Trainer` on, the process keeps its freed memory, see `keep_freed_memory`.

    Args:
        model_fn: function that builds the model.
        optimizer_fn: function that takes the model and returns an `AdamW` or a `LAMB`; see `create_optimizer`.
        loss: a `Loss` or a list of them; the sum is minimized.
        metrics: functions of `(targets, outputs)`, NumPy arrays of all rows in order, that return a dict; or `Loss`es,
            whose means are computed batch by batch; or `Score`s, which only use the model.
        directory: path of the snapshots, the best weights and `metrics.jsonl`. `None` writes nothing.
        strategy: see `create_strategy`. Defaults to one device.
        settings: dict of extra settings that must match on resume, such as flags. Defaults to `None`.
        callbacks: list of `Callback` and of Keras callbacks, see `KerasCallbacks`. Defaults to TensorBoard, if there is
            a directory.
        programs: `Programs` of several trainers, one after the other, of which each takes over the model and the
            optimizer of the last one, if its own differ in values alone. Defaults to `None`, its own.
        **step_options: `micro_batches`, `steps_per_call`, `jit_compile`, `seed` and `rewire`, see `StepOptions`.

    Attributes:
        trained_steps: int, the step at which the last `fit` ended, also if it stopped early.

    Example:
        trainer = Trainer(
            lambda: keras_bert.build_classifier(keras_bert.load(name).encoder, 2),
            lambda model: keras_bert.create_optimizer(model, 3e-5, total_steps=3 * batches.steps),
            classification_loss(),
            directory="runs/1",
        )
        trainer.fit(batches, epochs=3, evaluation=dev)
    """

    def __init__(
        self,
        model_fn: Callable[[], keras.Model],
        optimizer_fn: Callable[[keras.Model], keras.Optimizer],
        loss: Any,
        *,
        metrics: Any = (),
        directory: str | os.PathLike | None = None,
        strategy: tf.distribute.Strategy | None = None,
        settings: dict | None = None,
        callbacks: Sequence | None = None,
        programs: Programs | None = None,
        **step_options,
    ):
        keep_freed_memory()
        self.trained_steps = 0
        options = StepOptions(**step_options)
        self.strategy = strategy or tf.distribute.get_strategy()
        self.losses = list(loss) if isinstance(loss, list | tuple) else [loss]
        if not self.losses or not all(isinstance(term, Loss) for term in self.losses):
            raise ValueError(
                "`loss` must be a loss of keras_bert.losses, such as classification_loss(), or a list of them. "
                f"Received: loss={loss}"
            )
        if len(set(self.loss_names)) < len(self.losses):
            raise ValueError(f"`loss` must be losses of different names. Received: {', '.join(self.loss_names)}")
        metrics = [metrics] if callable(metrics) or isinstance(metrics, Score) else list(metrics)
        self.metrics = [metric for metric in metrics if not isinstance(metric, Loss | Score)]
        self._scores = [metric for metric in metrics if isinstance(metric, Score)]
        self.directory = None if directory is None else pathlib.Path(directory)
        self._chief = is_chief(self.strategy)
        means = [metric for metric in metrics if isinstance(metric, Loss)]
        with announced("building the model", show=self._chief), self.strategy.scope():
            model = model_fn()
            parts = Parts(model, optimizer_fn(model), self.losses, means, self.strategy, options)
            self._program = (programs or Programs()).program(parts)
        self.model, self.optimizer = self._program.model, self._program.optimizer
        self._settings = {"seed": options.seed, **(settings or {})}
        if callbacks is None:
            callbacks = [TensorBoard(self.directory / "tensorboard")] if self.directory else []
        self._interruption = Interruption()
        self._loop = StepLoop(self._program, options, self._interruption, self._chief)
        callbacks = adapted(callbacks, self.model, self.loss_names, self._loop.several_workers)
        self._callbacks = callbacks if self._chief else []
        self._kept = None

    @property
    def loss_names(self):
        """The names of the losses that are minimized, a list."""
        return [loss.name for loss in self.losses]

    def fit(
        self,
        batches,
        epochs=1,
        *,
        steps=None,
        evaluation=None,
        evaluate_every=None,
        best=None,
        patience=None,
        save_every=None,
        log_every=50,
        after_save=None,
        progress=None,
        extend=None,
    ):
        """Trains, resuming from the last snapshot in the directory if there is one.

        Args:
            batches: `Batches`, a `Stream`, a dataset of known length, or `Phases`.
            epochs: int, passes over the data. Defaults to 1.
            steps: int, number of training steps, overrides `epochs`.
            evaluation: batches to evaluate on, or a dataset of them.
            evaluate_every: int, steps between evaluations. Defaults to one epoch. The last step is always evaluated.
            best: str, metric whose best weights are kept in the directory and restored at the end; `"-name"` if lower
                is better. NaN is worse than any number; of equal scores, the one with the lower loss is better.
            patience: int, number of evaluations without improvement before stopping.
            save_every: int, steps between snapshots, 0 for none. Defaults to one epoch.
            log_every: int, steps between lines of `metrics.jsonl`, which also has the first and the last step.
                Defaults to 50.
            after_save: function that the chief worker calls after each snapshot.
            progress: a `Progress`. Defaults to that of a single run.
            extend: list of names of `settings`: a finished run in the directory continues if `steps` or `epochs` is
                larger now. Then these settings and the learning rate schedule may differ from those of the snapshot.

        Returns:
            A dict of the last evaluation's results, or the best one's with `best`; without evaluation, the last losses.
        """
        self._check_selection(best, patience, evaluation)
        batches = as_source(batches)
        evaluation = None if evaluation is None else as_source(evaluation, finite=True)
        total = epochs * batches.steps if steps is None else steps
        if total < 1:
            raise ValueError(f"`steps` and `epochs` must be at least 1. Received: steps={steps}, epochs={epochs}")
        batches.segment(total - 1)  # Raises for `Phases` that are too short.
        save_every = batches.steps if save_every is None else save_every
        evaluate_every = evaluate_every or batches.steps
        compared = {"best": best, "patience": patience, "evaluate_every": evaluate_every}
        settings = run_settings(self._settings, batches, total, compared, self.optimizer, self.model)
        state = RunState(
            self.directory,
            self.strategy,
            self.model,
            self._variables(),
            settings,
            metric=best,
            patience=patience,
            extend=extend,
            losses=self.loss_names,
        )
        step = state.restore()
        self._kept = None
        finished = state.done or (step == total and not state.interrupted)
        progress, signalled = (progress or Progress()) if self._chief else None, False
        log = RunLog(self.directory if self._chief else None, total, log_every, state.log, progress, self._callbacks)
        with self._interruption.handled(), contextlib.closing(log):
            log.begin(step, settings, finished, per_epoch=batches.steps if steps is None else None)
            calls = self._loop.run(batches, step, total, (save_every or total, evaluate_every))
            if state.interrupted:  # The evaluation of the last finished step comes first: it was interrupted.
                calls = itertools.chain([(step, [], {}, False)], calls)
            for step, numbers, rates, signalled in () if finished else calls:
                means = log.add(step, numbers, rates) if numbers else None
                if evaluation is None:
                    state.update(step, means, evaluated=False)
                elif step % evaluate_every == 0 or step == total:
                    signalled = self._evaluate_step(step, evaluation, state, log) or signalled
                if step % batches.steps == 0 and not state.interrupted:
                    log.epoch_ended(step)
                state.done |= log.stops
                # A run stops for one of four reasons. After its last step or by early stopping, it is finished. After a
                # signal in a training step or in the evaluation, which is then repeated, it can be resumed. State is
                # saved in all cases.
                finished = step == total or state.done
                if state.done:
                    log.write(step, rates)
                if self.directory and save_every and (step % save_every == 0 or finished or signalled):
                    state.save(step, log.state())
                    if after_save and self._chief:
                        after_save()
                if finished or signalled:
                    break
            if signalled or self._interruption.requested:  # The latter during the last save.
                message = stopped(step, total, self.directory if save_every else None) if self._chief else ""
                self._interruption.stop(message, log.say)
            state.finish()
            log.finish(state.result)
        self.trained_steps = step
        if self._kept is not None and self._kept.step != (step if best is None else state.best_step):
            self._kept = None
        return state.result

    def _check_selection(self, best, patience, evaluation):
        if best and (self.directory is None or evaluation is None):
            raise ValueError(
                f"`best` needs `evaluation`, and a `directory` to keep the weights. Received: best={best!r}"
            )
        if patience is not None and not best:
            raise ValueError(f"`patience` needs `best`, the metric to monitor. Received: patience={patience}")
        if isinstance(evaluation, PackedBatches):
            raise ValueError("`evaluation` must have single texts, such as `Batches`. Received: PackedBatches")

    def _variables(self):
        """Returns the variables that training changes besides the weights, by name."""
        parts = {
            "optimizer": [part.value for part in self.optimizer.variables],
            "scale": self._program.step.scale.variables,
        }
        return {f"{name}/{index}": part for name in parts for index, part in enumerate(parts[name])}

    def _evaluate_step(self, step, evaluation, state, log):
        """Evaluates during `fit`; returns whether the evaluation was interrupted."""
        try:
            results, outputs = self.evaluate_with_outputs(evaluation)
        except InterruptedEvaluation:
            state.interrupted = True
            return True
        state.interrupted = False
        log.evaluated(step, results)
        state.update(step, results)
        if state.metric is None or state.best_step == step:
            self._kept = KeptOutputs(step, evaluation, outputs)
        return False

    def _check_interruption(self):
        # Several workers would wait for each other: they finish the evaluation.
        if self._interruption.requested and not self._loop.several_workers:
            raise InterruptedEvaluation

    def evaluate(self, batches):
        """Returns the losses and the metrics over all rows, a dict of floats."""
        return self.evaluate_with_outputs(batches)[0]

    def evaluate_with_outputs(self, batches):
        """Returns the results of `evaluate`, and the outputs of `predict`, which are `None` without metrics."""
        batches = as_source(batches, finite=True)
        with explaining_out_of_memory(batches):
            outputs, targets, results = self._program.evaluator.outputs(
                batches, keep=bool(self.metrics), with_losses=True, check=self._check_interruption
            )
        for metric in self.metrics:
            results.update(metric(targets, outputs))
        for score in self._scores:
            results.update(score.compute())
        return {name: float(value) for name, value in results.items()}, outputs

    def predict(self, batches):
        """Returns the outputs of the model for all rows in order, a dict of NumPy arrays.

        Args:
            batches: `Batches`, a `Stream` or a dataset of batches; only inputs are needed. If they differ in length,
                shorter rows are padded with zeros.
        """
        batches = as_source(batches, finite=True)
        with explaining_out_of_memory(batches):
            return self._program.evaluator.outputs(batches, check=self._check_interruption).outputs

    def fitted_outputs(self, batches):
        """Returns the outputs of `predict`, without computing those that an evaluation of `fit` has computed.

        The weights must be those that `fit` has left in the model, and `batches` the `evaluation` of `fit`, which keeps
        the outputs of the best evaluation, or of the last one without `best`; others are computed.
        """
        if self._kept is not None and self._kept.batches is batches and self._kept.outputs is not None:
            return self._kept.outputs
        return self.predict(batches)


class KeptOutputs(NamedTuple):
    """The outputs of an evaluation, whose weights are those of a step."""

    step: int
    batches: BatchSource
    outputs: Any


class StepLoop:
    """Trains with a `Program`, several steps per call of its graph; `show` announces its tracing."""

    def __init__(self, program, options, interruption, show):
        self._program, self._strategy, self._losses = program, program.strategy, program.losses
        self._options, self._interruption, self._show = options, interruption, show
        self.several_workers = isinstance(self._strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self._seconds = None

    def run(self, batches, step, total, every):
        """Trains from `step` to `total`; calls of the graph end at each multiple of any of `every`.

        Yields the steps done; a dict of numbers for each step of the call; examples, tokens and steps per second, empty
        if the call was traced; whether a worker received a signal to stop.
        """
        warn_of_emulation(self._program.model._flatten_layers())
        for source in batches.sources:
            check_memory(self._program.step, source, self._options.micro_batches, self._strategy)
        segment, left = None, 0
        while step < total:
            if not left:
                # A resumed run starts here in mid-epoch: the segment is the rest of the epoch from `step` on.
                before, segment = segment, batches.segment(step)
                if before and before.source is not segment.source:
                    self._seconds = None  # It is traced with the static shapes of the new source.
                dataset = replica_dataset(self._strategy, segment.make_dataset, self._program.divide)
                iterator, left = iter(dataset), segment.steps
            count = min(self._steps_of_call(), left, total - step, *(steps - step % steps for steps in every))
            traced, began = self._seconds is None, time.monotonic()
            with (
                explaining_out_of_memory(segment.source),
                announced("tracing the training step", show=traced and self._show),
            ):
                numbers, stop = self._call(iterator, step, count)
            seconds = time.monotonic() - began
            step, left, self._seconds = step + count, left - count, seconds / count
            yield step, numbers, {} if traced else rates(segment.source, count, seconds), stop

    def _steps_of_call(self):
        """Returns the number of steps of the next call: one to trace, later those of about a second."""
        if self._seconds is None:
            return 1
        if self.several_workers:  # They need the same number.
            return self._options.steps_per_call
        return max(1, min(self._options.steps_per_call, int(_CALL_S / max(self._seconds, 1e-9))))

    def _call(self, iterator, step, count):
        """Trains `count` steps; returns the numbers of each, a list of dicts, and whether a worker is to stop."""
        stopping = tf.constant(float(self._interruption.requested))
        rows = self._program.train(iterator, step, count, stopping)
        numbers = [dict(zip(self._program.step.names, row, strict=True)) for row in rows.astype(float).tolist()]
        for index, line in enumerate(numbers):
            self._check_finite(step + index, line)
        stop = any([line.pop("stop") for line in numbers])
        return numbers, stop or (self._interruption.requested and not self.several_workers)

    def _check_finite(self, step, line):
        names = [*(loss.name for loss in self._losses), PENALTY]
        losses = {name: line[name] for name in names if name in line}
        if not np.isfinite(list(losses.values())).all():
            raise FloatingPointError(
                f"the loss is not finite at step {step}: {losses}. Usual causes: a learning rate that is too high, a "
                "warm-up that is too short, labels outside the classes. Snapshots on disk are from earlier steps"
            )


def explaining_out_of_memory(batches):
    """Returns a context manager whose out-of-memory errors name the size of the batches."""
    return explain_out_of_memory(batch_size=batches.batch_size, length=batches.sequence_length)


def rates(batches, steps, seconds):
    """Returns examples, tokens and steps per second, as far as the batches know them."""
    amounts = {"examples": batches.num_examples, "tokens": batches.tokens}
    done = {name: amount / batches.steps * steps for name, amount in amounts.items() if amount}
    return {name: amount / max(seconds, 1e-9) for name, amount in {**done, "steps": steps}.items()}

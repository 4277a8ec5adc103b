"""The training loop for any number of replicas, with exact resume; several steps are one call of a graph."""

import contextlib
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert.data.batch_source import as_source
from keras_bert.data.packed_batches import PackedBatches
from keras_bert.memory import keep_freed_memory
from keras_bert.progress import Progress, announced
from keras_bert.training.callbacks import TensorBoard, adapted
from keras_bert.training.distribution import is_chief
from keras_bert.training.interruption import InterruptedEvaluation, Interruption, stopped
from keras_bert.training.losses import Loss, Score
from keras_bert.training.program import ProgramParts, Programs
from keras_bert.training.run_log import RunLog
from keras_bert.training.run_state import RunState, Selection, run_settings
from keras_bert.training.step import StepOptions
from keras_bert.training.step_loop import StepLoop, explaining_out_of_memory
from keras_bert.training.training_run import Ending, RunPlan, TrainingRun


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
        **step_options: `micro_batches`, `steps_per_call`, `jit_compile`, `seed`, `rewire` and `programs`, see
            `StepOptions`.

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
        **step_options,
    ):
        keep_freed_memory()
        options = StepOptions(**step_options)
        all_metrics = Metrics.of(metrics)
        self.trained_steps = 0
        self.strategy = strategy or tf.distribute.get_strategy()
        self.losses = _checked_losses(loss)
        self.metrics = all_metrics.functions
        self.directory = None if directory is None else pathlib.Path(directory)
        self._scores = all_metrics.scores
        self._chief = is_chief(self.strategy)
        self._settings = {"seed": options.seed}
        self._settings.update(settings or {})
        with announced("building the model", show=self._chief), self.strategy.scope():
            model = model_fn()
            parts = ProgramParts(
                model=model,
                optimizer=optimizer_fn(model),
                losses=self.losses,
                means=all_metrics.means,
                strategy=self.strategy,
                options=options,
            )
            programs = options.programs or Programs()
            self._program = programs.program(parts)  # May be that of an earlier trainer, see `StepOptions`.
        self.model = self._program.model
        self.optimizer = self._program.optimizer
        self._interruption = Interruption()
        self._loop = StepLoop(self._program, options, self._interruption, show=self._chief)
        self._callbacks = self._own_callbacks(callbacks)
        self._kept = None  # The outputs of an evaluation by `fit`, see `fitted_outputs`.

    def _own_callbacks(self, callbacks):
        """Returns the callbacks that this worker calls."""
        if callbacks is None:
            callbacks = []
            if self.directory:
                callbacks.append(TensorBoard(self.directory / "tensorboard"))
        checked = adapted(callbacks, self.model, self.loss_names, self._loop.several_workers)
        return checked if self._chief else []

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
        plan = self._plan(
            batches,
            epochs,
            steps,
            evaluation=evaluation,
            evaluate_every=evaluate_every,
            save_every=save_every,
            after_save=after_save,
        )
        selection = Selection(best, patience, losses=self.loss_names)
        state = self._state(plan, selection, extend)
        step = state.restore()
        self._kept = None
        log = self._log(plan, state, log_every, progress)
        run = TrainingRun(plan, state, log, step, evaluate=self.evaluate_with_outputs)
        steps_per_epoch = plan.batches.steps if steps is None else None  # Progress counts epochs, or steps alone.
        with self._interruption.handled(), contextlib.closing(log):
            log.begin(step, state.settings, run.is_finished, per_epoch=steps_per_epoch)
            ending = run.train(self._loop)
            # A signal may also have come during the last save.
            if ending is Ending.SIGNAL or self._interruption.requested:
                self._interruption.stop(self._stopped_message(run.step, plan), log.say)
            state.finish()
            log.finish(state.result)
        self.trained_steps = run.step
        self._kept = run.kept_outputs()
        return state.result

    def _check_selection(self, best, patience, evaluation):
        """Raises an error unless `fit` can choose the best weights, if it is to, and evaluate."""
        if best and (self.directory is None or evaluation is None):
            raise ValueError(
                f"`best` needs `evaluation`, and a `directory` to keep the weights. Received: best={best!r}"
            )
        if patience is not None and not best:
            raise ValueError(f"`patience` needs `best`, the metric to monitor. Received: patience={patience}")
        if isinstance(evaluation, PackedBatches):
            raise ValueError("`evaluation` must have single texts, such as `Batches`. Received: PackedBatches")

    def _plan(self, batches, epochs, steps, evaluation, evaluate_every, save_every, after_save):
        """Returns the `RunPlan` of the arguments of `fit`, with their defaults."""
        batches = as_source(batches)
        if evaluation is not None:
            evaluation = as_source(evaluation, finite=True)
        total = epochs * batches.steps if steps is None else steps
        if total < 1:
            raise ValueError(f"`steps` and `epochs` must be at least 1. Received: steps={steps}, epochs={epochs}")
        batches.segment(total - 1)  # Raises for `Phases` that are too short.
        if save_every is None:
            save_every = batches.steps
        return RunPlan(
            batches=batches,
            total_steps=total,
            evaluation=evaluation,
            evaluate_every=evaluate_every or batches.steps,
            save_every=save_every,
            is_saved=self.directory is not None and save_every > 0,
            after_save=after_save if self._chief else None,
        )

    def _state(self, plan, selection, extend):
        """Returns the `RunState` of a run, not restored yet."""
        compared = {
            "best": selection.metric,
            "patience": selection.patience,
            "evaluate_every": plan.evaluate_every,
        }
        settings = run_settings(
            self._settings,
            plan.batches,
            plan.total_steps,
            options=compared,
            optimizer=self.optimizer,
            model=self.model,
        )
        return RunState(
            self.directory,
            self.strategy,
            self.model,
            self._variables(),
            settings,
            selection=selection,
            extend=extend,
        )

    def _log(self, plan, state, log_every, progress):
        """Returns the `RunLog` of a run, which shows and writes nothing unless this worker is the chief."""
        directory = None
        shown = None
        if self._chief:
            directory = self.directory
            shown = progress or Progress()
        return RunLog(
            directory,
            plan.total_steps,
            log_every,
            state=state.log,
            progress=shown,
            callbacks=self._callbacks,
        )

    def _variables(self):
        """Returns the variables that training changes besides the weights, by name."""
        variables = {}
        for index, variable in enumerate(self.optimizer.variables):
            variables[f"optimizer/{index}"] = variable.value
        for index, variable in enumerate(self._program.step.scale.variables):
            variables[f"scale/{index}"] = variable
        return variables

    def _stopped_message(self, step, plan):
        """Returns what the chief says about a run that a signal has stopped; nothing by other workers."""
        if not self._chief:
            return ""
        directory = self.directory if plan.save_every else None
        return stopped(step, plan.total_steps, directory)

    def _check_interruption(self):
        # Several workers would wait for each other: they finish the evaluation.
        if self._interruption.requested and not self._loop.several_workers:
            raise InterruptedEvaluation

    def evaluate(self, batches):
        """Returns the losses and the metrics over all rows, a dict of floats."""
        results, _ = self.evaluate_with_outputs(batches)
        return results

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
        kept = self._kept
        if kept is not None and kept.batches is batches and kept.outputs is not None:
            return kept.outputs
        return self.predict(batches)


class Metrics(NamedTuple):
    """The metrics of a `Trainer` by the way they are computed."""

    functions: list  # Of the targets and outputs of all rows.
    means: list  # `Loss`es, batch by batch.
    scores: list  # `Score`s, which only use the model.

    @classmethod
    def of(cls, metrics):
        """Returns those of the argument of `Trainer`: one metric or several."""
        if callable(metrics) or isinstance(metrics, Score):
            metrics = [metrics]
        sorted_metrics = cls([], [], [])
        for metric in metrics:
            if isinstance(metric, Loss):
                sorted_metrics.means.append(metric)
            elif isinstance(metric, Score):
                sorted_metrics.scores.append(metric)
            else:
                sorted_metrics.functions.append(metric)
        return sorted_metrics


def _checked_losses(loss):
    """Returns the losses of the argument of `Trainer`, a list of at least one, with different names."""
    losses = list(loss) if isinstance(loss, list | tuple) else [loss]
    if not losses or not all(isinstance(term, Loss) for term in losses):
        raise ValueError(
            "`loss` must be a loss of keras_bert.losses, such as classification_loss(), or a list of them. "
            f"Received: loss={loss}"
        )
    names = [term.name for term in losses]
    if len(set(names)) < len(losses):
        raise ValueError(f"`loss` must be losses of different names. Received: {', '.join(names)}")
    return losses

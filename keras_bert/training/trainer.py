"""The training loop for any number of replicas, with exact resume."""

import contextlib
import pathlib
import signal
import threading
import time

import numpy as np
import tensorflow as tf

from keras_bert.memory import explain_out_of_memory
from keras_bert.training.distribution import is_chief
from keras_bert.training.evaluation import Evaluator
from keras_bert.training.input_pipeline import as_source, replica_dataset
from keras_bert.training.losses import Loss
from keras_bert.training.run_log import RunLog
from keras_bert.training.run_state import RunState
from keras_bert.training.step import PENALTY, TrainStep

TERMINATED = 143  # Exit status after SIGTERM, once the state is saved: 128 + 15.


class Trainer:
    """Trains, evaluates and predicts on any `tf.distribute` strategy.

    Losses and weights do not depend on the number of replicas and micro-batches: losses are divided by the total weight
    of the global batch, gradients are summed once and clipped by their global norm.

    Regularizers, constraints and clipping are supported. `add_loss` and layers that update their weights in the forward
    pass, such as BatchNormalization, are supported on one replica without micro-batches. Anything that would depend on
    the number of either, or be ignored, raises an error before the first step.

    Args:
        model_fn: function that builds the model.
        optimizer_fn: function that takes the model and returns an `AdamW` or a `LAMB`; see `create_optimizer`.
        loss: a `Loss` or a list of them; the sum is minimized.
        metrics: functions of `(targets, outputs)`, NumPy arrays of all rows in order, that return a dict; or `Loss`es,
            whose means are computed batch by batch.
        directory: path of the snapshots, the best weights and `metrics.jsonl`. `None` writes nothing.
        strategy: see `create_strategy`. Defaults to one device.
        micro_batches: int, number of parts in which a replica processes its rows sequentially. Defaults to 1.
        steps_per_call: int, steps per call of the training graph. Defaults to 10.
        jit_compile: bool, whether XLA compiles the forward and backward pass. Not needed on TPU. Defaults to `False`.
        seed: int, dropout seed. Defaults to 0.
        settings: dict of extra settings that must match on resume, such as flags. Defaults to `None`.

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
        model_fn,
        optimizer_fn,
        loss,
        metrics=(),
        directory=None,
        strategy=None,
        micro_batches=1,
        steps_per_call=10,
        jit_compile=False,
        seed=0,
        settings=None,
    ):
        self.strategy = strategy or tf.distribute.get_strategy()
        self.losses = [loss] if isinstance(loss, Loss) else list(loss)
        metrics = [metrics] if callable(metrics) or isinstance(metrics, Loss) else list(metrics)
        self.metrics = [metric for metric in metrics if not isinstance(metric, Loss)]
        self.directory = None if directory is None else pathlib.Path(directory)
        self.micro_batches, self.steps_per_call = micro_batches, steps_per_call
        with self.strategy.scope():
            self.model = model_fn()
            self.optimizer = optimizer_fn(self.model)
            self.optimizer.build(self.model.trainable_variables)
            self._step = TrainStep(self.model, self.optimizer, self.losses, micro_batches, seed, jit_compile)
        self._settings = {"seed": seed, **(settings or {})}
        self._chief = is_chief(self.strategy)
        self._terminating = False
        self._train = self._new_graph()
        means = [metric for metric in metrics if isinstance(metric, Loss)]
        self._evaluator = Evaluator(self.model, self.strategy, [*self.losses, *means])

    def fit(
        self,
        batches,
        epochs=1,
        steps=None,
        evaluation=None,
        evaluate_every=None,
        best=None,
        patience=None,
        save_every=None,
        log_every=50,
        after_save=None,
    ):
        """Trains, resuming from the last snapshot in the directory if there is one.

        Args:
            batches: `Batches`, a `Stream`, a dataset of known length, or `Phases`.
            epochs: int, passes over the data. Defaults to 1.
            steps: int, number of training steps, overrides `epochs`.
            evaluation: batches to evaluate on, or a dataset of them.
            evaluate_every: int, steps between evaluations. Defaults to one epoch. The last step is always evaluated.
            best: str, metric whose best weights are kept in the directory and restored at the end; `"-name"` if lower
                is better. NaN is worse than any number.
            patience: int, number of evaluations without improvement before stopping.
            save_every: int, steps between snapshots. Defaults to one epoch.
            log_every: int, steps between lines of `metrics.jsonl`. Defaults to 50.
            after_save: function that the chief worker calls after each snapshot.

        Returns:
            A dict of the last evaluation's results, or the best one's with `best`; without evaluation, the last losses.
        """
        if best and (self.directory is None or evaluation is None):
            raise ValueError(
                f"`best` needs `evaluation`, and a `directory` to keep the weights. Received: best={best!r}"
            )
        if patience is not None and not best:
            raise ValueError(f"`patience` needs `best`, the metric to monitor. Received: patience={patience}")
        batches = as_source(batches)
        epoch = batches.steps
        evaluate_every, save_every = evaluate_every or epoch, save_every or epoch
        total = epochs * epoch if steps is None else steps
        if total < 1:
            raise ValueError(f"`steps` and `epochs` must be at least 1. Received: steps={steps}, epochs={epochs}")
        batches.segment(total - 1)  # Raises for `Phases` that are too short.
        settings = self._all_settings(
            batches, total_steps=total, best=best, patience=patience, evaluate_every=evaluate_every
        )
        optimizer = {f"optimizer/{index}": part.value for index, part in enumerate(self.optimizer.variables)}
        scale = {f"scale/{index}": variable for index, variable in enumerate(self._step.variables)}
        state = RunState(
            self.directory,
            self.strategy,
            self.model,
            {**optimizer, **scale},
            settings,
            metric=best,
            patience=patience,
            write=self._chief,
        )
        start = state.restore()
        log = RunLog(self.directory if self._chief else None, total, log_every, state.log, self._chief)
        every = log_every, save_every, evaluate_every
        with self._handling_sigterm(), contextlib.closing(log):
            for step, numbers, rates, stop in self._calls(batches, start, total, every, state):
                means = log.add(step, numbers, rates)
                if evaluation is None:
                    state.update(step, means, evaluated=False)
                elif step % evaluate_every == 0 or step == total:
                    results = self.evaluate(evaluation)
                    log.evaluated(step, results)
                    state.update(step, results)
                if self.directory and (step % save_every == 0 or step == total or stop or state.done):
                    state.save(step, log.state())
                    if after_save and self._chief:
                        after_save()
                if stop:
                    raise SystemExit(TERMINATED)
        state.finish()
        return state.result

    def evaluate(self, batches):
        """Returns the losses and the metrics over all rows, a dict of floats."""
        batches = as_source(batches, finite=True)
        with _explaining_out_of_memory(batches):
            outputs, targets, results = self._evaluator.outputs(batches, keep=bool(self.metrics), with_losses=True)
        for metric in self.metrics:
            results.update(metric(targets, outputs))
        return {name: float(value) for name, value in results.items()}

    def predict(self, batches):
        """Returns the outputs of the model for all rows in order, a dict of NumPy arrays.

        Args:
            batches: `Batches`, a `Stream` or a dataset of batches; only inputs are needed. If they differ in length,
                shorter rows are padded with zeros.
        """
        batches = as_source(batches, finite=True)
        with _explaining_out_of_memory(batches):
            return self._evaluator.outputs(batches)[0]

    def _calls(self, batches, step, total, every, state):
        """Trains from `step` to `total`, several steps per call; calls end at each multiple of any of `every`.

        Yields:
            The steps done; the numbers of each step of the call, a list of dicts; examples, tokens and steps per
            second; whether a worker received SIGTERM.
        """
        segment, left = None, 0
        while step < total and not state.done:
            if not left:
                before, segment = segment, batches.segment(step)
                if before and before.source is not segment.source:
                    self._train = self._new_graph()  # So that it is traced with the static shapes of the new source.
                dataset = replica_dataset(self.strategy, segment.make_dataset, self.losses, self.micro_batches)
                iterator, left = iter(dataset), segment.steps
            count = min(self.steps_per_call, left, total - step, *(steps - step % steps for steps in every))
            began = time.monotonic()
            with _explaining_out_of_memory(segment.source):
                numbers, stop = self._run(iterator, step, count)
            step, left = step + count, left - count
            yield step, numbers, _rates(segment.source, count, time.monotonic() - began), stop

    def _run(self, iterator, step, count):
        """Trains `count` steps; returns the numbers of each, a list of dicts, and whether a worker received SIGTERM."""
        terminating = tf.constant(float(self._terminating))
        rows = self._train(iterator, tf.constant(step), tf.constant(count), terminating).numpy()
        numbers = [dict(zip(self._step.names, row, strict=True)) for row in rows.astype(float).tolist()]
        for index, line in enumerate(numbers):
            self._check_finite(step + index, line)
        return numbers, any([line.pop("stop") for line in numbers])

    def _new_graph(self):
        return tf.function(self._train_steps, reduce_retracing=True, autograph=False)

    def _train_steps(self, iterator, first, count, stop):
        def train(index, numbers):
            result = self.strategy.run(self._step, (*next(iterator), first + index, stop))
            return index + 1, numbers.write(index, self.strategy.experimental_local_results(result)[0])

        numbers = tf.TensorArray(tf.float32, count, element_shape=[None])
        return tf.while_loop(lambda index, _: index < count, train, (0, numbers))[1].stack()

    def _all_settings(self, batches, total_steps, **options):
        """Returns the settings that must match those of a snapshot on resume."""
        return {
            **self._settings,
            "total_steps": total_steps,
            "batches": {name: getattr(batches, name) for name in ("steps", "examples", "tokens", "seed")},
            **options,
            "optimizer": _plain(self.optimizer.get_config()),
            "weights": {weight.path: list(weight.shape) for weight in self.model.weights},
        }

    def _check_finite(self, step, line):
        names = [*(loss.name for loss in self.losses), PENALTY]
        losses = {name: line[name] for name in names if name in line}
        if not np.isfinite(list(losses.values())).all():
            raise FloatingPointError(
                f"the loss is not finite at step {step}: {losses}. Usual causes: a learning rate that is too high, a "
                "warm-up that is too short, labels outside the classes. Snapshots on disk are from earlier steps"
            )

    @contextlib.contextmanager
    def _handling_sigterm(self):
        """On SIGTERM all workers save a snapshot and exit with status 143."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_):
            self._terminating = True

        before = signal.signal(signal.SIGTERM, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)


def _explaining_out_of_memory(batches):
    return explain_out_of_memory(batch_size=batches.batch_size, length=batches.sequence_length)


def _rates(batches, steps, seconds):
    """Returns examples, tokens and steps per second, as far as the batches know them."""
    amounts = {name: getattr(batches, name) for name in ("examples", "tokens")}
    rates = {name: amount / batches.steps * steps for name, amount in amounts.items() if amount}
    return {name: amount / max(seconds, 1e-9) for name, amount in {**rates, "steps": steps}.items()}


def _plain(config):
    """Returns a config as it looks after JSON, without names, which change from run to run."""
    if isinstance(config, dict):
        return {key: _plain(value) for key, value in config.items() if key != "name"}
    return [_plain(value) for value in config] if isinstance(config, list | tuple) else config

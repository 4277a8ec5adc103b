"""The training loop: one for any number of replicas, resumable to the step."""

import contextlib
import pathlib
import signal
import threading
import time

import numpy as np
import tensorflow as tf

from keras_bert.memory import explain_out_of_memory
from keras_bert.training.best_weights import Best
from keras_bert.training.distribution import is_chief
from keras_bert.training.evaluation import Inference
from keras_bert.training.input_pipeline import at, follows, for_inference, for_training, replica_dataset, shape
from keras_bert.training.losses import Loss
from keras_bert.training.run_log import RunLog
from keras_bert.training.snapshots import Snapshots, difference
from keras_bert.training.step import PENALTY, TrainStep

TERMINATED = 143  # Exit status after SIGTERM, once the state is saved: 128 + 15.


class Trainer:
    """Trains, evaluates and predicts on any `tf.distribute` strategy.

    The same losses and weights for 1 and n replicas, and for any number of micro-batches: losses are divided by the
    weights of the whole global batch, gradients summed once and clipped by their true norm.

    Regularizers, constraints and clipping are honoured. So are `add_loss` and layers that update their weights in the
    forward pass, such as BatchNormalization, on one replica without micro-batches; what would depend on the number of
    either, or be ignored, is refused before the first step.

    Args:
        model_fn: function that builds the model.
        optimizer_fn: function of the model that makes its optimizer, an `AdamW` or a `LAMB`; see `create_optimizer`.
        loss: a `Loss` or a list of them; the sum is minimised.
        metrics: functions of `(targets, outputs)`, NumPy arrays of all rows in their order, that return a dict; or
            `Loss`es, whose means are computed batch by batch.
        directory: where snapshots, the best weights and `metrics.jsonl` stand. `None` writes nothing.
        strategy: see `create_strategy`; `None` is one device.
        micro_batches: in how many parts a replica computes its rows, one after the other.
        steps_per_call: how many steps run between looks at the clock.
        jit_compile: whether XLA compiles the forward and backward pass. A TPU needs it not: there all is compiled.
        seed: of the dropout.
        settings: dict of what else makes the run what it is, such as flags: a snapshot of other settings is refused.

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
        self._told_to_stop = False
        self._train = self._traced()
        means = [metric for metric in metrics if isinstance(metric, Loss)]
        self._inference = Inference(self.model, self.strategy, [*self.losses, *means])

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
        """Trains, from the last snapshot in the directory on if there is one, else anew.

        Args:
            batches: `Batches`, `Stream` around a dataset, a dataset that knows its length, or `Phases`.
            epochs: how often the data is seen.
            steps: length of the run, in place of `epochs`.
            evaluation: batches to evaluate on, or a dataset of them.
            evaluate_every: steps between evaluations; an epoch by default. The last step is evaluated too.
            best: name of the metric whose best weights are kept in the directory, and are the model's in the end;
                `"-name"` where less is better. NaN is worse than any number.
            patience: end after so many evaluations without a better one.
            save_every: steps between snapshots; an epoch by default.
            log_every: steps between lines of `metrics.jsonl`.
            after_save: function that is called after each snapshot, by the worker that writes.

        Returns:
            The numbers of the last evaluation, of the best one with `best`; without evaluation, the last losses.
        """
        self._check_best(best, patience, evaluation)
        batches = for_training(batches)
        total = steps or epochs * batches.steps
        at(batches, total - 1)  # `Phases` that are too short are told now.
        evaluate_every, save_every = evaluate_every or batches.steps, save_every or batches.steps
        snapshots = Snapshots(self.directory / "snapshots", write=self._chief) if self.directory else None
        data = {name: getattr(batches, name, None) for name in ("steps", "examples", "tokens", "seed")}
        settings = self._all_settings(
            total_steps=total, batches=data, best=best, patience=patience, evaluate_every=evaluate_every
        )
        step, state = self._restore(snapshots, settings)
        kept = Best(self.directory, best, patience, write=self._chief) if self.directory else None
        if kept:
            kept.start(state, resumed=step > 0)
        log = RunLog(self.directory if self._chief else None, total, log_every, state["log"], show=self._chief)
        events = [log_every, save_every, evaluate_every]
        place, left, iterator = None, 0, None
        with self._handling_sigterm(), contextlib.closing(log):
            while step < total and not state["done"]:
                if not left:
                    before, place = place, at(batches, step)
                    part, epoch, start, left = place
                    if before and before[0] is not part:  # Of other shapes: they are to be known when it is traced.
                        self._train = self._traced()
                    if not follows(before, place):
                        iterator = iter(self._feed(part, epoch, start))
                count = min(self.steps_per_call, left, total - step, *(every - step % every for every in events))
                began = time.monotonic()
                with explain_out_of_memory(**shape(part)):
                    lines, stop = self._run(iterator, step, count)
                step, left = step + count, left - count
                means = log.add(step, lines, _rates(part, count, time.monotonic() - began))
                if evaluation is None:
                    state["result"] = means
                elif step % evaluate_every == 0 or step == total:
                    results = self.evaluate(evaluation)
                    log.evaluated(step, results)
                    if best:
                        kept.judge(step, results, state, self._weights())
                    else:
                        state["result"] = results
                if snapshots and (step % save_every == 0 or step == total or stop or state["done"]):
                    state["log"] = log.state()
                    snapshots.save(step, self._variables(), {"state": state, "settings": settings})
                    kept.hold(state)
                    if after_save and self._chief:
                        after_save()
                if stop:
                    raise SystemExit(TERMINATED)
        if best:
            self._sum_of_all(0)  # The first worker writes, all read: they wait for each other.
            kept.restore(state, self._weights())
        return state["result"]

    def evaluate(self, batches):
        """The losses over all rows, and the metrics of all rows in their order."""
        batches = for_inference(batches)
        with explain_out_of_memory(**shape(batches)):
            outputs, targets, results = self._inference.outputs(batches, keep=bool(self.metrics), with_losses=True)
        for metric in self.metrics:
            results.update(metric(targets, outputs))
        return {name: float(value) for name, value in results.items()}

    def predict(self, batches):
        """The outputs of the model for all rows in their order, a dict of NumPy arrays.

        Args:
            batches: `Batches`, `Stream` or a dataset of batches, of inputs alone if there is no more. Where they differ
                in length, shorter rows are padded with zeros.
        """
        batches = for_inference(batches)
        with explain_out_of_memory(**shape(batches)):
            return self._inference.outputs(batches)[0]

    def _run(self, iterator, step, count):
        """Trains some steps; returns the numbers of each, a list of dicts, and whether a worker was told to stop."""
        told = float(self._told_to_stop)
        numbers = self._train(iterator, tf.constant(step), tf.constant(count), tf.constant(told)).numpy()
        lines = [dict(zip(self._step.names, line, strict=True)) for line in numbers.astype(float).tolist()]
        for index, line in enumerate(lines):
            self._check_finite(step + index, line)
        return lines, any([line.pop("stop") for line in lines])

    def _traced(self):
        """The loop below as a graph, not traced yet."""
        return tf.function(self._train_steps, reduce_retracing=True, autograph=False)

    def _train_steps(self, iterator, first, count, stop):
        def train(index, numbers):
            result = self.strategy.run(self._step, (*next(iterator), first + index, stop))
            return index + 1, numbers.write(index, self.strategy.experimental_local_results(result)[0])

        numbers = tf.TensorArray(tf.float32, count, element_shape=[None])
        return tf.while_loop(lambda index, _: index < count, train, (0, numbers))[1].stack()

    def _feed(self, batches, epoch, start):
        read = getattr(batches, "onwards", batches.dataset)
        return replica_dataset(self.strategy, lambda: read(epoch, start), self.losses, self.micro_batches)

    def _check_best(self, best, patience, evaluation):
        if best and (self.directory is None or evaluation is None):
            raise ValueError(
                f"`best` needs `evaluation`, and a `directory` to keep the weights. Received: best={best!r}"
            )
        if patience is not None and not best:
            raise ValueError(f"`patience` needs `best`, the metric that it waits for. Received: patience={patience}")

    def _all_settings(self, **more):
        """What a snapshot must agree with."""
        weights = {weight.path: list(weight.shape) for weight in self.model.weights}
        return {**self._settings, **more, "optimizer": _plain(self.optimizer.get_config()), "weights": weights}

    def _restore(self, snapshots, settings):
        """Goes back to the newest snapshot; returns its step and its state."""

        def check(found):
            if differs := difference(found["settings"], settings):
                raise ValueError(
                    f"{snapshots.directory} has a run of other settings: {differs}. Expected the same ones to go on "
                    "with it, or another `directory` for a new run"
                )

        found = snapshots and snapshots.restore(self._variables(), check)
        step = found["step"] if found else 0
        if self._sum_of_all(step) != step * self.strategy.num_replicas_in_sync:
            raise ValueError(
                f"the workers found different snapshots, this one that of step {step}. Expected a `directory` that all "
                f"workers share. Received: directory={str(self.directory)!r}"
            )
        if not found:
            return 0, {"best": None, "worse": 0, "done": False, "result": {}, "log": None}
        return found["step"], found["state"]

    def _weights(self):
        return {f"model/{index}/{weight.path}": weight.value for index, weight in enumerate(self.model.weights)}

    def _variables(self):
        """All that changes in training, by name."""
        optimizer = {f"optimizer/{index}": part.value for index, part in enumerate(self.optimizer.variables)}
        scale = {f"scale/{index}": variable for index, variable in enumerate(self._step.variables)}
        return {**self._weights(), **optimizer, **scale}

    def _check_finite(self, step, line):
        names = [*(loss.name for loss in self.losses), PENALTY]
        losses = {name: line[name] for name in names if name in line}
        if not np.isfinite(list(losses.values())).all():
            raise FloatingPointError(
                f"the loss is not finite at step {step}: {losses}. Usual causes: a learning rate that is too high, too "
                "short a warm-up, labels outside of the classes. Snapshots on disk are from before it"
            )

    def _sum_of_all(self, number):
        """The sum over all replicas of a number that each worker has."""
        numbers = self.strategy.run(tf.constant, [float(number)])
        return float(self.strategy.reduce(tf.distribute.ReduceOp.SUM, numbers, axis=None))

    @contextlib.contextmanager
    def _handling_sigterm(self):
        """SIGTERM ends the run after a snapshot, with status 143, on all workers."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_):
            self._told_to_stop = True

        before = signal.signal(signal.SIGTERM, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)


def _rates(batches, steps, seconds):
    """Examples and tokens a second, as far as the batches know."""
    rates = {}
    for name in ("examples", "tokens"):
        if getattr(batches, name, None):
            rates[name] = getattr(batches, name) / batches.steps * steps
    rates["steps"] = steps
    return {name: amount / max(seconds, 1e-9) for name, amount in rates.items()}


def _plain(config):
    """A config as JSON has it, without names that change from run to run."""
    if isinstance(config, dict):
        return {key: _plain(value) for key, value in config.items() if key != "name"}
    return [_plain(value) for value in config] if isinstance(config, list | tuple) else config

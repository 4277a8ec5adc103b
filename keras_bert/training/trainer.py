"""The training loop: one for any number of replicas, resumable to the step."""

import contextlib
import math
import pathlib
import signal
import threading
import time

import numpy as np
import tensorflow as tf

from keras_bert.training.feed import replica_dataset
from keras_bert.training.losses import Loss
from keras_bert.training.progress import MetricsLog, Progress
from keras_bert.training.snapshots import Snapshots, difference
from keras_bert.training.step import TrainStep

TERMINATED = 143  # Exit status after SIGTERM, once the state is saved: 128 + 15.


class Trainer:
    """Trains, evaluates and predicts on any `tf.distribute` strategy.

    The same losses and weights for 1 and n replicas, and for any number of micro-batches: losses are divided by the
    weights of the whole global batch, gradients summed once and clipped by their true norm.

    Args:
        model_fn: function that builds the model.
        optimizer_fn: function of the model that makes its optimizer, see `create_optimizer`.
        loss: a `Loss` or a list of them; the sum is minimised.
        metrics: functions of `(targets, outputs)`, NumPy arrays of all rows in their order, that return a dict.
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
        self.metrics = list(metrics) if isinstance(metrics, list | tuple) else [metrics]
        self.directory = None if directory is None else pathlib.Path(directory)
        self.micro_batches, self.steps_per_call = micro_batches, steps_per_call
        with self.strategy.scope():
            self.model = model_fn()
            self.optimizer = optimizer_fn(self.model)
            self.optimizer.build(self.model.trainable_variables)
            self._step = TrainStep(self.model, self.optimizer, self.losses, micro_batches, seed, jit_compile)
        self._settings = {"seed": seed, **(settings or {})}
        self._chief = _is_chief(self.strategy)
        self._told_to_stop = False
        self._train = tf.function(self._train, reduce_retracing=True)
        self._forward = tf.function(self._forward, reduce_retracing=True)

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
    ):
        """Trains, from the last snapshot in the directory on if there is one.

        Args:
            batches: `Batches`, or `Stream` around a dataset.
            epochs: how often the data is seen.
            steps: length of the run, in place of `epochs`.
            evaluation: batches to evaluate on.
            evaluate_every: steps between evaluations; an epoch by default. The last step is evaluated too.
            best: name of the metric whose best weights are kept, and are the model's in the end; `"-name"` where less
                is better.
            patience: end after so many evaluations without a better one.
            save_every: steps between snapshots; an epoch by default.
            log_every: steps between lines of `metrics.jsonl`.

        Returns:
            The numbers of the last evaluation, of the best one with `best`; without evaluation, the last losses.
        """
        total = steps or epochs * batches.steps
        state = {"best": None, "worse": 0, "log_size": 0, "pending": [], "result": {}, "done": False}
        settings = {**self._settings, "total_steps": total, "steps_per_epoch": batches.steps}
        snapshots = self.directory and Snapshots(self.directory / "snapshots", write=self._chief)
        step = self._restore(snapshots, state, settings)
        save_every, evaluate_every = save_every or batches.steps, evaluate_every or batches.steps
        progress = Progress(total) if self._chief else None
        log = MetricsLog(self.directory, state["log_size"]) if self.directory and self._chief else None
        iterator = None
        with self._handling_sigterm():
            while step < total and not state["done"]:
                epoch, place = divmod(step, batches.steps)
                if iterator is None or place == 0:
                    iterator = iter(self._feed(batches, epoch, place))
                events = (batches.steps, log_every, *([save_every] if snapshots else []), evaluate_every)
                count = min(self.steps_per_call, total - step, *(every - step % every for every in events))
                began = time.monotonic()
                told = float(self._told_to_stop)
                numbers = self._train(iterator, tf.constant(step), tf.constant(count), tf.constant(told)).numpy()
                self._check_finite(numbers, step)
                rates = _rates(batches, count, time.monotonic() - began)
                step += count
                state["pending"] += numbers[:, 1:].astype(float).tolist()
                means = dict(zip(self._step.names[1:], np.mean(state["pending"], axis=0).tolist(), strict=True))
                means["learning_rate"] = state["pending"][-1][-2]
                means["skipped"] = sum(line[-1] for line in state["pending"])
                if not self._step.scaled:
                    del means["skipped"]
                if progress:
                    progress.show(step, means, rates)
                if step % log_every == 0 or step == total:
                    state["pending"] = []
                    state["result"] = state["result"] if evaluation is not None else means
                    if log:
                        log.write(step, "train", means, rates)
                if evaluation is not None and (step % evaluate_every == 0 or step == total):
                    self._evaluate_in_fit(evaluation, step, state, best, patience, progress, log)
                stop = numbers[-1, 0] > 0
                if snapshots and (step % save_every == 0 or step == total or stop or state["done"]):
                    state["log_size"] = log.size() if log else 0
                    snapshots.save(step, self._variables(), {"state": state, "settings": settings})
                if stop:
                    raise SystemExit(TERMINATED)
        if progress:
            progress.close()
        if log:
            log.close()
        if best and state["best"] is not None and self.directory:
            self._best().restore(self._weights(), lambda _: None)
        return state["result"]

    def evaluate(self, batches):
        """The losses over all rows, and the metrics of all rows in their order."""
        sums, outputs, targets = self._predict(batches, keep=bool(self.metrics), with_losses=True)
        results = {}
        for loss, (values, weights) in zip(self.losses, sums, strict=True):
            results[loss.name] = float(values / weights) if weights else math.nan
        for metric in self.metrics:
            results.update({name: float(value) for name, value in metric(targets, outputs).items()})
        return results

    def predict(self, batches):
        """The outputs of the model for all rows in their order, a dict of NumPy arrays. Where batches differ in length,
        shorter rows are padded with zeros."""
        return self._predict(batches, keep=True, with_losses=False)[1]

    def _train(self, iterator, first, count, stop):
        numbers = tf.TensorArray(tf.float32, count, element_shape=[len(self._step.names)])
        for index in tf.range(count):
            result = self.strategy.run(self._step, (*next(iterator), first + index, stop))
            numbers = numbers.write(index, self.strategy.experimental_local_results(result)[0])
        return numbers.stack()

    def _forward(self, batch, with_losses):
        """Outputs, targets and weights of all rows of a global batch, and what they add to each loss."""

        def forward(inputs, targets, weights, totals):
            outputs = self.model(inputs, training=False)
            sums = []
            if with_losses:
                for loss in self.losses:
                    rows = loss.row_weights(targets, weights)
                    sums.append(
                        [tf.reduce_sum(tf.cast(loss.values(targets, outputs), tf.float32) * rows), tf.reduce_sum(rows)]
                    )
            sums = tf.convert_to_tensor(sums, tf.float32) if sums else tf.zeros([0, 2])
            return outputs, targets, weights, sums

        outputs, targets, weights, sums = self.strategy.run(forward, batch)
        gathered = tf.nest.map_structure(lambda value: self.strategy.gather(value, 0), (outputs, targets, weights))
        return *gathered, self.strategy.reduce(tf.distribute.ReduceOp.SUM, sums, axis=None)

    def _predict(self, batches, keep, with_losses):
        sums, parts = np.zeros([len(self.losses) if with_losses else 0, 2]), []
        feed = replica_dataset(self.strategy, lambda: batches.dataset(0, 0), self.losses if with_losses else ())
        for batch, rows in zip(feed, batches.rows(0), strict=False):
            *values, batch_sums = self._forward(batch, with_losses)
            sums += batch_sums.numpy()
            if keep:
                outputs, targets, _ = tf.nest.map_structure(lambda value: value.numpy()[: len(rows)], values)
                parts.append((outputs, targets))
        if not keep:
            return sums, None, None
        rows = np.concatenate(list(batches.rows(0)))
        order = np.argsort(rows, kind="stable")[np.sum(rows < 0) :]
        outputs, targets = tf.nest.map_structure(lambda *values: _stacked(values)[order], *parts)
        return sums, outputs, targets

    def _feed(self, batches, epoch, start):
        return replica_dataset(self.strategy, lambda: batches.dataset(epoch, start), self.losses, self.micro_batches)

    def _evaluate_in_fit(self, evaluation, step, state, best, patience, progress, log):
        """Evaluates, keeps the weights if they are the best so far, and says whether it is time to end."""
        results = self.evaluate(evaluation)
        if log:
            log.write(step, "evaluation", results)
        if progress:
            progress.say(f"step {step:,}  " + "  ".join(f"{name} {value:.4g}" for name, value in results.items()))
        if not best:
            state["result"] = results
            return
        name = best.removeprefix("-")
        if name not in results:
            raise ValueError(
                f"`best` must be one of {', '.join(results)}, or one with a minus. Received: best={best!r}"
            )
        score = -results[name] if best.startswith("-") else results[name]
        if state["best"] is None or score > state["best"]:
            state.update(best=score, worse=0, result={**results, "step": step})
            if self.directory:
                self._best().save(step, self._weights(), {})
        else:
            state["worse"] += 1
            state["done"] = patience is not None and state["worse"] >= patience

    def _restore(self, snapshots, state, settings):
        """Goes back to the newest snapshot; returns its step."""

        def check(found):
            differs = difference(found["settings"], settings)
            if differs:
                raise ValueError(
                    f"{snapshots.directory} has a run of other settings: {differs}. Expected the same ones to go on "
                    "with it, or another `directory` for a new run"
                )

        settings["optimizer"] = _plain(self.optimizer.get_config())
        settings["weights"] = {weight.path: list(weight.shape) for weight in self.model.weights}
        found = snapshots.restore(self._variables(), check) if snapshots else None
        if found is None:
            return 0
        state.update(found["state"])
        return found["step"]

    def _weights(self):
        return {f"model/{index}/{weight.path}": weight.value for index, weight in enumerate(self.model.weights)}

    def _variables(self):
        """All that changes in training, by name."""
        optimizer = {f"optimizer/{i}/{v.path}": v.value for i, v in enumerate(self.optimizer.variables)}
        scale = {f"scale/{index}": variable for index, variable in enumerate(self._step.variables)}
        return {**self._weights(), **optimizer, **scale}

    def _best(self):
        return Snapshots(self.directory / "best", keep=1, write=self._chief)

    def _check_finite(self, numbers, step):
        losses = numbers[:, 1 : 1 + len(self.losses)]
        bad = np.flatnonzero(~np.isfinite(losses).all(axis=1))
        if bad.size:
            names = dict(zip([loss.name for loss in self.losses], losses[bad[0]].tolist(), strict=True))
            raise FloatingPointError(
                f"the loss is not finite at step {step + int(bad[0])}: {names}. Usual causes: a learning rate that is too "
                "high, too short a warm-up, labels outside of the classes, float16 without loss scaling. The last "
                "snapshot is from before it"
            )

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


class Stream:
    """A `tf.data.Dataset` of `(inputs, targets)` or `(inputs, targets, weights)` batches as `Trainer` takes it.

    It must give the same batches each time: a run that goes on skips those that it has seen.

    Args:
        dataset: the dataset.
        steps: how many batches are an epoch; by default all of the dataset, which must know how many it has.
    """

    def __init__(self, dataset, steps=None):
        cardinality = int(dataset.cardinality())
        if steps is None and cardinality < 0:
            raise ValueError("`steps` is needed: the dataset does not know its length. Received: steps=None")
        self.steps = steps or cardinality
        self._dataset = dataset if cardinality == tf.data.INFINITE_CARDINALITY else dataset.repeat()

    def dataset(self, epoch=0, start=0):
        """The batches of an epoch from one on."""
        dataset = self._dataset.skip(epoch * self.steps + start).take(self.steps - start)
        return dataset.map(_with_weights)


def _with_weights(inputs, targets, weights=None):
    rows = tf.shape(tf.nest.flatten(targets)[0])[0]
    return inputs, targets, tf.ones([rows]) if weights is None else tf.cast(weights, tf.float32)


def _rates(batches, steps, seconds):
    """Examples and tokens a second, as far as the batches know."""
    rates = {"steps": steps}
    for name, attribute in (("examples", "examples"), ("tokens", "tokens")):
        if hasattr(batches, attribute):
            rates[name] = getattr(batches, attribute) / batches.steps * steps
    return {name: amount / max(seconds, 1e-9) for name, amount in rates.items()}


def _stacked(arrays):
    """Arrays end to end; where other axes differ, filled up with zeros."""
    shape = np.max([array.shape for array in arrays], axis=0)[1:]
    return np.concatenate(
        [np.pad(a, [(0, 0), *((0, size - own) for size, own in zip(shape, a.shape[1:], strict=True))]) for a in arrays]
    )


def _plain(config):
    """A config as JSON has it, without names that change from run to run."""
    if isinstance(config, dict):
        return {key: _plain(value) for key, value in config.items() if key != "name"}
    return [_plain(value) for value in config] if isinstance(config, list | tuple) else config


def _is_chief(strategy):
    resolver = strategy.cluster_resolver
    return not resolver or not resolver.cluster_spec() or resolver.task_id in (None, 0)

"""Pre-training by Keras' `fit`, on JAX over all devices: what `Trainer` is on TensorFlow, which reads the batches."""

import contextlib
import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.memory import explain_out_of_memory
from keras_bert.progress import Progress, announced
from keras_bert.training.interruption import InterruptedEvaluation, Interruption, stopped
from keras_bert.training.run_log import RunLog
from keras_bert.training.run_state import RunState, run_settings
from keras_bert.training.step_loop import rates

_FIT_S = 10.0  # Approximate limit of the duration of a call of `fit`, so that progress is shown.


@dataclasses.dataclass(frozen=True)
class _FitSchedule:
    """When a training evaluates and saves; the fields are arguments of `Trainer.fit`."""

    steps: int
    evaluation: Any
    evaluate_every: int
    save_every: int
    log_every: int
    after_save: Callable

    def evaluates(self, step):
        """Whether an evaluation follows a step."""
        if self.evaluation is None:
            return False
        return step % self.evaluate_every == 0 or step == self.steps

    def saves(self, step):
        """Whether a snapshot follows a step."""
        return step % self.save_every == 0 or step == self.steps

    def steps_to_stop(self, step):
        """Returns the number of steps until a line, an evaluation, a snapshot or the end is due."""
        distances = [self.steps - step]
        for every in (self.log_every, self.evaluate_every, self.save_every):
            distances.append(every - step % every)
        return min(distances)


@dataclasses.dataclass(frozen=True)
class _FitCall:
    """What a call of Keras' `fit` has done."""

    step: int  # The last one.
    lines: list  # The means of the call for each of its steps, dicts.
    speeds: dict  # Examples, tokens and steps per second; empty if the call was compiled.


class FitTrainer:
    """Trains and evaluates a pre-trainer as `Trainer` does, by Keras' `fit`; on JAX, over all devices.

    Snapshots contain the states of the random generators: a resumed run has the dropout of an uninterrupted one.
    `batch_sizes` are those of the batches to train on; the other arguments and `model`, `optimizer` and `directory` are
    `Trainer`'s; `strategy` is that of one device.
    """

    def __init__(self, model_fn, optimizer_fn, batch_sizes, directory, settings, callbacks, rewire):
        self._devices = _distribute(batch_sizes)
        self.strategy = tf.distribute.get_strategy()
        self.directory = directory
        self.model = model_fn()
        self._heads = [name for name in self.model.output if name.endswith("_logits")]
        self.trained = self._with_heads(rewire(self.model))
        self._evaluated = self._with_heads(self.model)
        self.optimizer = optimizer_fn(self.trained)
        self._settings = settings
        self._callbacks = callbacks
        self._interruption = Interruption()
        self._compile()

    def _with_heads(self, model):
        """Returns a model with the logits alone as outputs."""
        return keras.Model(model.input, {name: model.output[name] for name in self._heads})

    def _compile(self):
        """Compiles the model to train and the one to evaluate."""
        loss = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True,
            reduction="mean_with_sample_weight",
        )
        losses = dict.fromkeys(self._heads, loss)
        optimizer = self.optimizer
        if any(layer.compute_dtype == "float16" for layer in self.model._flatten_layers()):
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(self.trained.trainable_variables)
        self.trained.compile(optimizer, losses)
        metrics = {name: _metrics() for name in self._heads}
        self._evaluated.compile(loss=losses, weighted_metrics=metrics)

    def fit(self, batches, steps, evaluation, evaluate_every, save_every, log_every, after_save, extend):
        """Trains up to a step, resuming from the last snapshot if there is one; see `Trainer`."""
        schedule = _FitSchedule(
            steps=steps,
            evaluation=evaluation,
            evaluate_every=evaluate_every,
            save_every=save_every,
            log_every=log_every,
            after_save=after_save,
        )
        every = {"evaluate_every": evaluate_every}
        settings = run_settings(self._settings, batches, steps, every, self.optimizer, self.model)
        state = RunState(
            self.directory,
            self.strategy,
            self.model,
            self._variables(),
            settings,
            extend=extend,
        )
        start = state.restore()
        log = RunLog(self.directory, steps, log_every, state.log, Progress(), self._callbacks)
        with self._interruption.handled(), contextlib.closing(log):
            log.begin(start, settings, finished=start == steps and not state.interrupted)
            if state.interrupted:  # The evaluation of the last finished step comes first.
                self._end_call(start, schedule, state, log)
            for call in self._calls(batches, start, schedule):
                results = log.add(call.step, call.lines, call.speeds)
                state.update(call.step, results, evaluated=False)
                self._end_call(call.step, schedule, state, log)
            log.finish(state.result)
        return state.result

    def _end_call(self, step, schedule, state, log):
        """Evaluates and saves after a call of `fit`, if that is due; raises if the run is to stop."""
        if schedule.evaluates(step):
            self._evaluate_step(step, schedule.evaluation, state, log)
        is_stopped = self._interruption.requested
        if self.directory and (schedule.saves(step) or is_stopped):
            state.save(step, log.state())
            schedule.after_save()
        if is_stopped or self._interruption.requested:  # The latter during the last save.
            self._interruption.stop(stopped(step, schedule.steps, self.directory), log.say)

    def _evaluate_step(self, step, evaluation, state, log):
        """Evaluates during `fit`. An interrupted evaluation is repeated if it was the last one."""
        try:
            results = self.evaluate(evaluation)
        except InterruptedEvaluation:
            state.note_evaluation(interrupted=True)
            return
        state.note_evaluation(interrupted=False)
        log.evaluated(step, results)
        state.update(step, results, evaluated=False)

    def _variables(self):
        """Returns the variables that training changes besides the weights, by name."""
        variables = {}
        for index, variable in enumerate(self.trained.optimizer.variables):
            variables[f"optimizer/{index}"] = variable
        generators = []
        for variable in self.trained.non_trainable_variables:
            if variable.path.endswith("seed_generator_state"):
                generators.append(variable)
        for index, variable in enumerate(generators):
            variables[f"generator/{index}"] = variable
        return variables

    def _calls(self, batches, step, schedule):
        """Trains from `step` to the last one; yields a `_FitCall` after each call of Keras' `fit`."""
        source = None
        steps_left = 0  # Of the segment.
        seconds = None  # Of a step; `None` before the first call for batches of a source, which is compiled.
        while step < schedule.steps:
            if not steps_left:
                segment = batches.segment(step)
                if segment.source is not source:
                    seconds = None
                source = segment.source
                steps_left = segment.steps
                iterator = self._iterator(segment.make_dataset())
            is_compiling = seconds is None
            wanted = 1 if is_compiling else max(1, int(_FIT_S / seconds))
            wanted = min(wanted, steps_left, schedule.steps_to_stop(step))
            began = time.monotonic()
            with (
                explain_out_of_memory(batch_size=source.batch_size, length=source.sequence_length),
                announced("compiling the training step", show=is_compiling),
            ):
                count, losses = self.fit_steps(iterator, wanted)
            seconds = (time.monotonic() - began) / count
            step += count
            steps_left -= count
            if not np.isfinite(list(losses.values())).all():
                raise FloatingPointError(f"the loss is not finite at step {step}: {losses}. Lower the learning rate")
            numbers = dict(losses)
            numbers["learning_rate"] = float(self.optimizer._learning_rate(step - 1))
            speeds = {} if is_compiling else rates(source, count, count * seconds)
            yield _FitCall(step=step, lines=[numbers] * count, speeds=speeds)

    def fit_steps(self, iterator, count):
        """Trains for `count` steps, or until a signal is received; returns the number of steps and the losses."""
        follower = Follower(self._interruption)
        batches = (batch for batch in itertools.islice(iterator, count))  # Keras takes generators.
        history = self.trained.fit(
            batches,
            steps_per_epoch=count,
            shuffle=False,
            verbose=0,
            callbacks=[follower],
        ).history
        means = {name: values[0] for name, values in history.items()}
        return follower.steps, self._named(means, loss="loss")

    def _named(self, numbers, **names):
        """Returns Keras' numbers by our names; Keras does not repeat the name of an only output."""
        named = {}
        for head in self._heads:
            prefix = f"{head}_" if len(self._heads) > 1 else ""
            for ours, keras_name in names.items():
                named[f"{head.removesuffix('_logits')}_{ours}"] = float(numbers[prefix + keras_name])
        return named

    def _iterator(self, dataset):
        """Returns an iterator over the batches of a dataset as Keras takes them, NumPy arrays."""
        by_output = functools.partial(_by_output, self._heads)
        prepared = dataset.map(by_output, num_parallel_calls=2, deterministic=True)
        return prepared.prefetch(4).as_numpy_iterator()

    def evaluate(self, batches):
        """Returns the losses and the metrics over all rows, a dict of floats."""
        rows = (self._unless_interrupted(batch) for batch in self._iterator(batches.dataset()))
        numbers = self._evaluated.evaluate(rows, steps=batches.steps, return_dict=True, verbose=0)
        results = self._named(numbers, loss="cross_entropy", accuracy="accuracy")
        results["mlm_perplexity"] = math.exp(min(results["mlm_loss"], 700))
        return results

    def _unless_interrupted(self, batch):
        """Returns a batch; raises if the run is interrupted."""
        if self._interruption.requested:
            raise InterruptedEvaluation
        return batch

    def predict(self, batches):
        """Returns the outputs of the model for a dataset of one batch of inputs, a dict of arrays."""
        (inputs,) = batches.as_numpy_iterator()
        rows = len(next(iter(inputs.values())))
        # Each device takes the same number of rows.
        filled = math.ceil(rows / self._devices) * self._devices
        batch = {}
        for name, value in inputs.items():
            batch[name] = np.resize(value, (filled, *value.shape[1:]))
        outputs = self._evaluated.predict_on_batch(batch)
        return {name: value[:rows] for name, value in outputs.items()}


class Follower(keras.callbacks.Callback):
    """Counts steps, and ends `fit` after the current one when the run is interrupted."""

    def __init__(self, interruption):
        super().__init__()
        self.steps = 0
        self._interruption = interruption

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        self.model.stop_training = self._interruption.requested


def _distribute(batch_sizes):
    """Distributes batches over all devices of JAX; returns their number."""
    devices = keras.distribution.list_devices()
    for size in batch_sizes:
        if size % len(devices):
            raise ValueError(
                f"`phases`: expected a batch that is divisible by the number of devices, {len(devices)}. "
                f"Received: batch:{size}"
            )
    if len(devices) > 1:
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
    return len(devices)


def _metrics():
    """Returns accuracy and loss as means over all predictions; Keras' own loss is a mean of the means of batches."""
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    cross_entropy = keras.metrics.SparseCategoricalCrossentropy(
        name="cross_entropy",
        from_logits=True,
    )
    return [accuracy, cross_entropy]


@tf.autograph.experimental.do_not_convert
def _by_output(heads, inputs, targets, weights):
    """Returns inputs, and labels and weights of each output."""
    labels = {"mlm_logits": targets["mask_labels"]}
    row_weights = {"mlm_logits": targets["mask_weights"] * weights[:, None]}
    if "nsp_logits" in heads:
        # Packed rows have several pairs, -1 for missing ones.
        pairs = tf.reshape(targets["next_sentence_labels"], [weights.shape[0], -1])
        labels["nsp_logits"] = tf.reshape(tf.maximum(pairs, 0), [-1])
        pair_weights = tf.cast(pairs >= 0, tf.float32) * weights[:, None]
        row_weights["nsp_logits"] = tf.reshape(pair_weights, [-1])
    return inputs, labels, row_weights

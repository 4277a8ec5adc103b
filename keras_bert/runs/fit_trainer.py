"""Pre-training by Keras' `fit`, on JAX over all devices: what `Trainer` is on TensorFlow, which reads the batches."""

import contextlib
import functools
import itertools
import math
import time

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


class FitTrainer:
    """Trains and evaluates a pre-trainer as `Trainer` does, by Keras' `fit`; on JAX, over all devices.

    Snapshots contain the states of the random generators: a resumed run has the dropout of an uninterrupted one.
    `batch_sizes` are those of the batches to train on; the other arguments and `model`, `optimizer` and `directory` are
    `Trainer`'s; `strategy` is that of one device.
    """

    def __init__(self, model_fn, optimizer_fn, batch_sizes, directory, settings, callbacks, rewire):
        self._devices = _distribute(batch_sizes)
        self.strategy, self.directory = tf.distribute.get_strategy(), directory
        self.model = model_fn()
        self._heads = [name for name in self.model.output if name.endswith("_logits")]
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
        losses = dict.fromkeys(self._heads, loss)
        self._trained, self._evaluated = map(self._with_heads, (rewire(self.model), self.model))
        self.optimizer = optimizer = optimizer_fn(self._trained)
        if any(layer.compute_dtype == "float16" for layer in self.model._flatten_layers()):
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(self._trained.trainable_variables)
        self._trained.compile(optimizer, losses)
        self._evaluated.compile(loss=losses, weighted_metrics={name: _metrics() for name in self._heads})
        self._settings, self._callbacks, self._interruption = settings, callbacks, Interruption()

    def _with_heads(self, model):
        return keras.Model(model.input, {name: model.output[name] for name in self._heads})

    def fit(self, batches, steps, evaluation, evaluate_every, save_every, log_every, after_save, extend):
        """Trains up to a step, resuming from the last snapshot if there is one; see `Trainer`."""
        every = {"evaluate_every": evaluate_every}
        settings = run_settings(self._settings, batches, steps, every, self.optimizer, self.model)
        state = RunState(self.directory, self.strategy, self.model, self._variables(), settings, extend=extend)
        start = state.restore()
        log = RunLog(self.directory, steps, log_every, state.log, Progress(), self._callbacks)
        with self._interruption.handled(), contextlib.closing(log):
            log.begin(start, settings, finished=start == steps and not state.interrupted)
            calls = self._steps(batches, start, steps, (log_every, evaluate_every, save_every))
            if state.interrupted:  # The evaluation of the last finished step comes first.
                calls = itertools.chain([(start, [], {})], calls)
            for step, lines, speeds in calls:
                if lines:
                    state.update(step, log.add(step, lines, speeds), evaluated=False)
                if evaluation is not None and (step % evaluate_every == 0 or step == steps):
                    self._evaluate_step(step, evaluation, state, log)
                stop = self._interruption.requested
                if self.directory and (step % save_every == 0 or step == steps or stop):
                    state.save(step, log.state())
                    after_save()
                if stop or self._interruption.requested:  # The latter during the last save.
                    self._interruption.stop(stopped(step, steps, self.directory), log.say)
            log.finish(state.result)
        return state.result

    def _evaluate_step(self, step, evaluation, state, log):
        """Evaluates during `fit`. An interrupted evaluation is repeated if it was the last one."""
        try:
            results = self.evaluate(evaluation)
        except InterruptedEvaluation:
            state.interrupted = True
            return
        state.interrupted = False
        log.evaluated(step, results)
        state.update(step, results, evaluated=False)

    def _variables(self):
        """Returns the variables that training changes besides the weights, by name."""
        generators = [
            variable
            for variable in self._trained.non_trainable_variables
            if variable.path.endswith("seed_generator_state")
        ]
        parts = {"optimizer": self._trained.optimizer.variables, "generator": generators}
        return {f"{name}/{index}": part for name in parts for index, part in enumerate(parts[name])}

    def _steps(self, batches, step, total, every):
        """Trains from `step` to `total`; calls of `fit` end at each multiple of any of `every`.

        Yields:
            The steps done; the means of the call for each of its steps, a list of dicts; examples, tokens and steps per
            second, empty if the call was compiled.
        """
        source, left, seconds = None, 0, None
        while step < total:
            if not left:
                segment = batches.segment(step)
                seconds = seconds if segment.source is source else None
                source, left, iterator = segment.source, segment.steps, self._iterator(segment.make_dataset())
            most = 1 if seconds is None else max(1, int(_FIT_S / seconds))
            count = min(most, left, total - step, *(steps - step % steps for steps in every))
            before, began = seconds, time.monotonic()
            with (
                explain_out_of_memory(batch_size=source.batch_size, length=source.sequence_length),
                announced("compiling the training step", show=before is None),
            ):
                count, losses = self._fit(iterator, count)
            step, left, seconds = step + count, left - count, (time.monotonic() - began) / count
            if not np.isfinite(list(losses.values())).all():
                raise FloatingPointError(f"the loss is not finite at step {step}: {losses}. Lower the learning rate")
            numbers = {**losses, "learning_rate": float(self.optimizer._learning_rate(step - 1))}
            yield step, [numbers] * count, {} if before is None else rates(source, count, count * seconds)

    def _fit(self, iterator, count):
        """Trains for `count` steps, or until a signal is received; returns the number of steps and the losses."""
        follower, batches = _Follower(self._interruption), (batch for batch in itertools.islice(iterator, count))
        options = {"steps_per_epoch": count, "shuffle": False, "verbose": 0, "callbacks": [follower]}
        history = self._trained.fit(batches, **options).history
        return follower.steps, self._named({name: values[0] for name, values in history.items()}, loss="loss")

    def _named(self, numbers, **names):
        """Returns Keras' numbers by our names; Keras does not repeat the name of an only output."""
        prefixes = {head: f"{head}_" if len(self._heads) > 1 else "" for head in self._heads}
        return {
            f"{head.removesuffix('_logits')}_{ours}": float(numbers[prefix + keras_name])
            for head, prefix in prefixes.items()
            for ours, keras_name in names.items()
        }

    def _iterator(self, dataset):
        prepared = dataset.map(functools.partial(_by_output, self._heads), num_parallel_calls=2, deterministic=True)
        return prepared.prefetch(4).as_numpy_iterator()

    def evaluate(self, batches):
        """Returns the losses and the metrics over all rows, a dict of floats."""
        rows = (self._checked(batch) for batch in self._iterator(batches.dataset()))
        numbers = self._evaluated.evaluate(rows, steps=batches.steps, return_dict=True, verbose=0)
        found = self._named(numbers, loss="cross_entropy", accuracy="accuracy")
        return {**found, "mlm_perplexity": math.exp(min(found["mlm_loss"], 700))}

    def _checked(self, batch):
        if self._interruption.requested:
            raise InterruptedEvaluation
        return batch

    def predict(self, batches):
        """Returns the outputs of the model for a dataset of one batch of inputs, a dict of arrays."""
        (inputs,) = batches.as_numpy_iterator()
        rows = len(next(iter(inputs.values())))
        filled = -(-rows // self._devices) * self._devices
        batch = {name: np.resize(value, (filled, *value.shape[1:])) for name, value in inputs.items()}
        return {name: value[:rows] for name, value in self._evaluated.predict_on_batch(batch).items()}


class _Follower(keras.callbacks.Callback):
    """Counts steps, and ends `fit` after the current one when the run is interrupted."""

    def __init__(self, interruption):
        super().__init__()
        self.steps, self._interruption = 0, interruption

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        self.model.stop_training = self._interruption.requested


def _distribute(batch_sizes):
    """Distributes batches over all devices of JAX; returns their number."""
    devices = keras.distribution.list_devices()
    if uneven := [size for size in batch_sizes if size % len(devices)]:
        raise ValueError(
            f"`phases`: expected a batch that is divisible by the number of devices, {len(devices)}. "
            f"Received: batch:{uneven[0]}"
        )
    if len(devices) > 1:
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
    return len(devices)


def _metrics():
    """Returns accuracy and loss as means over all predictions; Keras' own loss is a mean of the means of batches."""
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    return [accuracy, keras.metrics.SparseCategoricalCrossentropy(name="cross_entropy", from_logits=True)]


@tf.autograph.experimental.do_not_convert
def _by_output(heads, inputs, targets, weights):
    """Returns inputs, and labels and weights of each output."""
    labels = {"mlm_logits": targets["mask_labels"]}
    row_weights = {"mlm_logits": targets["mask_weights"] * weights[:, None]}
    if "nsp_logits" in heads:
        # Packed rows have several pairs, -1 for missing ones.
        pairs = tf.reshape(targets["next_sentence_labels"], [weights.shape[0], -1])
        labels["nsp_logits"] = tf.reshape(tf.maximum(pairs, 0), [-1])
        row_weights["nsp_logits"] = tf.reshape(tf.cast(pairs >= 0, tf.float32) * weights[:, None], [-1])
    return inputs, labels, row_weights

"""Averages the weights of the last evaluations of a training (Vaswani et al., 2017, section 6.1)."""

import tensorflow as tf

from keras_bert.training.callbacks import Callback
from keras_bert.training.snapshots import Snapshots


class WeightAverage(Callback):
    """A callback that keeps the weights of the last `count` evaluations; `model` is a function that returns the model.

    Example:
        average = WeightAverage("run/averaged", lambda: trainer.model, count=5)
        trainer = Trainer(..., callbacks=[average])
        trainer.fit(batches, epochs=30, evaluation=dev)
        average.assign()
    """

    def __init__(self, directory, model, count):
        self._snapshots, self._model = Snapshots(directory, keep=count), model

    def on_train_begin(self, settings, step):
        if step == 0:
            self._snapshots.keep_only()

    def on_evaluation(self, step, results):
        self._snapshots.save(step, self._weights(), {})

    def assign(self):
        """Sets the weights of the model to the mean of those that were kept; returns their steps."""
        steps, weights, sums = self._snapshots.steps(), self._weights(), None
        for step in steps:
            self._snapshots.restore(weights, step=step)
            values = [tf.convert_to_tensor(value) for value in weights.values()]
            sums = values if sums is None else [a + b for a, b in zip(sums, values, strict=True)]
        for variable, total in zip(weights.values(), sums or [], strict=False):
            if variable.dtype.is_floating:
                variable.assign(total / len(steps))
        return steps

    def _weights(self):
        return {f"weight/{index}": weight.value for index, weight in enumerate(self._model().weights)}

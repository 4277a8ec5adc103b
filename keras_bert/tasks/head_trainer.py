"""Trains the head of a sentence classifier on vectors that are computed once."""

import dataclasses
import logging

import keras
import numpy as np
import tensorflow as tf

from keras_bert.heads.registry import head_named
from keras_bert.heads.sentence_classification import SentenceClassification
from keras_bert.models.description import layers_of
from keras_bert.tasks.class_name_rows import HeadRows, held_out_loss, name_inputs, name_rows
from keras_bert.tasks.linear_head import fit_head
from keras_bert.tasks.stages import evaluation_batches
from keras_bert.training.evaluation import Evaluator

_LOG = logging.getLogger("keras_bert")
_BATCH_SIZE = 64
_FEW_BATCHES = 4  # So many take less time than to trace a graph of the encoder.


class HeadTrainer:
    """Fits the last layer of a sentence classifier to the vectors of the rows of a task.

    Like a `Trainer`, it evaluates the model and predicts, from the same vectors and without graphs.

    Args:
        model: a model from `build_sentence_classifier`.
        task: the `Task` with the rows.
        tries_names: bool, whether names of classes are extra texts where cross-validation says so. Defaults to `False`.

    Attributes:
        model: the model, trained.
        losses: dict with the loss on the rows to train on.
    """

    def __init__(self, model, task, tries_names=False):
        self.model = model
        self._task = task
        self._layer = layers_of(model)[head_named(SentenceClassification.name).layer]
        self._vectors = {}  # By the inputs, which are those of all splits that have the same rows.
        self.losses = self._fit(task.splits["train"][0], tries_names)

    @property
    def loss_names(self):
        """The names of the losses that are minimized, a list."""
        return [loss.name for loss in self._task.training.losses]

    def _fit(self, split, tries_names):
        """Fits the layer to a split, and returns the loss by its name."""
        vectors = self._vectors_of(split)
        targets = np.asarray(split.targets)
        num_classes = None
        if self._task.labels is not None and targets.ndim == 1:
            num_classes = len(self._task.labels)
        weights = self._row_weights(targets)
        head = None
        if tries_names:
            head = self._fit_with_names(vectors, targets, weights)
        if head is None:
            head = fit_head(vectors, targets, num_classes, row_weights=weights)
        self._layer.set_weights([head.kernel, head.bias])
        _LOG.info("    head: %d vectors, penalty %g, loss %.4g", len(vectors), head.penalty, head.loss)
        return {"loss": head.loss}

    def _fit_with_names(self, vectors, targets, weights):
        """Returns the head of the rows and the names of their classes; `None` if it is no better on held-out rows."""
        inputs = name_inputs(self._task)
        if inputs is None:
            return None
        num_classes = len(self._task.labels)
        if weights is None:
            weights = np.ones(len(targets))
        rows = HeadRows(vectors, targets, weights)
        names = name_rows(head_vectors(self.model, inputs), self._task.training.class_weights())
        without_names = held_out_loss(rows, num_classes)
        with_names = held_out_loss(rows, num_classes, names)
        if with_names >= without_names:
            return None
        _LOG.info(
            "    class names: extra texts; cross-validated loss %.3g, without them %.3g", with_names, without_names
        )
        head = rows.joined(names).fit(num_classes)
        return dataclasses.replace(head, loss=rows.loss(head) / len(targets))

    def _row_weights(self, targets):
        """Returns the weights of the losses by `class_weight`, in the shape of the targets, or `None`."""
        if self._task.labels is None:
            return None
        weights = self._task.training.class_weights()
        if weights is None:
            return None
        if targets.ndim == 1:
            return np.array(weights)[targets]
        pairs = np.array(weights)  # Of the rows without and with each label.
        return np.where(targets > 0, pairs[:, 1], pairs[:, 0])

    def _vectors_of(self, split):
        """Returns the vectors of the rows of a split, computed once."""
        key = id(split.inputs)
        if key not in self._vectors:
            self._vectors[key] = head_vectors(self.model, split.inputs)
        return self._vectors[key]

    def evaluate(self, batches):
        """Returns the losses and the scores over all rows of the batches of a split, a dict of floats."""
        results, _ = self.evaluate_with_outputs(batches)
        return results

    def evaluate_with_outputs(self, batches):
        """Returns the results of `evaluate`, and the outputs of `predict`."""
        split = self._split_of(batches)
        outputs = self.predict(batches)
        are_rows = tf.ones([len(outputs["logits"])])  # None is padding.
        results = {}
        for loss in self._task.training.losses:
            total, weight = loss.sums(split.targets, outputs, are_rows)
            mean = total.numpy() / weight.numpy() if weight else np.nan
            finish = loss.finish or float
            results[loss.name] = finish(mean)
        results |= self._task.report.score(split.targets, outputs)
        return {name: float(value) for name, value in results.items()}, outputs

    def predict(self, batches):
        """Returns the outputs of the model for all rows of the batches of a split, a dict of arrays."""
        vectors = self._vectors_of(self._split_of(batches))
        return {"logits": np.asarray(self._layer(vectors))}

    def fitted_outputs(self, batches):
        """Returns what `predict` returns, as `Trainer.fitted_outputs` does."""
        return self.predict(batches)

    def _split_of(self, batches):
        """Returns the split of the task that batches are those of."""
        for splits in self._task.splits.values():
            for split in splits:
                if split.batches is batches:
                    return split
        raise ValueError(f"`batches` must be those of a split of the task. Received: {batches}")


def head_vectors(model, inputs):
    """Returns the vectors that the head of a sentence classifier reads, float32 `(rows, width)`."""
    layer = layers_of(model)[head_named(SentenceClassification.name).layer]
    vectors = keras.Model(model.input, {"vectors": layer.input})
    rows = inputs["token_ids"].shape[0]
    batches = evaluation_batches(inputs, batch_size=min(_BATCH_SIZE, rows))
    is_traced = batches.steps > _FEW_BATCHES
    evaluator = Evaluator(vectors, tf.distribute.get_strategy(), [], traced=is_traced)
    return evaluator.outputs(batches).outputs["vectors"]

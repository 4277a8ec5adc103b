"""Computes the outputs and losses of a model for all rows, in order, on any strategy; keeps logits in a file."""

import functools
import hashlib
import json
import logging
import math
import pathlib
import zipfile
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.data.bucketing import Batches
from keras_bert.data.token_rows import as_tensor
from keras_bert.files import add_array, replacing
from keras_bert.progress import track
from keras_bert.training.distribution import dividing, gather_rows, replica_dataset

_LOG = logging.getLogger("keras_bert")
_KEYS = "keys of model and rows"  # In files of outputs.


class Evaluation(NamedTuple):
    """Outputs and targets of all rows in order, NumPy arrays or `None` if they were not kept; the losses by name."""

    outputs: Any
    targets: Any
    losses: dict


class ComputedRows(NamedTuple):
    """The rows of a batch without filler, for each tensor of the outputs and of the targets a NumPy array."""

    outputs: list
    targets: list


class Evaluator:
    """Runs a model, built in the strategy's scope, on batches, each row once.

    Each graph is traced for the batches as the dataset describes them, not for the shapes of those that come first:
    what a batch is computed by does not depend on the batches before it. All graphs share one trace of the model.
    Without `traced`, there are no graphs: the first few batches take less time so.
    """

    def __init__(self, model, strategy, losses, show=True, traced=True):
        self._model = model
        self._strategy = strategy
        self._losses = losses
        self._show = show
        self._traced = traced
        self._forward = self._model_outputs
        if traced:
            self._forward = tf.function(self._model_outputs, autograph=False)
        self._graphs = {}
        self._divide = dividing()
        self._source = None
        self._dataset = None

    def outputs(self, batches, keep=True, with_losses=False, check=lambda: None):
        """Returns the `Evaluation` of an epoch; outputs and targets are there if they are to be kept.

        In batches of other lengths, signed integer targets are padded with -1, as in `Batches`, the rest with zeros.
        `check` is called before each batch, and may raise.
        """
        dataset = self._replica_dataset(batches)
        graph = self._graph(dataset.element_spec[:-1], keep, with_losses)
        what = "evaluating, batches" if with_losses else "predicting, batches"
        losses = self._losses if with_losses else []
        sums = np.zeros([len(losses), 2])
        computed = []  # Of each batch, if its rows are kept.
        tracked = track(dataset, what, total=batches.steps, show=self._show)
        for inputs, targets_and_weights, real, _ in tracked:
            check()
            rows, batch_sums = graph(inputs, targets_and_weights, real)
            sums += batch_sums.numpy()
            if keep:
                outputs, targets, real_rows = rows
                computed.append(_real_rows(outputs, targets, real_rows.numpy() > 0))
        results = _finished_means(losses, sums)
        if not keep:
            return Evaluation(None, None, results)
        # Any batch has the structure of all.
        order = _order(batches)
        all_outputs = _all_rows(outputs, [rows.outputs for rows in computed], order, padding=0)
        all_targets = _all_rows(targets, [rows.targets for rows in computed], order, padding=-1)
        return Evaluation(all_outputs, all_targets, results)

    def _replica_dataset(self, batches):
        """Returns the dataset of some batches for the replicas; of the last ones, the same dataset again."""
        # Otherwise every evaluation would trace the input pipeline again.
        if batches is not self._source:
            self._dataset = replica_dataset(
                self._strategy, lambda: batches.dataset(0, 0).map(_with_real_flags), self._divide
            )
            self._source = batches
        return self._dataset

    def _graph(self, specs, keep, with_losses):
        """Returns the function of batches of these specs, traced once."""
        compute = functools.partial(self._computed, keep=keep, with_losses=with_losses)
        if not self._traced:
            return compute
        key = (str(specs), keep, with_losses)
        if key not in self._graphs:
            signature = _signature(specs)
            if signature is None:
                options = {"reduce_retracing": True}
            else:
                options = {"input_signature": signature}
            self._graphs[key] = tf.function(compute, autograph=False, **options)
        return self._graphs[key]

    def _model_outputs(self, inputs):
        return self._strategy.run(functools.partial(self._model, training=False), (inputs,))

    def _computed(self, inputs, targets, real, keep, with_losses):
        """Returns the outputs, targets and real flags of the rows of a global batch if `keep`; and the loss sums.

        `targets` are a pair with the weights of the rows, see `_with_real_flags`.
        """

        def loss_sums(outputs, targets_and_weights, real):
            targets, weights = targets_and_weights
            sums = [tf.zeros([0, 2])]
            for loss in self._losses if with_losses else []:
                sums.append([self._sums(loss, targets, outputs, weights * real)])
            return tf.concat(sums, 0)

        outputs = self._forward(inputs)
        sums = self._strategy.run(loss_sums, (outputs, targets, real))
        rows = ()
        if keep:
            gather = functools.partial(self._strategy.gather, axis=0)
            gathered = tf.nest.map_structure(gather, (outputs, targets, real))
            all_outputs, (all_targets, _), all_real = gathered
            rows = (all_outputs, all_targets, all_real)
        return rows, self._strategy.reduce(tf.distribute.ReduceOp.SUM, sums, axis=None)

    def _sums(self, loss, targets, outputs, weights):
        """Returns this replica's share of the sums of a loss over all replicas, see `Loss.sums`."""
        if not loss.together:
            return loss.sums(targets, outputs, weights)
        targets, outputs, weights = gather_rows((targets, outputs, weights))
        sums = loss.sums(targets, outputs, weights)  # The same on every replica.
        return [value / self._strategy.num_replicas_in_sync for value in sums]


def _signature(specs):
    """Returns the specs of batches as the signature of a graph; `None` if they leave out the number of axes."""
    for part in tf.nest.flatten(specs, expand_composites=True):
        if part.shape.rank is None:
            return None
    return list(specs)


@tf.autograph.experimental.do_not_convert
def _with_real_flags(inputs, targets, weights):
    """Returns the weights beside the targets, and 1 for each row, which distinguishes weight 0 from filler rows."""
    if targets is None:
        targets = ()
    return inputs, (targets, weights), tf.ones_like(weights)


def _real_rows(outputs, targets, is_real):
    """Returns the `ComputedRows` of a batch."""
    return ComputedRows(
        outputs=[values.numpy()[is_real] for values in tf.nest.flatten(outputs)],
        targets=[values.numpy()[is_real] for values in tf.nest.flatten(targets)],
    )


def _finished_means(losses, sums):
    """Returns the losses of all rows by name, given the sums of their values and weights; NaN without weights."""
    means = {}
    for loss, (value, weight) in zip(losses, sums, strict=True):
        finish = loss.finish or float
        means[loss.name] = finish(value / weight) if weight else math.nan
    return means


def _all_rows(structure, batches, order, padding):
    """Returns the rows of all batches, lists of arrays, in an order, as a structure of arrays."""
    arrays = [_stacked(values, padding)[order] for values in zip(*batches, strict=True)]
    return tf.nest.pack_sequence_as(structure, arrays)


def _order(batches):
    """Returns the positions of the rows among the computed rows, without filler."""
    batches_of_rows = batches.row_indices(0)
    if batches_of_rows is None:
        return slice(None)
    rows = np.concatenate(batches_of_rows)
    fillers = np.sum(rows < 0)
    return np.argsort(rows, kind="stable")[fillers:]


def _stacked(arrays, padding):
    """Concatenates arrays; if other axes differ, pads signed integers with `padding` and the rest with zeros."""
    filler_value = padding if arrays[0].dtype.kind == "i" else 0
    shape = np.max([array.shape[1:] for array in arrays], axis=0)
    padded = []
    for array in arrays:
        lacking = np.subtract(shape, array.shape[1:]).astype(int)
        if lacking.any():
            widths = [(0, 0)]
            widths.extend((0, size) for size in lacking)
            array = np.pad(array, widths, constant_values=filler_value)
        padded.append(array)
    return np.concatenate(padded)


def cached_outputs(path, model, inputs, key: str, batch_size: int = 64, make_batches=None):
    """Returns the outputs for ragged inputs, a dict of arrays, from an `.npz` file if it has those of this model.

    Otherwise the file is replaced. `key` identifies the model, see `weights_fingerprint`. `make_batches` is a function
    of inputs and `batch_size`, by default `Batches`.
    """
    path = pathlib.Path(path)
    keys = np.array([key, rows_fingerprint(inputs)])
    rows = f"{path.stem}: {inputs['token_ids'].shape[0]:,} rows"
    stored = _stored_outputs(path, keys)
    if stored is not None:
        _LOG.info("  found logits of %s", rows)
        return stored
    _LOG.info("  computing logits of %s", rows)
    if make_batches is None:
        make_batches = functools.partial(Batches, shuffle=False)
    batches = make_batches(inputs, batch_size=batch_size)
    outputs = Evaluator(model, tf.distribute.get_strategy(), []).outputs(batches).outputs
    for values in outputs.values():
        if not np.isfinite(values).all():
            raise ValueError(f"the logits of {rows} are not finite. Expected a model with finite logits")
    with replacing(path) as temporary:
        np.savez(temporary, **{_KEYS: keys}, **outputs)
    return outputs


def _stored_outputs(path, keys):
    """Returns the outputs in a file, or `None`; `numpy.load` verifies checksums."""
    try:
        with np.load(path) as file:
            if not np.array_equal(file[_KEYS], keys):
                return None
            return {name: file[name] for name in file.files if name != _KEYS}
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
        return None


def weights_fingerprint(model, **settings):
    """Returns a hash of the weights of a model and of further settings, to know its stored outputs again.

    Args:
        model: a `keras.Model`.
        **settings: JSON values, what else the outputs depend on.

    Example:
        key = weights_fingerprint(bert.encoder, layer=-2)
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, allow_nan=False).encode())
    for weight in model.weights:
        if not weight.path.endswith("seed_generator_state"):
            add_array(digest, np.asarray(weight))
    return digest.hexdigest()


def rows_fingerprint(inputs):
    """Returns a hash of a dict of ragged model inputs, `(rows, length)`, to know their stored outputs again."""
    digest = hashlib.sha256()
    for name in sorted(inputs):
        digest.update(name.encode())
        feature = as_tensor(inputs[name])
        for splits in feature.nested_row_splits:
            add_array(digest, splits.numpy())
        add_array(digest, feature.flat_values.numpy())
    return digest.hexdigest()

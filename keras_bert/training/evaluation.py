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


class Evaluator:
    """Runs a model, built in the strategy's scope, on batches, each row once.

    Each graph is traced for the batches as the dataset describes them, not for the shapes of those that come first:
    what a batch is computed by does not depend on the batches before it. All graphs share one trace of the model.
    Without `traced`, there are no graphs: the first few batches take less time so.
    """

    def __init__(self, model, strategy, losses, show=True, traced=True):
        self._model, self._strategy, self._losses, self._show = model, strategy, losses, show
        self._traced, self._forward = traced, self._model_outputs
        if traced:
            self._forward = tf.function(self._model_outputs, autograph=False)
        self._graphs = {}
        self._divide, self._source, self._dataset = dividing(), None, None

    def outputs(self, batches, keep=True, with_losses=False, check=lambda: None):
        """Returns the `Evaluation` of an epoch; outputs and targets are there if they are to be kept.

        In batches of other lengths, signed integer targets are padded with -1, as in `Batches`, the rest with zeros.
        `check` is called before each batch, and may raise.
        """
        losses = self._losses if with_losses else []
        sums, parts = np.zeros([len(losses), 2]), []
        if batches is not self._source:  # Otherwise every evaluation would trace the input pipeline again.
            self._dataset = replica_dataset(self._strategy, lambda: batches.dataset(0, 0).map(_all_rows), self._divide)
            self._source = batches
        graph = self._graph(self._dataset.element_spec[:-1], keep, with_losses)
        what = "evaluating, batches" if with_losses else "predicting, batches"
        for *batch, _ in track(self._dataset, what, total=batches.steps, show=self._show):
            check()
            rows, batch_sums = graph(*batch)
            sums += batch_sums.numpy()
            if keep:
                outputs, targets, real = rows
                real = real.numpy() > 0
                parts.append([[part.numpy()[real] for part in tf.nest.flatten(tree)] for tree in (outputs, targets)])
        results = {
            loss.name: (loss.finish or float)(value / weight) if weight else math.nan
            for loss, (value, weight) in zip(losses, sums, strict=True)
        }
        if not keep:
            return Evaluation(None, None, results)
        order, arrays = _order(batches), []
        for tree, batches_of_tree, padding in zip((outputs, targets), zip(*parts, strict=True), (0, -1), strict=True):
            flat = [_stacked(values, padding)[order] for values in zip(*batches_of_tree, strict=True)]
            arrays.append(tf.nest.pack_sequence_as(tree, flat))
        return Evaluation(*arrays, results)

    def _graph(self, specs, keep, with_losses):
        """Returns the function of batches of these specs, traced once."""
        key = (str(specs), keep, with_losses)
        compute = functools.partial(self._computed, keep=keep, with_losses=with_losses)
        if not self._traced:
            return compute
        if key not in self._graphs:
            signature = _signature(specs)
            options = {"reduce_retracing": True} if signature is None else {"input_signature": signature}
            self._graphs[key] = tf.function(compute, autograph=False, **options)
        return self._graphs[key]

    def _model_outputs(self, inputs):
        return self._strategy.run(functools.partial(self._model, training=False), (inputs,))

    def _computed(self, inputs, targets, real, keep, with_losses):
        """Returns the outputs, targets and real flags of the rows of a global batch if `keep`; and the loss sums."""

        def loss_sums(outputs, targets, real):
            targets, weights = targets
            sums = [tf.zeros([0, 2])]
            for loss in self._losses if with_losses else []:
                sums.append([self._sums(loss, targets, outputs, weights * real)])
            return tf.concat(sums, 0)

        outputs = self._forward(inputs)
        sums = self._strategy.run(loss_sums, (outputs, targets, real))
        rows = ()
        if keep:
            rows = tf.nest.map_structure(lambda value: self._strategy.gather(value, 0), (outputs, targets, real))
            rows = (rows[0], rows[1][0], rows[2])
        return rows, self._strategy.reduce(tf.distribute.ReduceOp.SUM, sums, axis=None)

    def _sums(self, loss, targets, outputs, weights):
        if not loss.together:
            return loss.sums(targets, outputs, weights)
        sums = loss.sums(*gather_rows((targets, outputs, weights)))  # The same on every replica.
        return [value / self._strategy.num_replicas_in_sync for value in sums]


def _signature(specs):
    """Returns the specs of batches as the signature of a graph; `None` if they leave out the number of axes."""
    parts = tf.nest.flatten(specs, expand_composites=True)
    return None if any(part.shape.rank is None for part in parts) else list(specs)


@tf.autograph.experimental.do_not_convert
def _all_rows(inputs, targets, weights):
    """Distinguishes rows of weight 0 from filler rows."""
    return inputs, (() if targets is None else targets, weights), tf.ones_like(weights)


def _order(batches):
    """Returns the positions of the rows among the computed rows, without filler."""
    batches_of_rows = batches.row_indices(0)
    if batches_of_rows is None:
        return slice(None)
    rows = np.concatenate(batches_of_rows)
    return np.argsort(rows, kind="stable")[np.sum(rows < 0) :]


def _stacked(arrays, padding):
    """Concatenates arrays; if other axes differ, pads signed integers with `padding` and the rest with zeros."""
    padding = padding if arrays[0].dtype.kind == "i" else 0
    shape = np.max([array.shape[1:] for array in arrays], axis=0)
    padded = []
    for array in arrays:
        lacking = np.subtract(shape, array.shape[1:]).astype(int)
        widths = [(0, 0), *((0, size) for size in lacking)]
        padded.append(np.pad(array, widths, constant_values=padding) if lacking.any() else array)
    return np.concatenate(padded)


def cached_outputs(path, model, inputs, key: str, batch_size: int = 64, make_batches=None):
    """Returns the outputs for ragged inputs, a dict of arrays, from an `.npz` file if it has those of this model.

    Otherwise the file is replaced. `key` identifies the model, see `weights_fingerprint`. `make_batches` is a function
    of inputs and `batch_size`, by default `Batches`.
    """
    path, keys = pathlib.Path(path), np.array([key, rows_fingerprint(inputs)])
    outputs = _read(path, keys)
    rows = f"{path.stem}: {inputs['token_ids'].shape[0]:,} rows"
    _LOG.info("  %s logits of %s", "computing" if outputs is None else "found", rows)
    if outputs is None:
        make = make_batches or functools.partial(Batches, shuffle=False)
        batches = make(inputs, batch_size=batch_size)
        outputs = Evaluator(model, tf.distribute.get_strategy(), []).outputs(batches).outputs
        if not all(np.isfinite(values).all() for values in outputs.values()):
            raise ValueError(f"the logits of {rows} are not finite. Expected a model with finite logits")
        with replacing(path) as temporary:
            np.savez(temporary, **{_KEYS: keys}, **outputs)
    return outputs


def _read(path, keys):
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

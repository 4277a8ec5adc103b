"""Logits of a model for all rows, computed once and kept in a file."""

import hashlib
import json
import logging
import pathlib
import zipfile

import numpy as np
import tensorflow as tf

from keras_bert.data.bucketing import Batches
from keras_bert.files import add_array, replacing
from keras_bert.training.evaluation import Evaluator

_LOG = logging.getLogger("keras_bert")


def cached_logits(path, model, inputs, key: str, batch_size: int = 64):
    """Returns the logits of a model for all rows, float32 `(rows, classes)`, from an `.npz` file if it has them.

    A file that is damaged, or that has the logits of another model or of other rows, is replaced. `inputs` is a dict of
    ragged model inputs, `(rows, length)`; `key` identifies the model, see `weights_fingerprint`.
    """
    path, keys = pathlib.Path(path), np.array([key, rows_fingerprint(inputs)])
    logits = _read(path, keys)
    rows = f"{path.stem}: {inputs['token_ids'].shape[0]:,} rows"
    _LOG.info("  %s logits of %s", "computing" if logits is None else "found", rows)
    if logits is None:
        batches = Batches(inputs, batch_size=batch_size, shuffle=False)
        logits = Evaluator(model, tf.distribute.get_strategy(), []).outputs(batches)[0]["logits"]
        if not np.isfinite(logits).all():
            raise ValueError(f"the logits of {rows} are not finite. Expected a model with finite logits")
        with replacing(path) as temporary:
            np.savez(temporary, keys=keys, logits=logits)
    return logits


def _read(path, keys):
    """Returns the logits in a file, or `None`; `numpy.load` verifies checksums."""
    try:
        with np.load(path) as file:
            return file["logits"] if np.array_equal(file["keys"], keys) else None
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
        return None


def weights_fingerprint(model, **settings):
    """Returns a hash of the weights of a model and of further settings, JSON values."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for weight in model.weights:
        if not weight.path.endswith("seed_generator_state"):
            add_array(digest, np.asarray(weight))
    return digest.hexdigest()


def rows_fingerprint(inputs):
    """Returns a hash of a dict of ragged model inputs."""
    digest = hashlib.sha256()
    for name in sorted(inputs):
        digest.update(name.encode())
        add_array(digest, inputs[name].row_splits.numpy())
        add_array(digest, inputs[name].values.numpy())
    return digest.hexdigest()

"""Features of all tokens of all rows, computed once by a model and kept in a memory-mapped file."""

import pathlib
import shutil
import time

import numpy as np
import tensorflow as tf

from keras_bert.data import Batches
from keras_bert.files import read_json, replacing, write_json
from keras_bert.runs import rows_fingerprint, track


class FeatureCache:
    """The output `features` of a model for the tokens of all rows, "float16" or "float32", in one `.npy` file.

    A file is only used if it is complete and was computed by the same model from the same rows; otherwise, `compute`
    replaces it. Its metadata are in a JSON file next to it. `inputs` are ragged model inputs, `(rows, length)`,
    including `padding_mask`; `key` is a JSON value that identifies the model, see `weights_fingerprint`.

    Example:
        cache = FeatureCache("features/dev.npy", inputs, 1536, key=weights_fingerprint(extractor))
        cache.compute(extractor)
        batches = FeatureBatches(cache, targets, batch_size=32)
    """

    def __init__(self, path, inputs, width: int, dtype: str = "float16", key=None):
        if dtype not in ("float16", "float32"):
            raise ValueError(f"`dtype` must be 'float16' or 'float32'. Received: dtype={dtype!r}")
        self.path = pathlib.Path(path)
        self.width = width
        self.dtype = np.dtype(dtype)
        self.lengths = inputs["padding_mask"].row_lengths().numpy()
        self._inputs = inputs
        self._array = None  # The features, after `compute`.
        self._metadata = self.path.with_suffix(".json")
        self._ends = np.cumsum(self.lengths)
        self._key = {
            "model": key,
            "rows": rows_fingerprint(inputs),
            "shape": [self.tokens, width],
            "dtype": dtype,
        }

    @property
    def tokens(self):
        """The number of tokens of all rows, without padding."""
        return int(self.lengths.sum())

    @property
    def size(self):
        """The number of bytes of the features."""
        return self.tokens * self.width * self.dtype.itemsize

    def __str__(self):
        shape = f"{self.tokens:,} tokens x {self.width:,} x {self.dtype.itemsize} bytes"
        return f"{shape} = {_amount(self.size)}"

    def metadata(self):
        """Returns what is known of a complete file that fits, a dict with `seconds`; `None` if there is none."""
        if not self.path.is_file() or not self._metadata.is_file():
            return None
        if self.path.stat().st_size < self.size:
            return None
        try:
            metadata = read_json(self._metadata)
        except ValueError:
            return None
        return metadata if metadata.get("key") == self._key else None

    def compute(self, model, batch_size: int = 64):
        """Computes the features unless there is a file that fits; an interrupted computation starts again.

        The model returns `features`, `(batch, length, width)`.
        """
        if self.metadata() is None:
            began = time.monotonic()
            for path in (self._metadata, self.path):
                path.unlink(missing_ok=True)
            with replacing(self.path) as temporary:
                self._check_space()
                self._write(temporary, model, batch_size)
            write_json(self._metadata, {"key": self._key, "seconds": round(time.monotonic() - began, 3)})
        self._array = np.load(self.path, mmap_mode="r")

    def _check_space(self):
        """Raises an error if the features do not fit on the disk."""
        free = shutil.disk_usage(self.path.parent).free
        if self.size > free:
            raise ValueError(
                f"{self.path.parent}: the features need {_amount(self.size)} of disk space, {_amount(free)} "
                "are free. Expected features of fewer layers, such as 'last', float16, shorter sequences or more space"
            )

    def _write(self, path, model, batch_size):
        """Computes the features of all rows into a file."""

        @tf.function(reduce_retracing=True, autograph=False)
        def run(inputs):
            return tf.cast(model(inputs, training=False)["features"], self.dtype)

        array = np.lib.format.open_memmap(path, "w+", self.dtype, (self.tokens, self.width))
        batches = Batches(self._inputs, batch_size=batch_size, shuffle=False)
        tracked = track(batches.dataset(), "computing features, batches", total=batches.steps)
        for (inputs, _, _), rows in zip(tracked, batches.row_indices(), strict=True):
            features = run(inputs).numpy()
            for row, padded in zip(rows[rows >= 0], features, strict=False):
                values = padded[: self.lengths[row]]
                self._check_finite(row, values)
                array[self._tokens_of(row)] = values
        array.flush()

    def _check_finite(self, row, values):
        """Raises an error for features of a row that are not finite."""
        if np.isfinite(values).all():
            return
        fix = "use float32" if self.dtype == np.float16 else "check the model"
        raise ValueError(
            f"the features of row {row} are not finite in {self.dtype.name}. Expected finite features: {fix}"
        )

    def _tokens_of(self, row):
        """Returns where the tokens of a row are in the file."""
        return slice(self._ends[row] - self.lengths[row], self._ends[row])

    def read(self, rows, length):
        """Returns the features of rows, `(rows, length, width)`, padded with zeros."""
        batch = np.zeros((len(rows), length, self.width), self.dtype)
        for place, row in zip(batch, rows, strict=True):
            place[: self.lengths[row]] = self._array[self._tokens_of(row)]
        return batch


class FeatureBatches(Batches):
    """`Batches` of the features in a `FeatureCache`, after its `compute`, and of `padding_mask`."""

    def __init__(self, cache, targets=None, **options):
        self._cache = cache
        mask = tf.RaggedTensor.from_row_lengths(np.ones(cache.tokens, np.int32), cache.lengths)
        super().__init__({"row": np.arange(len(cache.lengths)), "padding_mask": mask}, targets, **options)

    def _inputs(self, rows, length):
        inputs = super()._inputs(rows, length)
        mask = inputs["padding_mask"]
        features = tf.numpy_function(self._cache.read, [inputs["row"], tf.shape(mask)[1]], self._cache.dtype)
        features.set_shape([*mask.shape, self._cache.width])
        return {"features": features, "padding_mask": mask}


def _amount(size):
    """Formats a number of bytes."""
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"

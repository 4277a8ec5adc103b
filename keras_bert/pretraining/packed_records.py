"""Reads pre-training records as batches of packed rows: several examples in each row, hardly any padding."""

import functools

import numpy as np
import tensorflow as tf

from keras_bert.data.packed_batches import draw_texts, pack, plan_rows
from keras_bert.pretraining.dataset import OPEN_FILES, Records, read_records, with_masks
from keras_bert.training.progress import track

_WINDOW = 2**14  # Examples of a file that are packed together.


class PackedRecords(Records):
    """Packs the examples of records without masks into rows of the same length, for `build_packed`.

    Consecutive examples of a file are packed together, 16,384 at a time: rows of several files are mixed. Each epoch
    contains every example once, in other rows. Masks are drawn for rows: 15% of the tokens of a row are predicted.

    The arguments and the other attributes are those of `Records`; a batch has `batch_size` rows.

    Attributes:
        texts: int, the largest number of examples in a row.
        computed: int, tokens per epoch, including padding.
    """

    def __init__(self, source, vocabulary=None, batch_size=32, masking=None, causal=False, shuffle=True, seed=0):
        super().__init__(
            source, vocabulary, batch_size=batch_size, masking=masking, causal=causal, shuffle=shuffle, seed=seed
        )
        if self.static:
            raise ValueError(f"{source}: records that already contain masks cannot be packed. Expected records without")
        rows = self.tokens = self.texts = 0
        for path in track(self._paths, "reading the lengths of the records, files"):
            for lengths in read_records(path).batch(_WINDOW).map(self._lengths).as_numpy_iterator():
                if not lengths.all():
                    raise ValueError(f"{path}: contains a record without tokens, which cannot be packed")
                plan = plan_rows(lengths, self.sequence_length)
                rows, self.tokens = rows + len(plan), self.tokens + int(lengths.sum())
                self.texts = max(self.texts, plan.shape[1])
        self.steps = -(-rows // batch_size)
        self._filler = self.steps * batch_size - rows
        self.computed = self.steps * batch_size * self.sequence_length

    def row_indices(self, epoch=0):
        raise ValueError("the examples of packed rows are not in order. Predict with `Records`")

    def dataset(self, epoch=0, start=0):
        """Returns a dataset of the batches `(inputs, targets, weights)` of an epoch, starting at step `start`."""
        epoch = epoch if self.shuffle else 0
        files = np.arange(len(self._paths))
        if self.shuffle:
            files = np.random.Generator(np.random.PCG64([self.seed, epoch])).permutation(files)
        rows = tf.data.Dataset.from_tensor_slices((files, [self._paths[file] for file in files])).interleave(
            functools.partial(self._rows_of_file, epoch),
            cycle_length=OPEN_FILES,
            num_parallel_calls=2,
            deterministic=True,
        )
        filler = tf.data.Dataset.from_tensors(
            {name: tf.zeros(spec.shape, spec.dtype) for name, spec in rows.element_spec.items()}
        )
        return self._batched(rows.concatenate(filler.repeat(self._filler)), epoch, start)

    @tf.autograph.experimental.do_not_convert
    def _lengths(self, records):
        (mask,) = tf.io.parse_example(records, {"input_mask": self._features["input_mask"]}).values()
        return tf.reduce_sum(mask, 1)

    @tf.autograph.experimental.do_not_convert
    def _rows_of_file(self, epoch, file, path):
        windows = read_records(path).batch(_WINDOW).enumerate()
        return windows.map(functools.partial(self._pack_window, epoch, file)).unbatch()

    @tf.autograph.experimental.do_not_convert
    def _pack_window(self, epoch, file, window, records):
        """Returns the packed rows of some examples, a dict."""
        parsed = tf.io.parse_example(records, self._features)
        features = {name: tf.cast(values, tf.int32) for name, values in parsed.items()}
        lengths = tf.reduce_sum(features["input_mask"], 1)
        packed = tf.numpy_function(self._draw, [lengths, epoch, file, window], tf.int32)
        packed = tf.ensure_shape(packed, [None, self.texts])
        ragged = functools.partial(tf.RaggedTensor.from_tensor, lengths=lengths)
        tokens = {"token_ids": ragged(features["input_ids"]), "segment_ids": ragged(features["segment_ids"])}
        labels = tf.gather(features["next_sentence_labels"][:, 0], tf.maximum(packed, 0))
        rows = pack(tokens, lengths, packed, self.sequence_length)
        return {**rows, "next_sentence_labels": tf.where(packed >= 0, labels, -1)}

    def _draw(self, lengths, *place):
        """Returns the examples of each row, see `draw_texts`."""
        rng = np.random.Generator(np.random.PCG64([self.seed, *map(int, place)])) if self.shuffle else None
        packed = draw_texts(plan_rows(lengths, self.sequence_length), lengths, rng)
        return np.pad(packed, [(0, 0), (0, self.texts - packed.shape[1])], constant_values=-1)

    @tf.autograph.experimental.do_not_convert
    def _batch(self, epoch, step, rows):
        inputs = dict(rows)
        labels, token_ids = inputs.pop("next_sentence_labels"), inputs.pop("token_ids")
        masked = self._masked(epoch, step, token_ids, inputs["text_numbers"])
        return *with_masks(inputs, labels, masked), tf.cast(inputs["text_numbers"][:, 0] > 0, tf.float32)

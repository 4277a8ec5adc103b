"""Reads pre-training records of this package or Google's program as batches, and masks them if necessary."""

import functools
import pathlib
import re
import struct
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.corpus import lines
from keras_bert.data.batch_source import BatchSource
from keras_bert.data.packed_batches import draw_texts, pack, plan_rows
from keras_bert.pretraining.masking import Masker, Masking
from keras_bert.pretraining.record_files import content_hash, find_records, records_vocabulary
from keras_bert.progress import track

_SHUFFLED = 2**16  # Examples to shuffle at a time.
OPEN_FILES = 16  # Files to interleave.
_HEADER, _FOOTER = 12, 4  # Bytes around a record: its length and two checksums.
_WINDOW = 2**14  # Examples of a file that are packed together.
_MASKS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")  # Features of records with masks.


class Records(BatchSource):
    """Batches of pre-training records, for `Trainer`. An epoch can start at any step.

    Dynamic masks are a function of seed, epoch and step. Without `shuffle` all epochs are identical.

    Args:
        source: an output folder of `generate`, or a glob pattern of files.
        vocabulary: a path, a list of pieces or a `Vocabulary`. Defaults to the one in the folder.
        batch_size: int, the batch size. Defaults to 32.
        masking: a `Masking`. Defaults to the settings of the folder, or else the paper's.
        causal: bool, whether to train a left-to-right language model, without masks. Defaults to `False`.
        shuffle: bool, whether to shuffle each epoch differently. Defaults to `True`.
        seed: int, seed of order and masks. Defaults to 0.
        limit: int, the maximum number of examples. Defaults to all.

    Attributes:
        vocabulary, sequence_length: the vocabulary and the sequence length of the records.
        settings: dict, the `Settings` of `generate`; empty for other records.
        content: str, a hash of the files, see `content_hash`.
        static: bool, whether the records contain masks.
        examples, tokens, steps: the size of an epoch. The last batch is padded with rows of weight 0.
    """

    def __init__(
        self,
        source: Any,
        vocabulary: Any = None,
        *,
        batch_size: int = 32,
        masking: Any = None,
        causal: bool = False,
        shuffle: bool = True,
        seed: int = 0,
        limit: int | None = None,
    ):
        self._paths, manifest = find_records(source)
        self.content = content_hash(self._paths)
        self.vocabulary = records_vocabulary(source, manifest, vocabulary)
        self.batch_size, self.shuffle, self.seed, self._causal = batch_size, shuffle, seed, causal
        self._features = _look(self._paths[0])
        for path in [] if manifest else self._paths[1:]:
            if _look(path) != self._features:
                raise ValueError(
                    f"{path}: the records differ in features or length from those of {self._paths[0]}. Expected "
                    f"records of one kind. Received: source={source!r}"
                )
        self.sequence_length = self._features["input_ids"].shape[0]
        self.static = _MASKS[0] in self._features
        if causal and self.static:
            raise ValueError(f"{source}: a left-to-right model needs records without masks. Received: causal=True")
        if masking is not None and self.static:
            raise ValueError(f"{source}: the records already contain masks. Expected `masking=None`")
        self.settings = manifest["recipe"] if manifest else {}
        self._masker = Masker(self.vocabulary, masking or Masking(**self.settings.get("masking", {})))
        all_examples = manifest["examples"] if manifest else sum(map(_count, self._paths))
        self.num_examples = min(all_examples, limit or all_examples)
        self.tokens = manifest["tokens"] * self.num_examples // all_examples if manifest else None
        self.steps = -(-self.num_examples // batch_size)

    def dataset(self, epoch=0, start=0):
        """Returns a dataset of the batches `(inputs, targets, weights)` of an epoch, starting at step `start`."""
        epoch = epoch if self.shuffle else 0
        paths = [self._paths[file] for file in self._files(epoch)]
        records = tf.data.Dataset.from_tensor_slices(paths).interleave(
            read_records, cycle_length=OPEN_FILES, block_length=16, num_parallel_calls=2, deterministic=True
        )
        records = records.take(self.num_examples)
        if self.shuffle:
            # Not `shuffle`, whose order depends on TensorFlow's global seed.
            parts = records.batch(min(self.num_examples, _SHUFFLED)).enumerate()
            records = parts.map(functools.partial(_shuffled, [self.seed, epoch])).unbatch()
        filler = read_records(self._paths[0]).take(1).repeat(self.steps * self.batch_size - self.num_examples)
        return self._batched(records.concatenate(filler), epoch, start)

    def _files(self, epoch):
        """Returns the order of the files in an epoch."""
        rng, files = np.random.Generator(np.random.PCG64([self.seed, epoch])), np.arange(len(self._paths))
        return rng.permutation(files) if self.shuffle else files

    def _batched(self, rows, epoch, start):
        """Returns the dataset of the batches of `rows` from step `start` on."""
        rows = rows.skip(start * self.batch_size).batch(self.batch_size, drop_remainder=True)
        steps, batch = tf.data.Dataset.range(start, self.steps), functools.partial(self._batch, epoch)
        return tf.data.Dataset.zip(steps, rows).map(batch, num_parallel_calls=2, deterministic=True)

    def row_indices(self, epoch=0):
        """Returns the row indices of each batch of an evaluation; filler rows are -1."""
        places = np.arange(self.steps * self.batch_size).reshape(self.steps, self.batch_size)
        return list(np.where(places < self.num_examples, places, -1))

    @tf.autograph.experimental.do_not_convert
    def _batch(self, epoch, step, records):
        parsed = tf.io.parse_example(records, self._features)
        features = {
            name: values if values.dtype.is_floating else tf.cast(values, tf.int32) for name, values in parsed.items()
        }
        place = step * self.batch_size + tf.range(self.batch_size, dtype=tf.int64)
        return *self._examples(epoch, step, features), tf.cast(place < self.num_examples, tf.float32)

    def _examples(self, epoch, step, features):
        """Returns the inputs and targets of a batch of parsed records."""
        if self.static:
            masked = [features[name] for name in ("input_ids", *_MASKS)]
        else:
            masked = self._masked(epoch, step, features["input_ids"], features["input_mask"])
        inputs = {"segment_ids": features["segment_ids"], "padding_mask": features["input_mask"]}
        return with_masks(inputs, features["next_sentence_labels"][:, 0], *masked)

    def _masked(self, epoch, step, ids, mask):
        """Returns the masked ids, and the positions to predict with labels and weights; `mask` numbers texts from 1."""
        if self._causal:
            return _left_to_right(ids, mask)
        noise = self._noise(epoch, step)
        predictions = self._masker.masking.predictions(self.sequence_length)

        def mask_rows(ids, *values):
            return tuple(self._masker(ids, dict(zip(noise, values, strict=True))).values())

        masked = tf.numpy_function(mask_rows, [ids, *noise.values()], [tf.int32, tf.int32, tf.int32, tf.float32])
        sizes = [self.sequence_length, predictions, predictions, predictions]
        return [tf.ensure_shape(value, [self.batch_size, size]) for value, size in zip(masked, sizes, strict=True)]

    def _noise(self, epoch, step):
        seed = tf.random.experimental.stateless_fold_in([self.seed, epoch], step)
        shapes = self._masker.noise_shapes(self.batch_size, self.sequence_length)
        return {
            name: tf.random.stateless_uniform(shape, tf.random.experimental.stateless_fold_in(seed, number))
            for number, (name, shape) in enumerate(shapes.items())
        }


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
        epoch = epoch if self.shuffle else 0
        files = self._files(epoch)
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
        return *with_masks(inputs, labels, *masked), tf.cast(inputs["text_numbers"][:, 0] > 0, tf.float32)


def with_masks(inputs, next_sentence_labels, token_ids, positions, labels, weights):
    """Returns inputs and targets of the pre-trainer, from the result of `Records._masked`."""
    targets = {"mask_labels": labels, "mask_weights": weights, "next_sentence_labels": next_sentence_labels}
    return {"token_ids": token_ids, **inputs, "mask_positions": positions}, targets


@tf.autograph.experimental.do_not_convert
def _shuffled(seed, number, records):
    seed = tf.random.experimental.stateless_fold_in(seed, number)
    return tf.random.experimental.stateless_shuffle(records, seed)


def _left_to_right(ids, mask):
    """Uses each token as the label of the previous position in its text."""
    positions = tf.broadcast_to(tf.range(ids.shape[1] - 1), [tf.shape(ids)[0], ids.shape[1] - 1])
    return ids, positions, ids[:, 1:], tf.cast((mask[:, 1:] > 0) & (mask[:, 1:] == mask[:, :-1]), tf.float32)


@tf.autograph.experimental.do_not_convert
def read_records(path):
    packed = tf.where(tf.strings.regex_full_match(path, r".*\.gz"), "GZIP", "")
    return tf.data.TFRecordDataset(path, compression_type=packed)


def sequence_length(source):
    """Returns the sequence length of the first record of a source."""
    return _look(find_records(source)[0][0])["input_ids"].shape[0]


def _look(path):
    """Returns the features of the first record, as expected by `tf.io.parse_example`."""
    try:
        (record,) = read_records(path).take(1).as_numpy_iterator()
        record_features = tf.train.Example.FromString(record).features.feature
    except Exception as error:
        reason = _plain(error) or "no record at its start"
        raise ValueError(
            f"{path}: not a file of `tf.train.Example` records, which create_pretraining_data makes ({reason})"
        ) from None
    names = ["input_ids", "input_mask", "segment_ids", "next_sentence_labels"]
    if lacking := set(names) - set(record_features):
        raise ValueError(
            f"{path}: the records lack {', '.join(sorted(lacking))}. Received: {', '.join(sorted(record_features))}"
        )
    names += _MASKS[:2] if _MASKS[0] in record_features else []
    features = {name: tf.io.FixedLenFeature([len(record_features[name].int64_list.value)], tf.int64) for name in names}
    if _MASKS[0] in features:
        features[_MASKS[2]] = tf.io.FixedLenFeature(features[_MASKS[1]].shape, tf.float32)
    return features


def _count(path):
    """Counts the records of a file; only compressed files are read completely."""
    if path.endswith(".gz"):
        for _ in lines.lines(pathlib.Path(path), longest=2**20):
            pass  # Detects truncated archives, which TensorFlow treats as complete.
        try:
            return sum(1 for _ in read_records(path))
        except tf.errors.DataLossError as error:
            raise ValueError(f"{path}: is damaged ({_plain(error)}). Copy the file again") from None
    count = place = 0
    with open(path, "rb") as file:  # TensorFlow treats a file that ends in a header as complete.
        size = file.seek(0, 2)
        while place < size:
            file.seek(place)
            header = file.read(_HEADER)
            length = struct.unpack_from("<Q", header)[0] if len(header) == _HEADER else size
            place += _HEADER + length + _FOOTER
            if place > size:
                raise ValueError(f"{path}: the record after {count:,} complete ones is truncated. Copy the file again")
            count += 1
    return count


def find_damage(source):
    """Returns a message about the first damaged record of a source, or `None`."""
    for path in find_records(source)[0]:
        count = 0
        try:
            for _ in read_records(path):
                count += 1
        except tf.errors.DataLossError as error:
            return f"{path}: the record after {count:,} complete ones is damaged ({_plain(error)})"
    return None


def _plain(error):
    """Returns TensorFlow's message without the name of the operation."""
    return re.sub(r"^\{\{.*?\}\} | \[Op:.*", "", str(error))

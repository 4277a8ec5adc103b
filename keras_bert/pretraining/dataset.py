"""Reads pre-training records of this package or Google's program as batches, and masks them if necessary."""

import functools
import pathlib
import re
import struct
from typing import Any, NamedTuple

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
# Bytes around a record: its length and two checksums.
_HEADER = 12
_FOOTER = 4
_WINDOW = 2**14  # Examples of a file that are packed together.
# Features of all records, and those of records with masks.
_FEATURES = ("input_ids", "input_mask", "segment_ids", "next_sentence_labels")
_POSITIONS = "masked_lm_positions"
_LABELS = "masked_lm_ids"
_WEIGHTS = "masked_lm_weights"


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
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self._causal = causal
        self._features = _record_features(self._paths[0])
        if manifest is None:
            _check_alike(self._paths, self._features, source)
        self.sequence_length = self._features["input_ids"].shape[0]
        self.static = _POSITIONS in self._features
        if causal and self.static:
            raise ValueError(f"{source}: a left-to-right model needs records without masks. Received: causal=True")
        if masking is not None and self.static:
            raise ValueError(f"{source}: the records already contain masks. Expected `masking=None`")
        self.settings = manifest["recipe"] if manifest else {}
        if masking is None:
            masking = Masking(**self.settings.get("masking", {}))
        self._masker = Masker(self.vocabulary, masking)
        if manifest:
            all_examples = manifest["examples"]
        else:
            all_examples = sum(_count_records(path) for path in self._paths)
        self.num_examples = min(all_examples, limit or all_examples)
        self.tokens = None
        if manifest:
            self.tokens = manifest["tokens"] * self.num_examples // all_examples
        self.steps = -(-self.num_examples // batch_size)

    def dataset(self, epoch=0, start=0):
        """Returns a dataset of the batches `(inputs, targets, weights)` of an epoch, starting at step `start`."""
        epoch = self._shuffled_epoch(epoch)
        paths = [self._paths[file] for file in self._files(epoch)]
        records = tf.data.Dataset.from_tensor_slices(paths).interleave(
            read_records, cycle_length=OPEN_FILES, block_length=16, num_parallel_calls=2, deterministic=True
        )
        records = records.take(self.num_examples)
        if self.shuffle:
            # Not `shuffle`, whose order depends on TensorFlow's global seed.
            parts = records.batch(min(self.num_examples, _SHUFFLED)).enumerate()
            records = parts.map(functools.partial(_shuffled, [self.seed, epoch])).unbatch()
        missing = self.steps * self.batch_size - self.num_examples
        filler = read_records(self._paths[0]).take(1).repeat(missing)
        return self._batched(records.concatenate(filler), epoch, start)

    def _shuffled_epoch(self, epoch):
        """Returns the epoch whose order and masks an epoch has: without shuffling, always those of the first one."""
        return epoch if self.shuffle else 0

    def _files(self, epoch):
        """Returns the order of the files in an epoch."""
        files = np.arange(len(self._paths))
        if not self.shuffle:
            return files
        return np.random.Generator(np.random.PCG64([self.seed, epoch])).permutation(files)

    def _batched(self, rows, epoch, start):
        """Returns the dataset of the batches of `rows` from step `start` on."""
        batches = rows.skip(start * self.batch_size).batch(self.batch_size, drop_remainder=True)
        steps = tf.data.Dataset.range(start, self.steps)
        make_batch = functools.partial(self._batch, epoch)
        numbered = tf.data.Dataset.zip(steps, batches)
        return numbered.map(make_batch, num_parallel_calls=2, deterministic=True)

    def row_indices(self, epoch=0):
        """Returns the row indices of each batch of an evaluation; filler rows are -1."""
        places = np.arange(self.steps * self.batch_size).reshape(self.steps, self.batch_size)
        return list(np.where(places < self.num_examples, places, -1))

    @tf.autograph.experimental.do_not_convert
    def _batch(self, epoch, step, records):
        features = {}
        for name, values in tf.io.parse_example(records, self._features).items():
            features[name] = values if values.dtype.is_floating else tf.cast(values, tf.int32)
        inputs, targets = self._inputs_and_targets(epoch, step, features)
        place = step * self.batch_size + tf.range(self.batch_size, dtype=tf.int64)
        return inputs, targets, tf.cast(place < self.num_examples, tf.float32)

    def _inputs_and_targets(self, epoch, step, features):
        """Returns the inputs and targets of a batch of parsed records."""
        if self.static:
            masked = MaskedTokens(
                token_ids=features["input_ids"],
                positions=features[_POSITIONS],
                labels=features[_LABELS],
                weights=features[_WEIGHTS],
            )
        else:
            masked = self._masked(epoch, step, features["input_ids"], features["input_mask"])
        inputs = {"segment_ids": features["segment_ids"], "padding_mask": features["input_mask"]}
        return _with_masks(inputs, features["next_sentence_labels"][:, 0], masked)

    def _masked(self, epoch, step, ids, mask):
        """Returns the `MaskedTokens` of a batch; `mask` numbers the texts of a row from 1."""
        if self._causal:
            return _left_to_right(ids, mask)
        noise = self._noise(epoch, step)

        def mask_rows(ids, *values):
            masked = self._masker(ids, dict(zip(noise, values, strict=True)))
            return masked["token_ids"], masked["positions"], masked["labels"], masked["weights"]

        arguments = [ids, *noise.values()]
        types = [tf.int32, tf.int32, tf.int32, tf.float32]
        token_ids, positions, labels, weights = tf.numpy_function(mask_rows, arguments, types)
        of_tokens = [self.batch_size, self.sequence_length]
        of_predictions = [self.batch_size, self._masker.masking.predictions(self.sequence_length)]
        return MaskedTokens(
            token_ids=tf.ensure_shape(token_ids, of_tokens),
            positions=tf.ensure_shape(positions, of_predictions),
            labels=tf.ensure_shape(labels, of_predictions),
            weights=tf.ensure_shape(weights, of_predictions),
        )

    def _noise(self, epoch, step):
        """Returns the random numbers of the masks of a batch, a function of seed, epoch and step."""
        seed = tf.random.experimental.stateless_fold_in([self.seed, epoch], step)
        shapes = self._masker.noise_shapes(self.batch_size, self.sequence_length)
        noise = {}
        for number, (name, shape) in enumerate(shapes.items()):
            own_seed = tf.random.experimental.stateless_fold_in(seed, number)
            noise[name] = tf.random.stateless_uniform(shape, own_seed)
        return noise


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
        rows = 0
        self.tokens = 0
        self.texts = 0
        for path in track(self._paths, "reading the lengths of the records, files"):
            for lengths in read_records(path).batch(_WINDOW).map(self._lengths).as_numpy_iterator():
                if not lengths.all():
                    raise ValueError(f"{path}: contains a record without tokens, which cannot be packed")
                plan = plan_rows(lengths, self.sequence_length)
                rows += len(plan)
                self.tokens += int(lengths.sum())
                self.texts = max(self.texts, plan.shape[1])
        self.steps = -(-rows // batch_size)
        self._filler = self.steps * batch_size - rows
        self.computed = self.steps * batch_size * self.sequence_length

    def row_indices(self, epoch=0):
        raise ValueError("the examples of packed rows are not in order. Predict with `Records`")

    def dataset(self, epoch=0, start=0):
        epoch = self._shuffled_epoch(epoch)
        files = self._files(epoch)
        paths = [self._paths[file] for file in files]
        rows = tf.data.Dataset.from_tensor_slices((files, paths)).interleave(
            functools.partial(self._rows_of_file, epoch),
            cycle_length=OPEN_FILES,
            num_parallel_calls=2,
            deterministic=True,
        )
        empty_row = {}
        for name, spec in rows.element_spec.items():
            empty_row[name] = tf.zeros(spec.shape, spec.dtype)
        filler = tf.data.Dataset.from_tensors(empty_row).repeat(self._filler)
        return self._batched(rows.concatenate(filler), epoch, start)

    @tf.autograph.experimental.do_not_convert
    def _lengths(self, records):
        """Returns the number of tokens of each of some records."""
        parsed = tf.io.parse_example(records, {"input_mask": self._features["input_mask"]})
        return tf.reduce_sum(parsed["input_mask"], 1)

    @tf.autograph.experimental.do_not_convert
    def _rows_of_file(self, epoch, file, path):
        """Returns the dataset of the packed rows of a file."""
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
        tokens = {
            "token_ids": tf.RaggedTensor.from_tensor(features["input_ids"], lengths=lengths),
            "segment_ids": tf.RaggedTensor.from_tensor(features["segment_ids"], lengths=lengths),
        }
        labels = tf.gather(features["next_sentence_labels"][:, 0], tf.maximum(packed, 0))
        rows = dict(pack(tokens, lengths, packed, self.sequence_length))
        rows["next_sentence_labels"] = tf.where(packed >= 0, labels, -1)
        return rows

    def _draw(self, lengths, epoch, file, window):
        """Returns the examples of each row of a window of a file, see `draw_texts`."""
        rng = None
        if self.shuffle:
            place = [int(epoch), int(file), int(window)]
            rng = np.random.Generator(np.random.PCG64([self.seed, *place]))
        packed = draw_texts(plan_rows(lengths, self.sequence_length), lengths, rng)
        missing = self.texts - packed.shape[1]
        return np.pad(packed, [(0, 0), (0, missing)], constant_values=-1)

    @tf.autograph.experimental.do_not_convert
    def _batch(self, epoch, step, rows):
        inputs = dict(rows)
        labels = inputs.pop("next_sentence_labels")
        token_ids = inputs.pop("token_ids")
        masked = self._masked(epoch, step, token_ids, inputs["text_numbers"])
        inputs, targets = _with_masks(inputs, labels, masked)
        return inputs, targets, tf.cast(inputs["text_numbers"][:, 0] > 0, tf.float32)


class MaskedTokens(NamedTuple):
    """A batch of ids with masks, and what is predicted: `(batch, predictions)` but for the ids."""

    token_ids: Any  # `(batch, length)`.
    positions: Any
    labels: Any  # The right ids.
    weights: Any  # 0 for padding.


def _with_masks(inputs, next_sentence_labels, masked):
    """Returns inputs and targets of the pre-trainer, of other inputs and the `MaskedTokens`."""
    all_inputs = {"token_ids": masked.token_ids}
    all_inputs.update(inputs)
    all_inputs["mask_positions"] = masked.positions
    targets = {
        "mask_labels": masked.labels,
        "mask_weights": masked.weights,
        "next_sentence_labels": next_sentence_labels,
    }
    return all_inputs, targets


@tf.autograph.experimental.do_not_convert
def _shuffled(epoch_seed, number, records):
    """Returns some records in another order, a function of the seed of the epoch and their number."""
    seed = tf.random.experimental.stateless_fold_in(epoch_seed, number)
    return tf.random.experimental.stateless_shuffle(records, seed)


def _left_to_right(ids, mask):
    """Returns `MaskedTokens` with each token as the label of the previous position in its text."""
    last = ids.shape[1] - 1
    is_in_text = (mask[:, 1:] > 0) & (mask[:, 1:] == mask[:, :-1])
    return MaskedTokens(
        token_ids=ids,
        positions=tf.broadcast_to(tf.range(last), [tf.shape(ids)[0], last]),
        labels=ids[:, 1:],
        weights=tf.cast(is_in_text, tf.float32),
    )


@tf.autograph.experimental.do_not_convert
def read_records(path):
    """Returns the dataset of the serialized records of a file."""
    compression = tf.where(tf.strings.regex_full_match(path, r".*\.gz"), "GZIP", "")
    return tf.data.TFRecordDataset(path, compression_type=compression)


def sequence_length(source):
    """Returns the sequence length of the first record of a source."""
    paths, _ = find_records(source)
    return _record_features(paths[0])["input_ids"].shape[0]


def _check_alike(paths, features, source):
    """Raises unless the records of all files have the features of the first one."""
    for path in paths[1:]:
        if _record_features(path) != features:
            raise ValueError(
                f"{path}: the records differ in features or length from those of {paths[0]}. Expected "
                f"records of one kind. Received: source={source!r}"
            )


def _record_features(path):
    """Returns the features of the first record, as expected by `tf.io.parse_example`."""
    try:
        (record,) = read_records(path).take(1).as_numpy_iterator()
        record_features = tf.train.Example.FromString(record).features.feature
    except Exception as error:
        reason = _without_operation(error) or "no record at its start"
        raise ValueError(
            f"{path}: not a file of `tf.train.Example` records, which create_pretraining_data makes ({reason})"
        ) from None
    lacking = set(_FEATURES) - set(record_features)
    if lacking:
        raise ValueError(
            f"{path}: the records lack {', '.join(sorted(lacking))}. Received: {', '.join(sorted(record_features))}"
        )
    names = list(_FEATURES)
    has_masks = _POSITIONS in record_features
    if has_masks:
        names += [_POSITIONS, _LABELS]
    features = {}
    for name in names:
        size = len(record_features[name].int64_list.value)
        features[name] = tf.io.FixedLenFeature([size], tf.int64)
    if has_masks:
        features[_WEIGHTS] = tf.io.FixedLenFeature(features[_LABELS].shape, tf.float32)
    return features


def _count_records(path):
    """Counts the records of a file; only compressed files are read completely."""
    if path.endswith(".gz"):
        return _count_compressed_records(path)
    count = 0
    place = 0
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        while place < size:
            file.seek(place)
            header = file.read(_HEADER)
            if len(header) < _HEADER:  # TensorFlow treats a file that ends in a header as complete.
                place = size + 1
            else:
                (length,) = struct.unpack_from("<Q", header)
                place += _HEADER + length + _FOOTER
            if place > size:
                raise ValueError(f"{path}: the record after {count:,} complete ones is truncated. Copy the file again")
            count += 1
    return count


def _count_compressed_records(path):
    """Counts the records of a compressed file, which is read as a whole."""
    for _ in lines.lines(pathlib.Path(path), longest=2**20):
        pass  # Detects truncated archives, which TensorFlow treats as complete.
    count = 0
    try:
        for _ in read_records(path):
            count += 1
    except tf.errors.DataLossError as error:
        raise ValueError(f"{path}: is damaged ({_without_operation(error)}). Copy the file again") from None
    return count


def find_damage(source):
    """Returns a message about the first damaged record of a source, or `None`."""
    paths, _ = find_records(source)
    for path in paths:
        count = 0
        try:
            for _ in read_records(path):
                count += 1
        except tf.errors.DataLossError as error:
            reason = _without_operation(error)
            return f"{path}: the record after {count:,} complete ones is damaged ({reason})"
    return None


def _without_operation(error):
    """Returns TensorFlow's message without the name of the operation."""
    return re.sub(r"^\{\{.*?\}\} | \[Op:.*", "", str(error))

"""Pre-training records for `model.fit` on any Keras backend, read and masked without TensorFlow."""

import concurrent.futures
import itertools
import pathlib

import keras
import numpy as np

from keras_bert.pretraining.masking import Masker, Masking
from keras_bert.pretraining.record_files import (
    checksums,
    content_hash,
    find_records,
    parse_example,
    record_offsets,
    records_vocabulary,
)

_AHEAD = 4  # Batches.
_READERS = concurrent.futures.ThreadPoolExecutor(2)
_FEATURES = ("input_ids", "input_mask", "segment_ids", "next_sentence_labels")
_STATIC = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")


class RecordDataset(keras.utils.PyDataset):
    """Batches of pre-training records for `model.fit` and a model from `build_pretrainer`.

    The batches of a whole run: each pass over the records has another order and other masks, which are functions of the
    seed and the step. All batches have one shape; the last one of a pass is filled with rows of weight 0. Threads read
    the next batches while the model trains: the workers of Keras repeat a batch of the first epoch on JAX.

    Args:
        source: an output folder of `generate`, or a glob pattern of uncompressed files.
        vocabulary: a path, a list of pieces or a `Vocabulary`. Defaults to the one in the folder.
        batch_size: int, the batch size. Defaults to 32.
        masking: a `Masking` for records without masks. Defaults to the settings of the folder, or else the paper's.
        next_sentence: bool, whether the model predicts next sentences. Defaults to `True`.
        steps: int, the number of batches of the run. Defaults to those of one pass.
        start: int, the first step, to resume a run. Defaults to 0.
        shuffle: bool, whether to shuffle each pass differently. Defaults to `True`.
        seed: int, seed of order and masks. Defaults to 0.
        limit: int, the maximum number of examples. Defaults to all.

    Attributes:
        vocabulary, sequence_length, examples: the vocabulary, the sequence length and the number of the records.
        settings: dict, the `Settings` of `generate`; empty for other records.
        content: str, a hash of the files, see `content_hash`.
        steps_per_pass: int, the number of batches of all records.
        start, steps: see the arguments; may be changed between calls of `fit`.

    Example:
        dataset = RecordDataset("data/128", batch_size=256, steps=100_000)
        model.compile(create_optimizer(model, 1e-4, total_steps=100_000, warmup_steps=1000), dataset.losses())
        model.fit(dataset, steps_per_epoch=1000, epochs=100, shuffle=False)  # It is shuffled.
    """

    def __init__(
        self,
        source,
        vocabulary=None,
        batch_size=32,
        masking=None,
        next_sentence=True,
        steps=None,
        start=0,
        shuffle=True,
        seed=0,
        limit=None,
    ):
        super().__init__()
        for name, value in (("batch_size", batch_size), ("steps", steps), ("limit", limit)):
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")
        paths, manifest = find_records(source)
        self.content = content_hash(paths)
        self.vocabulary = records_vocabulary(source, manifest, vocabulary)
        self.batch_size, self.shuffle, self.seed = batch_size, shuffle, seed
        self._next_sentence, self._shuffled, self._ahead = next_sentence, (None, None), {}
        if packed := [path for path in map(pathlib.Path, paths) if path.suffix == ".gz"]:
            raise ValueError(f"{packed[0]}: compressed records are read by `Records` only. Decompress the file")
        self._files = [(path, record_offsets(path)) for path in paths]
        counts = [len(offsets) for _, offsets in self._files]
        self._starts, self.examples = np.cumsum([0, *counts]), min(sum(counts), limit or sum(counts))
        if not self.examples:
            raise ValueError(f"{source}: there are no records")
        self.steps_per_pass = -(-self.examples // batch_size)
        self.steps, self.start = self.steps_per_pass if steps is None else steps, start
        if not 0 <= start < self.steps:
            raise ValueError(f"`start` must be a step of the run, 0 to {self.steps - 1}. Received: start={start}")
        self._sizes = None
        firsts = [start for start, end in itertools.pairwise(self._starts.tolist()) if start < end]
        first, *_ = self._read(firsts)
        self.sequence_length, self.static = len(first["input_ids"]), _STATIC[0] in first
        if masking is not None and self.static:
            raise ValueError(f"{source}: the records already contain masks. Expected `masking=None`")
        self.settings = manifest["recipe"] if manifest else {}
        self._masker = Masker(self.vocabulary, masking or Masking(**self.settings.get("masking", {})))

    def __len__(self):
        """The number of batches from `start` on."""
        return self.steps - self.start

    def __getitem__(self, index):
        """Returns inputs, targets and weights of a batch."""
        if not 0 <= index < len(self):
            raise IndexError(f"expected a batch from 0 to {len(self) - 1}. Received: {index}")
        first = self.start + index
        wanted = range(first, min(first + _AHEAD, max(self.steps, first + 1)))
        self._ahead = {step: self._ahead.get(step) or _READERS.submit(self._batch, step) for step in wanted}
        return self._ahead.pop(first).result()

    def _batch(self, step):
        number, step = divmod(step, self.steps_per_pass)
        rows = self._order(number)[step * self.batch_size : (step + 1) * self.batch_size]
        weights = (np.arange(self.batch_size) < len(rows)).astype("float32")
        records = self._read(np.resize(rows, self.batch_size))
        features = {name: _int32(np.stack([record[name] for record in records])) for name in records[0]}
        masked = self._masked(features, self._rng(number, 1 + step))
        inputs = {
            "token_ids": masked["token_ids"],
            "segment_ids": features["segment_ids"],
            "padding_mask": features["input_mask"],
            "mask_positions": masked["positions"],
        }
        targets = {"mlm_logits": masked["labels"]}
        sample_weights = {"mlm_logits": masked["weights"] * weights[:, None]}
        if self._next_sentence:
            targets["nsp_logits"], sample_weights["nsp_logits"] = features["next_sentence_labels"][:, 0], weights
        return inputs, targets, sample_weights

    def losses(self):
        """Returns the losses of BERT for `compile`: each is a mean over the predictions of a batch with weights."""
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
        return dict.fromkeys(["mlm_logits", *(["nsp_logits"] if self._next_sentence else [])], loss)

    def _order(self, number):
        """Returns the records in the order of a pass."""
        known, order = self._shuffled  # Read once: other threads may replace it.
        if known != number:
            order = np.arange(self.examples)
            order = self._rng(number).permutation(order) if self.shuffle else order
            self._shuffled = number, order
        return order

    def _rng(self, number, *place):
        return np.random.Generator(np.random.PCG64([self.seed, number if self.shuffle else 0, *place]))

    def _read(self, rows):
        """Returns the features of records, a list of dicts of arrays."""
        contents, stored = zip(*map(self._content, rows), strict=True)
        for row, found, expected in zip(rows, checksums(contents), stored, strict=True):
            if found != expected:
                raise ValueError(f"{self._place(row)}: is damaged. Copy the file again, or recreate the data")
        features = []
        for row, content in zip(rows, contents, strict=True):
            try:
                found = parse_example(content)
                found = {name: found[name] for name in (*_FEATURES, *(_STATIC if _STATIC[0] in found else ()))}
            except (ValueError, KeyError) as error:
                raise ValueError(f"{self._place(row)}: not an example of BERT: {error}") from None
            self._check(found, row)
            features.append(found)
        return features

    def _check(self, features, row):
        """Raises unless a record has features like the first one, and ids of the vocabulary."""
        sizes = {name: len(values) for name, values in features.items()}
        self._sizes = self._sizes or sizes
        if sizes != self._sizes:
            raise ValueError(
                f"{self._place(row)}: features or lengths differ from those of the first record. Expected records of "
                f"one kind. Received: {sizes}, first: {self._sizes}"
            )
        for name in ("input_ids", *_STATIC[1:2]):
            ids = features.get(name, np.zeros(1))
            if ids.min(initial=0) < 0 or ids.max(initial=0) >= len(self.vocabulary):
                raise ValueError(
                    f"{self._place(row)}: `{name}` has ids outside the vocabulary of {len(self.vocabulary):,} tokens. "
                    "Expected the vocabulary that the records were made with"
                )

    def _find(self, row):
        """Returns the number of the file of a record, and that of the record in it."""
        number = int(np.searchsorted(self._starts, row, "right")) - 1
        return number, int(row - self._starts[number])

    def _place(self, row):
        number, record = self._find(row)
        return f"{self._files[number][0]}: record {record:,}"

    def _content(self, row):
        """Returns a record and its checksum."""
        number, record = self._find(row)
        path, offsets = self._files[number]
        start, end = offsets[record].tolist()
        with open(path, "rb") as file:
            file.seek(start)
            content = file.read(end - start)
            return content, int.from_bytes(file.read(4), "little")

    def _masked(self, features, rng):
        """Returns the masked ids, and the positions to predict with their labels and weights."""
        if self.static:
            names = ("input_ids", *_STATIC)
            masked = ("token_ids", "positions", "labels", "weights")
            return {name: features[key] for name, key in zip(masked, names, strict=True)}
        shapes = self._masker.noise_shapes(self.batch_size, self.sequence_length)
        noise = {name: rng.random(shape, "float32") for name, shape in shapes.items()}
        return self._masker(features["input_ids"], noise)


def _int32(values):
    return values if values.dtype == "float32" else values.astype("int32")

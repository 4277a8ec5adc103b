"""How examples are made: the settings, and each of the steps for one part of a corpus."""

import collections
import dataclasses
import itertools

import numpy as np
import tensorflow as tf

from keras_bert.corpus import documents
from keras_bert.pretraining import sentence_pairs, token_store
from keras_bert.pretraining.masking import Masker, Masking
from keras_bert.pretraining.randomness import uniforms
from keras_bert.pretraining.records import serialize
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import Vocabulary

LENGTH_BINS = 8  # Of the histogram of lengths.


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The settings that make the examples what they are.

    Args:
        sequence_length: of the examples.
        next_sentence: whether examples are pairs. Without it rows are filled with text to the last place.
        static: whether masks are drawn now and written; otherwise they are drawn anew whenever the data is read.
        duplicates: how often the corpus is gone through, with other pairs and masks.
        short_seq_prob: the share of pairs that are shorter on purpose.
        masking: a `Masking`.
        seed: of all randomness.
        form: "sentences", one on each line and a blank line between documents; "paragraphs", likewise; or "jsonl", a
            document on each line.
        field: where JSON lines have the text.
        lowercase, strip_accents: as of the tokenizer.
    """

    sequence_length: int = 128
    next_sentence: bool = True
    static: bool = False
    duplicates: int = 1
    short_seq_prob: float = 0.1
    masking: Masking = dataclasses.field(default_factory=Masking)
    seed: int = 1
    form: str = "sentences"
    field: str = "text"
    lowercase: bool = True
    strip_accents: bool | None = None

    def __post_init__(self):
        for name, least in (("sequence_length", 8), ("duplicates", 1), ("seed", 0)):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}. Received: {name}={getattr(self, name)!r}")
        if not 0 <= self.short_seq_prob <= 1:
            raise ValueError(f"`short_seq_prob` must be from 0 to 1. Received: short_seq_prob={self.short_seq_prob}")
        if self.form not in documents.FORMATS:
            raise ValueError(f"`form` must be one of {', '.join(documents.FORMATS)}. Received: form={self.form!r}")


class Maker:
    """Makes examples by a recipe with one vocabulary; every step a function of its arguments alone.

    Args:
        vocabulary: a path, a list of pieces or a `Vocabulary`.
        recipe: a `Recipe`.
    """

    def __init__(self, vocabulary, recipe):
        self.vocabulary, self.recipe = Vocabulary(vocabulary), recipe
        self._tokenizer = BertTokenizer(self.vocabulary, recipe.lowercase, recipe.strip_accents)
        self._goes_on = np.array(self.vocabulary.is_continuation)
        self._unknown = self.vocabulary.id("[UNK]")
        self._special = self.vocabulary.ids(["[CLS]", "[SEP]", "[PAD]"])
        self._masker = Masker(self.vocabulary, recipe.masking)
        spec = tf.TensorSpec([None, recipe.sequence_length], tf.int32)
        self._mask = tf.function(self._masker, input_signature=[spec, self._noise_specs()], autograph=False)

    def _noise_specs(self):
        shapes = self._masker.noise_shapes(None, self.recipe.sequence_length)
        return {name: tf.TensorSpec(shape, tf.float32) for name, shape in shapes.items()}

    def tokenize(self, ranges):
        """The documents of ranges of files, see `corpus.tokenize`."""
        sentences = itertools.chain.from_iterable(
            documents.read_documents(*part, self.recipe.form, self.recipe.field) for part in ranges
        )
        return token_store.tokenize(sentences, self._tokenizer, longest=(self.recipe.sequence_length - 3) // 2)

    def plans(self, tokens, before, duplicate):
        """The `Plan`s of a shard that has `before` documents of the corpus before it."""
        for stretch in token_store.stretches(tokens):
            yield sentence_pairs.plan_pairs(
                tokens,
                stretch,
                before,
                self.recipe.sequence_length - 3,
                self.recipe.short_seq_prob,
                self._goes_on,
                (self.recipe.seed, duplicate),
            )

    def pairs(self, tokens, plan, others, lengths):
        """The `Examples` of a plan, with the texts of the random B's."""
        return sentence_pairs.pack_pairs(tokens, plan, others, lengths, self.recipe.sequence_length, self._special)

    def rows(self, tokens, shard, duplicate):
        """The `Examples` of a shard without next sentence prediction."""
        return sentence_pairs.pack_rows(
            tokens,
            token_store.stretches(tokens),
            self.recipe.sequence_length,
            self._special,
            (self.recipe.seed, duplicate, shard),
            cut=(self.recipe.sequence_length - 2) * duplicate // self.recipe.duplicates,
        )

    def serialize(self, examples):
        """`Examples` as records in an order of their own, and what there is to count of them."""
        order = np.argsort(examples.keys)
        lengths, place = examples.lengths[order, None], np.arange(self.recipe.sequence_length)
        real = place < lengths
        features = {
            "input_ids": examples.token_ids[order],
            "input_mask": real,
            "segment_ids": real & (place >= examples.first[order, None]),
            "next_sentence_labels": examples.is_random[order, None],
        }
        bins = (lengths[:, 0] - 1) * LENGTH_BINS // self.recipe.sequence_length
        counts = collections.Counter(f"length_{bin}" for bin in bins.tolist())
        counts.update(
            examples=len(order),
            tokens=int(lengths.sum()),
            truncated=examples.truncated,
            random=int(examples.is_random.sum()),
            unknown=int((examples.token_ids == self._unknown).sum()),
        )
        if self.recipe.static:
            masked = self._masked(features["input_ids"], examples.keys[order])
            counts.update(self._count_masks(features["input_ids"], masked))
            features |= {
                "input_ids": masked["token_ids"],
                "masked_lm_positions": masked["positions"],
                "masked_lm_ids": masked["labels"],
                "masked_lm_weights": masked["weights"],
            }
        return serialize(features), counts

    def _masked(self, token_ids, keys):
        noise, first = {}, sentence_pairs.MASKING
        for name, spec in self._noise_specs().items():
            noise[name] = tf.constant(uniforms(keys, spec.shape[1], first, np.float32))
            first += spec.shape[1]
        return {name: value.numpy() for name, value in self._mask(tf.constant(token_ids), noise).items()}

    def _count_masks(self, token_ids, masked):
        real = masked["weights"] > 0
        now = np.take_along_axis(masked["token_ids"], masked["positions"], 1)[real]
        is_mask = now == self.vocabulary.id("[MASK]")
        kept = int((~is_mask & (now == masked["labels"][real])).sum())
        return {"predictions": len(now), "masked": int(is_mask.sum()), "kept": kept}

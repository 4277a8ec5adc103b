"""Pre-training data settings, and the builder that applies them to one part of a corpus."""

import collections
import dataclasses
import functools

import numpy as np

from keras_bert.checks import check_choice
from keras_bert.corpus import documents
from keras_bert.pretraining import record_files, sentence_pairs, token_store
from keras_bert.pretraining.full_rows import pack_rows
from keras_bert.pretraining.masking import Masker, Masking
from keras_bert.pretraining.packed_examples import SpecialIds
from keras_bert.pretraining.random_keys import uniforms
from keras_bert.text.bert_tokenizer import BertTokenizer
from keras_bert.text.vocabulary import Vocabulary

LENGTH_BINS = 8  # Bins of the histogram of lengths.


@dataclasses.dataclass(frozen=True)
class Settings:
    """Pre-training data settings. Defaults follow the paper.

    Args:
        sequence_length: int, the length of an example. Defaults to 128.
        next_sentence: bool, whether examples are pairs. Otherwise rows are filled completely with text.
        special_tokens: bool, whether examples contain `[CLS]` and `[SEP]`; only rows of text may lack them, as in GPT.
        static: bool, whether to write masks to the records. Otherwise masking is dynamic, when the records are read.
        duplicates: int, the number of passes over the corpus, each with different pairs and masks. Defaults to 1.
        short_seq_prob: float, the share of deliberately short pairs. Defaults to 0.1.
        masking: a `Masking`.
        seed: int, the random seed. Defaults to 1.
        format: str, the layout of the text: "sentences" (one per line) or "paragraphs", with blank lines between
            documents, or "jsonl" (one document per line). Defaults to "sentences".
        field: str, the field of JSON lines that contains the text. Defaults to "text".
        lowercase, strip_accents: see `BertTokenizer`.
    """

    sequence_length: int = 128
    next_sentence: bool = True
    _: dataclasses.KW_ONLY
    special_tokens: bool = True
    static: bool = False
    duplicates: int = 1
    short_seq_prob: float = 0.1
    masking: Masking = dataclasses.field(default_factory=Masking)
    seed: int = 1
    format: str = "sentences"
    field: str = "text"
    lowercase: bool = True
    strip_accents: bool | None = None

    def __post_init__(self):
        for name, least in (("sequence_length", 8), ("duplicates", 1), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"`{name}` must be at least {least}. Received: {name}={value!r}")
        if self.next_sentence and not self.special_tokens:
            raise ValueError("sentence pairs need `special_tokens=True`. Without, add `next_sentence=False`")
        if not 0 <= self.short_seq_prob <= 1:
            raise ValueError(f"`short_seq_prob` must be from 0 to 1. Received: short_seq_prob={self.short_seq_prob}")
        check_choice("format", self.format, documents.FORMATS)


_tokenizer = functools.lru_cache(maxsize=2)(BertTokenizer)  # Tracing its function takes seconds.


class ExampleBuilder:
    """Builds examples; every method is a pure function of its arguments."""

    def __init__(self, vocabulary, settings):
        self.vocabulary = Vocabulary(vocabulary)
        self.settings = settings
        self._tokenizer = _tokenizer(self.vocabulary, settings.lowercase, strip_accents=settings.strip_accents)
        self._is_continuation = np.array(self.vocabulary.is_continuation)
        self._unknown = self.vocabulary.id("[UNK]")
        self._special = SpecialIds(*self.vocabulary.ids(["[CLS]", "[SEP]", "[PAD]"]))
        self._masker = Masker(self.vocabulary, settings.masking)

    def tokenize(self, ranges):
        """Tokenizes ranges of files, see `token_store.tokenize`."""
        longest = (self.settings.sequence_length - 3) // 2
        return token_store.tokenize(self._sentences(ranges), self._tokenizer, longest=longest)

    def _sentences(self, ranges):
        """Yields the sentences of ranges of files, and `None` at the end of each document."""
        text_format = self.settings.format
        field = self.settings.field
        for path, start, stop in ranges:
            yield from documents.read_documents(path, start, stop, text_format, field)

    def plans(self, tokens, before, duplicate):
        """Yields the `PairPlan`s of a shard, which is preceded by `before` documents of the corpus."""
        for stretch in token_store.stretches(tokens):
            yield sentence_pairs.plan_pairs(
                tokens,
                stretch,
                before,
                room=self.settings.sequence_length - 3,
                short_seq_prob=self.settings.short_seq_prob,
                is_continuation=self._is_continuation,
                key=(self.settings.seed, duplicate),
            )

    def pairs(self, tokens, plan, others, lengths):
        """Returns the `PackedExamples` of a plan, given the texts of its random B's."""
        return sentence_pairs.pack_pairs(
            tokens,
            plan,
            others,
            lengths,
            length=self.settings.sequence_length,
            special=self._special,
        )

    def rows(self, tokens, shard, duplicate):
        """Returns an iterator of the `PackedExamples` of a shard without next sentence prediction."""
        length = self.settings.sequence_length
        room = length - 2 if self.settings.special_tokens else length
        return pack_rows(
            tokens,
            token_store.stretches(tokens),
            length=length,
            special=self._special,
            key=(self.settings.seed, duplicate, shard),
            cut=room * duplicate // self.settings.duplicates,
            special_tokens=self.settings.special_tokens,
        )

    def serialize(self, examples):
        """Returns shuffled records of `PackedExamples`, and a `Counter` of their statistics.

        The counts of all parts of a corpus are added, and `generation.summary` makes the manifest of the sum.
        """
        order = np.argsort(examples.keys)
        lengths = examples.lengths[order, None]
        place = np.arange(self.settings.sequence_length)
        real = place < lengths
        features = {
            "input_ids": examples.token_ids[order],
            "input_mask": real,
            "segment_ids": real & (place >= examples.first[order, None]),  # All 0 without a B.
            "next_sentence_labels": examples.is_random[order, None],
        }
        counts = self._count(examples)
        if self.settings.static:
            masked = self._masked(features["input_ids"], examples.keys[order])
            counts.update(self._count_masks(masked))
            features["input_ids"] = masked["token_ids"]
            features["masked_lm_positions"] = masked["positions"]
            features["masked_lm_ids"] = masked["labels"]
            features["masked_lm_weights"] = masked["weights"]
        return record_files.serialize(features), counts

    def _count(self, examples):
        """Returns a `Counter` of the statistics of `PackedExamples`; all tokens count, also `[CLS]` and `[SEP]`."""
        bins = (examples.lengths - 1) * LENGTH_BINS // self.settings.sequence_length
        counts = collections.Counter(f"length_{number}" for number in bins.tolist())
        counts.update(
            examples=len(examples.lengths),
            tokens=int(examples.lengths.sum()),
            truncated=examples.truncated,
            random=int(examples.is_random.sum()),
            unknown=int((examples.token_ids == self._unknown).sum()),
        )
        return counts

    def _masked(self, token_ids, keys):
        """Returns what the `Masker` makes of ids, with noise that follows from the keys."""
        noise = {}
        first = sentence_pairs.MASKING
        shapes = self._masker.noise_shapes(len(keys), self.settings.sequence_length)
        for name, (_, count) in shapes.items():
            noise[name] = uniforms(keys, count, first, np.float32)
            first += count
        return self._masker(token_ids, noise)

    def _count_masks(self, masked):
        """Returns the numbers of predictions, of those replaced by `[MASK]`, and of those that stay."""
        real = masked["weights"] > 0
        now = np.take_along_axis(masked["token_ids"], masked["positions"], 1)[real]
        is_mask = now == self.vocabulary.id("[MASK]")
        kept = int((~is_mask & (now == masked["labels"][real])).sum())
        return {"predictions": len(now), "masked": int(is_mask.sum()), "kept": kept}

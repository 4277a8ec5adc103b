"""A corpus of unique pieces, whose ids are their positions in the text, and records as arrays."""

import functools
import gzip

import numpy as np
import tensorflow as tf

from keras_bert.pretraining.generation import generate
from keras_bert.pretraining.token_store import Tokens

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]"]
PAD, UNK, CLS, SEP, MASK, _ = range(6)
FIRST = len(SPECIAL)  # Id of the first piece of the text.


class Numbered:
    """A corpus whose pieces have the consecutive ids `FIRST`, `FIRST + 1`, ...

    Args:
        documents: lists of sentences, which are lists of words, each given as its number of pieces.

    Attributes:
        pieces: the vocabulary.
        text: one sentence per line, with blank lines between documents.
        documents, sentences: the first id of each, and the last id + 1.
    """

    def __init__(self, documents):
        self.pieces = list(SPECIAL)
        document_starts = []
        sentence_starts = []
        lines = []
        for document in documents:
            document_starts.append(len(self.pieces))
            for sentence in document:
                sentence_starts.append(len(self.pieces))
                words = [self._new_word(count) for count in sentence]
                lines.append(" ".join(words))
            lines.append("")
        end = len(self.pieces)
        self.text = "\n".join(lines)
        self.documents = np.array([*document_starts, end])
        self.sentences = np.array([*sentence_starts, end])
        self.is_continuation = np.array([piece.startswith("##") for piece in self.pieces])

    def _new_word(self, count):
        """Adds a word of `count` pieces to the vocabulary, and returns it."""
        first = len(self.pieces)
        names = [_name(number) for number in range(first, first + count)]
        self.pieces.append(names[0])
        for name in names[1:]:
            self.pieces.append(f"##{name}")
        return "".join(names)

    @property
    def tokens(self):
        """Returns the corpus as `Tokens`."""
        firsts = np.searchsorted(self.sentences, self.documents)
        return Tokens(np.arange(FIRST, len(self.pieces)), self.sentences - FIRST, firsts)

    def generate(self, folder, settings, **options):
        """Generates the examples of the text, which is written beside their folder."""
        path = write(folder.with_suffix(".txt"), self.text)
        return generate(path, folder, self.pieces, settings, **options)

    def document_of(self, ids):
        return np.searchsorted(self.documents, ids, "right") - 1


def _name(number):
    """Returns a name of four letters, so that no piece is part of another."""
    return "".join(chr(97 + number // 26**power % 26) for power in range(4))


def random_documents(seed, documents, sentences, words, pieces=2):
    """Returns documents for `Numbered`. Arguments are maxima (minimum 1) or pairs of minimum and maximum."""
    rng = np.random.default_rng(seed)

    def draw(bounds):
        low, high = bounds if isinstance(bounds, tuple) else (1, bounds)
        return int(rng.integers(low, high + 1))

    def sentence():
        return [draw(pieces) for _ in range(draw(words))]

    def document():
        return [sentence() for _ in range(draw(sentences))]

    return [document() for _ in range(documents)]


def records(folder):
    """Reads all records of a folder as bytes, in the order of the files."""
    paths = sorted(map(str, folder.glob("examples-*")))
    compression = "GZIP" if paths[0].endswith(".gz") else ""
    return list(tf.data.TFRecordDataset(paths, compression).as_numpy_iterator())


def batches(records, *arguments, **options):
    """Returns the batches of a dataset as arrays."""
    return list(records.dataset(*arguments, **options).as_numpy_iterator())


def arrays(folder):
    """Reads the features of all records, `{name: (examples, values)}`."""
    found = records(folder)
    spec = {}
    for name, value in tf.train.Example.FromString(found[0]).features.feature.items():
        if value.float_list.value:
            spec[name] = tf.io.FixedLenFeature([len(value.float_list.value)], tf.float32)
        else:
            spec[name] = tf.io.FixedLenFeature([len(value.int64_list.value)], tf.int64)
    features = tf.io.parse_example(found, spec)
    return {name: value.numpy() for name, value in features.items()}


def unmasked(examples):
    """Restores the ids of static examples before masking."""
    ids = examples["input_ids"].copy()
    rows, columns = np.nonzero(examples["masked_lm_weights"])
    positions = examples["masked_lm_positions"][rows, columns]
    ids[rows, positions] = examples["masked_lm_ids"][rows, columns]
    return ids


def write(path, content):
    """Writes bytes or text, compressed if the name ends in .gz."""
    if isinstance(content, str):
        content = content.encode()
    if path.suffix == ".gz":
        content = gzip.compress(content)
    path.write_bytes(content)
    return path


@functools.cache
def small():
    """Returns a corpus of 13,000 pieces in 24 documents; sentences have at least two words."""
    return Numbered(random_documents(0, documents=24, sentences=(30, 70), words=(2, 12)))

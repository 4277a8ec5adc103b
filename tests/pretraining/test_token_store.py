"""A tokenized corpus, compared with tokenizing sentence by sentence and with plain Python."""

import itertools
import random

import numpy as np
import pytest
from scipy import stats

from keras_bert.pretraining import token_store
from keras_bert.pretraining.random_keys import make_keys, uniforms
from keras_bert.pretraining.token_store import Shard, Tokens, collect, following, stretches, tokenize
from keras_bert.text.bert_tokenizer import BertTokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##a", "##b", "."]


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(PIECES)


def lists(tokens):
    """Converts `Tokens` to lists of documents of segments of ids."""
    segments = [tokens.ids[begin:end].tolist() for begin, end in itertools.pairwise(tokens.segments)]
    return [segments[first:last] for first, last in itertools.pairwise(tokens.documents)]


def sentences_of(seed, count=150):
    """Returns sentences with `None` between documents. Some are empty, long or unknown."""
    rng = random.Random(seed)
    words = ["a", "b", "c", "ab", "bab", "ca", "Ä", "zz", ".", "\u200b", "aaaabbbb"]
    sentences = []
    for _ in range(count):
        length = rng.choice([1, 3, 9, 40])
        sentences.append(" ".join(rng.choices(words, k=length)).encode())
    for number, sentence in enumerate(sentences):
        if rng.random() < 0.3:
            sentences[number] = rng.choice([None, None, b"\0", sentence])
    return [*sentences, None]


def words_of(sentence, tokenizer):
    """Returns the pieces of each word of a sentence."""
    words = []
    for piece in tokenizer([sentence]).to_list()[0]:
        if words and PIECES[piece].startswith("##"):
            words[-1].append(piece)
        else:
            words.append([piece])
    return words


def filled(words, longest):
    """Returns segments of at most `longest` pieces, filled greedily by a loop over the words."""
    segments = []
    segment = []
    for word in words:
        if segment and len(segment) + len(word) > longest:
            segments.append(segment)
            segment = []
        segment = segment + word
        while len(segment) > longest:  # A single word that is too long.
            segments.append(segment[:longest])
            segment = segment[longest:]
    if segment:
        segments.append(segment)
    return segments


def by_words(sentences, tokenizer, longest):
    """Returns documents of segments."""
    documents = [[]]
    for sentence in sentences:
        if sentence is None:
            documents.append([])
        else:
            documents[-1] += filled(words_of(sentence, tokenizer), longest)
    return [document for document in documents if document]


@pytest.mark.parametrize(("longest", "batch"), [(2, 1), (6, 17), (1000, 100)])
def test_long_sentences_are_split_between_words(tokenizer, monkeypatch, tmp_path, longest, batch):
    """Also in several batches, written and read."""
    sentences = sentences_of(longest)
    expected = by_words(sentences, tokenizer, longest)
    tokens = collect(tokenize(sentences, tokenizer, longest))
    assert lists(tokens) == expected
    assert np.diff(tokens.segments).max() <= longest
    pieces = tokenizer([sentence for sentence in sentences if sentence]).flat_values.numpy()
    np.testing.assert_array_equal(tokens.ids, pieces)

    monkeypatch.setattr(token_store, "BATCH", batch)
    blocks = list(tokenize(sentences, tokenizer, longest))
    assert len(blocks) > 2
    shard = Shard(tmp_path, 0, len(PIECES))
    shard.write(blocks)
    assert lists(shard.read()) == expected


@pytest.mark.parametrize("sentences", [[None, b"", None], []])
def test_nothing_has_no_documents(tokenizer, sentences):
    assert lists(collect(tokenize(sentences, tokenizer, 6))) == []


def test_shards_are_written_and_read(tmp_path):
    shard = Shard(tmp_path, 3, vocab_size=300)
    assert shard.counts() is None

    def blocks():
        yield np.int32([7, 8, 299]), np.array([2, 1]), np.array([1])
        assert shard.counts() is None  # The shard is not complete yet.
        yield np.int32([]), np.array([], int), np.array([0, 0])
        yield np.int32([9]), np.array([1]), np.array([1, 1])

    shard.write(blocks())
    assert shard.counts() == {"documents": 3, "segments": 3, "pieces": 4}
    tokens = Shard(tmp_path, 3, vocab_size=300).read()
    assert lists(tokens) == [[[7, 8]], [[299]], [[9]]]
    assert tokens.ids.dtype == np.uint16


def test_a_shard_without_documents(tmp_path):
    empty = Shard(tmp_path, 0, vocab_size=100)
    empty.write([(np.int32([]), np.array([], int), np.array([0]))])
    assert empty.counts() == {"documents": 0, "segments": 0, "pieces": 0}
    assert lists(empty.read()) == []


def random_tokens(seed, documents, longest=9):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 30, documents)
    segments = np.cumsum([0, *rng.integers(1, longest, counts.sum())])
    return Tokens(np.arange(segments[-1]), segments, np.cumsum([0, *counts]))


def parts_of(tokens):
    """Returns the parts of all stretches: their document, and the first and the last segment."""
    parts = []
    for stretch in stretches(tokens):
        parts.extend(stretch)
    return parts


def document_alone(tokens, document):
    """Returns one document of `Tokens` without the others."""
    first, last = tokens.documents[document : document + 2]
    segments = tokens.segments[first : last + 1] - tokens.segments[first]
    return Tokens(tokens.ids, segments, np.array([0, last - first]))


@pytest.mark.parametrize("block", [1, 57, 10**6])
def test_stretches_cover_all_documents_and_are_small(monkeypatch, block):
    monkeypatch.setattr(token_store, "BLOCK", block)
    tokens = random_tokens(block, documents=40)

    place = 0
    for document, first, last in parts_of(tokens):
        assert first == place
        assert tokens.documents[document] <= first < tokens.documents[document + 1]
        place = last
    assert place == tokens.documents[-1]
    all_stretches = list(stretches(tokens))
    for stretch in all_stretches:
        size = tokens.segments[stretch[-1][2]] - tokens.segments[stretch[0][1]]
        # Less than a block before the last document, and at most a block and a segment of it.
        assert size < 2 * block + 9
    if block == 10**6:
        assert len(all_stretches) == 1


@pytest.mark.parametrize("block", [1, 57, 10**6])
def test_a_document_is_split_at_the_same_positions_if_it_is_the_only_one(monkeypatch, block):
    monkeypatch.setattr(token_store, "BLOCK", block)
    tokens = random_tokens(block, documents=40)
    cuts = {document: [] for document in range(40)}
    for document, _, last in parts_of(tokens):
        cuts[document].append(last - tokens.documents[document])
    for document, expected in cuts.items():
        alone = document_alone(tokens, document)
        assert [last for _, _, last in parts_of(alone)] == expected


def test_following_segments():
    # Segments of 2, 1, 3, 1, 2 pieces; the second document has the last two.
    tokens = Tokens(np.arange(100, 109), np.array([0, 2, 3, 6, 7, 9]), np.array([0, 3, 5]))
    cases = {
        (0, 0.0, 1): [100, 101],
        (0, 0.0, 2): [100, 101],
        (0, 0.0, 3): [100, 101, 102],
        (0, 0.34, 2): [102, 103, 104, 105],
        (0, 0.99, 9): [103, 104, 105],
        (0, 0.0, 99): [100, 101, 102, 103, 104, 105],
        (1, 0.49, 2): [106, 107, 108],
        (1, 0.5, 1): [107, 108],
    }
    documents, draws, wanted = map(np.array, zip(*cases, strict=True))
    ids, lengths = following(tokens, documents, draws, wanted)
    texts = np.split(ids, np.cumsum(lengths)[:-1])
    assert [text.tolist() for text in texts] == list(cases.values())


def test_every_segment_of_a_document_is_equally_likely():
    tokens = random_tokens(0, documents=1)
    draws = uniforms(make_keys(np.arange(20_000)), 1)[:, 0]
    ids, lengths = following(tokens, np.zeros(20_000, int), draws, np.ones(20_000, int))
    begins = ids[np.cumsum(lengths) - lengths]
    values, counts = np.unique(begins, return_counts=True)
    np.testing.assert_array_equal(values, tokens.segments[:-1])
    assert stats.chisquare(counts).pvalue > 1e-4

"""Pairs and rows. The pieces of the corpus are unique, so that ids identify the source of a text.

Random numbers by key are compared with the generator in plain Python and its published numbers.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from keras_bert.pretraining import token_store
from keras_bert.pretraining.full_rows import pack_rows
from keras_bert.pretraining.random_keys import make_keys, uniforms
from keras_bert.pretraining.sentence_pairs import choose_others, pack_pairs, plan_pairs
from keras_bert.pretraining.token_store import Tokens, following, stretches
from tests.pretraining import numbered
from tests.pretraining.numbered import CLS, FIRST, PAD, SEP, Numbered, random_documents
from tests.text.test_packing import truncate

LENGTH = 64


@pytest.fixture(scope="module")
def made(passes):
    """Returns the manifest and the examples before masking."""
    manifest, examples = passes
    return manifest, {**examples, "input_ids": numbered.unmasked(examples)}


def texts(examples):
    """Yields `(A, B, label, whether the row is full)` of each example, after checking the format of the row."""
    for ids, mask, segments, (label,) in zip(
        *(examples[name] for name in ("input_ids", "input_mask", "segment_ids", "next_sentence_labels")), strict=True
    ):
        length = mask.sum()
        first = length - segments.sum()
        assert (mask == (np.arange(len(ids)) < length)).all()
        assert (segments == mask * (np.arange(len(ids)) >= first)).all()
        assert (ids[0], ids[first - 1], ids[length - 1]) == (CLS, SEP, SEP)
        assert (ids[length:] == PAD).all()
        a, b = ids[1 : first - 1], ids[first : length - 1]
        assert min(len(a), len(b)) > 0
        yield a, b, label, length == len(ids)


def test_labels_are_correct_and_texts_are_complete(made):
    source, (_, examples) = numbered.small(), made
    begins, word_begins = set(source.sentences.tolist()), np.flatnonzero(~source.is_continuation)
    for a, b, label, full in texts(examples):
        assert min(a[0], b[0]) >= FIRST
        assert (np.diff(a) == 1).all()
        assert (np.diff(b) == 1).all()
        (document,) = set(source.document_of(a))
        (other,) = set(source.document_of(b))
        if label:
            assert document != other
        else:
            assert document == other
            assert b[0] == a[-1] + 1 or (full and b[0] > a[-1])
        if not full:  # Not truncated: whole sentences, or a sentence split between words.
            assert {a[0], b[-1] + 1} <= begins
            assert label == 0 or {b[0], a[-1] + 1} <= begins
            assert b[0] in begins or (b[0] in word_begins and a[0] == max(begin for begin in begins if begin < b[0]))


def test_half_of_the_pairs_are_random_and_manifest_counts_match(made):
    manifest, examples = made
    labels = examples["next_sentence_labels"][:, 0]
    assert len(labels) == manifest["examples"] > 5_000
    assert abs(labels.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(labels))
    assert manifest["random_share"] == labels.mean()
    assert manifest["dropped_texts"] == 0
    lengths = examples["input_mask"].sum(1)
    assert manifest["tokens"] == lengths.sum()
    assert manifest["padding_share"] == 1 - lengths.sum() / (len(lengths) * LENGTH)
    assert manifest["length_histogram"] == np.histogram(lengths, 8, (0.5, LENGTH + 0.5))[0].tolist()
    source = numbered.small()
    pieces, segments = len(source.pieces) - FIRST, len(source.sentences) - 1
    assert manifest["corpus"] == {"documents": 24, "segments": segments, "pieces": pieces}
    assert sum(file["examples"] for file in manifest["files"]) == manifest["examples"]


def test_random_texts_are_uniform_over_other_documents(made):
    source, documents = numbered.small(), 24
    a, b = np.array([source.document_of([a[0], b[0]]) for a, b, label, _ in texts(made[1]) if label]).T
    found = np.zeros((documents, documents))
    np.add.at(found, (a, b), 1)
    expected = found.sum(1, keepdims=True) / (documents - 1) * (1 - np.eye(documents))
    assert expected[expected > 0].min() > 2
    statistic = ((found - expected) ** 2 / np.where(expected, expected, 1)).sum()
    assert stats.chi2.sf(statistic, documents * (documents - 2)) > 1e-4


# Plans.


def test_lengths_and_splits_of_pairs():
    """For documents of one-token sentences: each example has exactly its target length."""
    room, draws = 29, []
    tokens = Tokens(np.arange(20_000), np.arange(20_001), np.arange(0, 20_001, 5_000))
    (stretch,) = stretches(tokens)
    for number in range(8):
        plan = plan_pairs(tokens, stretch, 0, room, 0.1, np.zeros(20_000, bool), (1, number))
        first = plan.middle - plan.first
        target = np.where(plan.wanted > 0, first + plan.wanted, plan.end - plan.first)
        inside = (plan.documents + 1) * 5_000 - plan.first >= room  # Away from the ends of documents.
        draws.append(np.stack([target, first])[:, inside])
    target, first = np.concatenate(draws, axis=1)
    # A tenth of the targets is uniform.
    lengths = np.arange(2, room + 1)
    expected = len(target) * (0.1 / (room - 1) + 0.9 * (lengths == room))
    found = np.array([(target == length).sum() for length in lengths])
    assert stats.chisquare(found, expected).pvalue > 1e-4
    # Every split is equally likely.
    for length in (room, 3):
        found = np.bincount(first[target == length], minlength=length)
        assert found[0] == 0
        assert stats.chisquare(found[1:]).pvalue > 1e-4


def test_plans_cover_all_text_once(monkeypatch):
    monkeypatch.setattr(token_store, "BLOCK", 1000)
    source = numbered.small()
    place = 0
    for stretch in stretches(source.tokens):
        plan = plan_pairs(source.tokens, stretch, 7, 29, 0.1, source.is_continuation, (1, 0))
        assert plan.dropped == 0
        for document, first, middle, end, wanted in zip(*plan[1:6], strict=True):
            assert first == place
            assert first < middle <= end
            assert (middle == end) == (wanted > 0)
            assert set(source.document_of(np.arange(first, end) + FIRST)) == {document - 7}
            place = end
    assert place == len(source.tokens.ids)


def test_dropped_single_words_are_counted():
    """Documents of one word: there is an example if B is random, and none if B must follow A."""
    tokens = Tokens(np.arange(1000) % 2, np.arange(0, 1002, 2), np.arange(501))
    (stretch,) = stretches(tokens)
    plan = plan_pairs(tokens, stretch, 0, 29, 0.1, np.array([False, True]), (1, 0))
    assert (plan.wanted > 0).all()
    assert len(plan.keys) + plan.dropped == 500
    assert 200 < plan.dropped < 300
    # Documents of two words: split between them.
    plan = plan_pairs(tokens, stretch, 0, 29, 0.1, np.array([False, False]), (1, 0))
    assert plan.dropped == 0
    assert (plan.middle - plan.first == np.where(plan.wanted > 0, 2, 1)).all()


def test_single_sentences_are_split_uniformly_between_words():
    # A sentence of 4 words with 1, 2, 1 and 3 pieces, 2,000 times.
    is_continuation = np.tile([False, False, True, False, False, True, True], 2000)
    tokens = Tokens(np.arange(14_000), np.arange(0, 14_001, 7), np.arange(2001))
    (stretch,) = stretches(tokens)
    plan = plan_pairs(tokens, stretch, 0, 29, 0.0, is_continuation, (1, 0))
    cuts = (plan.middle - plan.first)[plan.wanted == 0]
    assert set(cuts) == {1, 3, 4}
    assert stats.chisquare(np.bincount(cuts)[[1, 3, 4]]).pvalue > 1e-4


@pytest.mark.parametrize("length", [8, 33])
def test_long_texts_are_truncated_at_both_ends(length):
    source = Numbered(random_documents(1, documents=12, sentences=20, words=(2, 14)))
    (stretch,) = stretches(source.tokens)
    cuts, lost_pieces = [], 0
    for duplicate in range(20):
        plan = plan_pairs(source.tokens, stretch, 0, length - 3, 0.1, source.is_continuation, (1, duplicate))
        documents, places = choose_others(plan, 12)
        assert not (documents == plan.documents[plan.wanted > 0]).any()
        others, lengths = following(source.tokens, documents, places, plan.wanted[plan.wanted > 0])
        begins, wholes = iter(np.split(others, np.cumsum(lengths)[:-1])), []
        for first, middle, end, wanted in zip(*plan[2:6], strict=True):
            wholes.append(
                (np.arange(first, middle) + FIRST, next(begins) if wanted else np.arange(middle, end) + FIRST)
            )
        packed = pack_pairs(source.tokens, plan, others, lengths, length, (CLS, SEP, PAD))
        for (whole_a, whole_b), ids, first, size in zip(
            wholes, packed.token_ids, packed.first, packed.lengths, strict=True
        ):
            a, b = ids[1 : first - 1], ids[first : size - 1]
            assert (ids[0], ids[first - 1], ids[size - 1]) == (CLS, SEP, SEP)
            assert (ids[size:] == PAD).all()
            assert (len(a), len(b)) == tuple(map(len, truncate(whole_a, whole_b, length - 3)))
            for part, whole in ((a, whole_a), (b, whole_b)):
                assert set(part) <= set(whole)
                assert (np.diff(part) == 1).all()
                cuts.append((len(whole) - len(part), part[0] - whole[0]))
        assert packed.truncated == sum(lost for lost, _ in cuts) - lost_pieces
        lost_pieces += packed.truncated
        np.testing.assert_array_equal(packed.is_random, plan.wanted > 0)
    # Whether tokens are removed at the start or at the end is random.
    for lost in (1, 2, 3):
        before = np.array([place for some, place in cuts if some == lost])
        assert stats.chisquare(np.bincount(before, minlength=lost + 1)).pvalue > 1e-4


# Rows without pairs.


def rows_of(tokens, length, key=(1, 0, 0), cut=0, special_tokens=True):
    found = list(pack_rows(tokens, stretches(tokens), length, (CLS, SEP, PAD), key, cut, special_tokens))
    for part in found:
        assert not part.is_random.any()
        assert not part.truncated
        assert (part.first == part.lengths).all()
        assert (part.token_ids[np.arange(length) >= part.lengths[:, None]] == PAD).all()
    keys = np.concatenate([part.keys for part in found])
    assert len(np.unique(keys)) == len(keys)
    return [row[:size] for part in found for row, size in zip(part.token_ids, part.lengths, strict=True)]


def documents_of(rows):
    """Reassembles the documents from rows."""
    text = []
    for row in rows:
        assert (row[0], row[-1]) == (CLS, SEP)
        text += row[1:-1].tolist()
    parts = [list(part) for is_end, part in itertools.groupby(text, lambda piece: piece == SEP) if not is_end]
    assert text.count(SEP) in (len(parts) - 1, len(parts))  # One between two documents.
    return parts


def expected_documents(source):
    return [list(range(first, last)) for first, last in itertools.pairwise(source.documents.tolist())]


@pytest.mark.parametrize("block", [10**6, 100, 1])
def test_rows_are_full_and_contain_all_text_once(monkeypatch, block):
    monkeypatch.setattr(token_store, "BLOCK", block)
    source = Numbered(random_documents(2, documents=30, sentences=20, words=9))
    for length in (8, 19, 128):
        rows = rows_of(source.tokens, length)
        assert documents_of(rows) == expected_documents(source)
        assert {len(row) for row in rows[:-1]} == {length}
        assert len(rows) == -(-(len(source.tokens.ids) + 30 - 1) // (length - 2))
        rows = rows_of(source.tokens, length, special_tokens=False)
        assert np.concatenate(rows).tolist() == source.tokens.ids.tolist()
        assert {len(row) for row in rows[:-1]} == {length}


@pytest.mark.parametrize("sizes", [[1], [14], [1, 13], [13, 1], [6, 6, 1], [6, 6, 15], [39]])
def test_rows_of_short_corpora(sizes):
    source = Numbered([[[1] * size] for size in sizes])
    for cut in range(14):
        rows = rows_of(source.tokens, 16, cut=cut)
        assert documents_of(rows) == expected_documents(source)
        assert {len(row) for row in rows[1 if cut else 0 : -1]} <= {16}
        if 0 < cut < sum(sizes) + len(sizes) - 1:
            assert len(rows[0]) - 2 == cut


WORD = 2**64
STEP, FIRST_FACTOR, SECOND_FACTOR = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def splitmix(seed):
    """Yields the integers of SplitMix64 (Vigna's C program)."""
    while True:
        seed = (seed + STEP) % WORD
        value = (seed ^ (seed >> 30)) * FIRST_FACTOR % WORD
        value = (value ^ (value >> 27)) * SECOND_FACTOR % WORD
        yield value ^ (value >> 31)


def test_published_numbers():
    """Numbers are in [0, 1), also those of integers that are all ones or all zeros."""
    # Seed 1234567, from rosettacode.org; a key's numbers start with the second.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    published += [16408922859458223821]
    assert list(itertools.islice(splitmix(1234567), 5)) == published
    expected = [(value >> 11) * 2.0**-53 for value in published[1:]]
    assert uniforms(np.uint64([1234567]), 4)[0].tolist() == expected
    assert uniforms(np.uint64([1234567]), 2, first=2)[0].tolist() == expected[2:]
    expected = np.float32([(value >> 40) * 2.0**-24 for value in published[1:]])
    np.testing.assert_array_equal(uniforms(np.uint64([1234567]), 4, dtype=np.float32)[0], expected)
    # A key's numbers start with the generator's second.
    ones, none = 0x932B113CFBD6B596, 0xC3910C8D016B07D6
    assert [next(itertools.islice(splitmix(key), 1, None)) for key in (ones, none)] == [WORD - 1, 0]
    for dtype, bits in ((np.float64, 53), (np.float32, 24)):
        numbers = uniforms(np.uint64([ones, none]), 1, dtype=dtype)[:, 0]
        assert numbers.dtype == dtype
        assert numbers.tolist() == [1 - 2.0**-bits, 0]


def test_keys_chain_the_generator_over_parts():
    def key(*parts):
        found = 0
        for part in parts:
            found = next(splitmix(found ^ part))
        return found

    rows, columns = np.arange(5)[:, None], np.array([0, 1, 2**40])
    keys = make_keys(7, rows, columns)
    assert keys.tolist() == [[key(7, row, column) for column in columns.tolist()] for row in range(5)]
    assert keys.dtype == np.uint64
    assert make_keys(1, 2).tolist() == [key(1, 2)]

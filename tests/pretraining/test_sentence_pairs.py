"""Pairs. The pieces of the corpus are unique, so that ids identify the source of a text."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from keras_bert.pretraining import token_store
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
    return manifest, examples | {"input_ids": numbered.unmasked(examples)}


class Pair(NamedTuple):
    """The texts of an example."""

    a: np.ndarray
    b: np.ndarray
    is_random: bool
    is_full: bool  # Whether the row has no padding.


def pairs_of(examples):
    """Yields the `Pair` of each example, after checking the format of the row."""
    for row, ids in enumerate(examples["input_ids"]):
        mask = examples["input_mask"][row]
        segments = examples["segment_ids"][row]
        (label,) = examples["next_sentence_labels"][row]
        place = np.arange(len(ids))
        length = mask.sum()
        first = length - segments.sum()
        assert (mask == (place < length)).all()
        assert (segments == mask * (place >= first)).all()
        assert ids[0] == CLS
        assert ids[first - 1] == ids[length - 1] == SEP
        assert (ids[length:] == PAD).all()
        pair = Pair(ids[1 : first - 1], ids[first : length - 1], bool(label), length == len(ids))
        assert min(len(pair.a), len(pair.b)) > 0
        yield pair


def test_labels_are_correct_and_texts_are_consecutive(made):
    source = numbered.small()
    for a, b, is_random, is_full in pairs_of(made[1]):
        assert min(a[0], b[0]) >= FIRST
        assert (np.diff(a) == 1).all()
        assert (np.diff(b) == 1).all()
        (document,) = set(source.document_of(a))
        (other,) = set(source.document_of(b))
        assert is_random == (document != other)
        if not is_random:
            assert b[0] == a[-1] + 1 or (is_full and b[0] > a[-1])


def test_texts_that_fit_are_whole_sentences_or_one_sentence_split_between_words(made):
    source = numbered.small()
    sentences = set(source.sentences.tolist())
    words = set(np.flatnonzero(~source.is_continuation).tolist())
    for a, b, is_random, is_full in pairs_of(made[1]):
        if is_full:  # It may be truncated.
            continue
        assert {a[0], b[-1] + 1} <= sentences
        if is_random:
            assert {b[0], a[-1] + 1} <= sentences
        elif b[0] not in sentences:
            assert b[0] in words
            assert a[0] == max(begin for begin in sentences if begin < b[0])


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
    assert manifest["corpus"] == {
        "documents": 24,
        "segments": len(source.sentences) - 1,
        "pieces": len(source.pieces) - FIRST,
    }
    assert sum(file["examples"] for file in manifest["files"]) == manifest["examples"]


def test_random_texts_are_uniform_over_other_documents(made):
    source = numbered.small()
    documents = 24
    found = np.zeros((documents, documents))
    for pair in pairs_of(made[1]):
        if pair.is_random:
            found[source.document_of(pair.a[0]), source.document_of(pair.b[0])] += 1
    expected = found.sum(1, keepdims=True) / (documents - 1) * (1 - np.eye(documents))
    assert expected[expected > 0].min() > 2
    statistic = ((found - expected) ** 2 / np.where(expected, expected, 1)).sum()
    assert stats.chi2.sf(statistic, documents * (documents - 2)) > 1e-4


# Plans.


def test_lengths_and_splits_of_pairs():
    """For documents of one-token sentences: each example has exactly its target length."""
    room = 29
    draws = []
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
        texts = zip(plan.documents, plan.first, plan.middle, plan.end, plan.wanted, strict=True)
        for document, first, middle, end, wanted in texts:
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


def whole_texts(plan, others, lengths):
    """Returns A and B of each planned pair before truncation; `others` are the ids of the random B's."""
    random_texts = iter(np.split(others, np.cumsum(lengths)[:-1]))
    texts = []
    for first, middle, end, wanted in zip(plan.first, plan.middle, plan.end, plan.wanted, strict=True):
        a = np.arange(first, middle) + FIRST
        b = next(random_texts) if wanted else np.arange(middle, end) + FIRST
        texts.append((a, b))
    return texts


def texts_of(packed):
    """Returns A and B of each row of packed pairs, after checking the special tokens."""
    texts = []
    for ids, first, size in zip(packed.token_ids, packed.first, packed.lengths, strict=True):
        assert ids[0] == CLS
        assert ids[first - 1] == ids[size - 1] == SEP
        assert (ids[size:] == PAD).all()
        texts.append((ids[1 : first - 1], ids[first : size - 1]))
    return texts


@pytest.mark.parametrize("length", [8, 33])
def test_long_texts_are_truncated_at_both_ends(length):
    source = Numbered(random_documents(1, documents=12, sentences=20, words=(2, 14)))
    room = length - 3
    (stretch,) = stretches(source.tokens)
    cuts = []  # Of each text, how many pieces it lost, and how many of them at its start.
    for duplicate in range(20):
        plan = plan_pairs(source.tokens, stretch, 0, room, 0.1, source.is_continuation, (1, duplicate))
        is_random = plan.wanted > 0
        documents, places = choose_others(plan, 12)
        assert (documents != plan.documents[is_random]).all()
        others, lengths = following(source.tokens, documents, places, plan.wanted[is_random])

        packed = pack_pairs(source.tokens, plan, others, lengths, length, (CLS, SEP, PAD))

        np.testing.assert_array_equal(packed.is_random, is_random)
        lost_pieces = 0
        for wholes, parts in zip(whole_texts(plan, others, lengths), texts_of(packed), strict=True):
            truncated = truncate(*wholes, room)
            for whole, part, expected in zip(wholes, parts, truncated, strict=True):
                assert len(part) == len(expected)
                assert set(part) <= set(whole)
                assert (np.diff(part) == 1).all()
                lost = len(whole) - len(part)
                cuts.append((lost, part[0] - whole[0]))
                lost_pieces += lost
        assert packed.truncated == lost_pieces
    # Whether tokens are removed at the start or at the end is random.
    for lost in (1, 2, 3):
        before = [at_start for pieces, at_start in cuts if pieces == lost]
        assert stats.chisquare(np.bincount(before, minlength=lost + 1)).pvalue > 1e-4

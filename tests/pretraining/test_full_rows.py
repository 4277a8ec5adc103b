"""Rows without pairs. The pieces of the corpus are unique, so that ids identify the source of a text."""

import itertools

import numpy as np
import pytest

from keras_bert.pretraining import token_store
from keras_bert.pretraining.full_rows import pack_rows
from keras_bert.pretraining.token_store import stretches
from tests.pretraining.numbered import CLS, PAD, SEP, Numbered, random_documents


def rows_of(tokens, length, cut=0, special_tokens=True):
    """Returns the rows of a shard without their padding, after checking their format and that keys are unique."""
    parts = pack_rows(
        tokens,
        stretches(tokens),
        length=length,
        special=(CLS, SEP, PAD),
        key=(1, 0, 0),
        cut=cut,
        special_tokens=special_tokens,
    )
    rows = []
    keys = []
    for part in parts:
        assert not part.is_random.any()
        assert not part.truncated
        assert (part.first == part.lengths).all()
        is_padding = np.arange(length) >= part.lengths[:, None]
        assert (part.token_ids[is_padding] == PAD).all()
        for ids, size in zip(part.token_ids, part.lengths, strict=True):
            rows.append(ids[:size])
        keys.extend(part.keys.tolist())
    assert len(set(keys)) == len(keys)
    return rows


def documents_of(rows):
    """Reassembles the documents from rows."""
    text = []
    for row in rows:
        assert row[0] == CLS
        assert row[-1] == SEP
        text += row[1:-1].tolist()
    groups = itertools.groupby(text, key=lambda piece: piece == SEP)
    documents = [list(pieces) for is_separator, pieces in groups if not is_separator]
    assert text.count(SEP) in (len(documents) - 1, len(documents))  # One between two documents.
    return documents


def expected_documents(source):
    return [list(range(first, end)) for first, end in itertools.pairwise(source.documents.tolist())]


@pytest.mark.parametrize("length", [8, 19, 128])
@pytest.mark.parametrize("block", [10**6, 100, 1])
def test_rows_are_full_and_contain_all_text_once(monkeypatch, block, length):
    monkeypatch.setattr(token_store, "BLOCK", block)
    source = Numbered(random_documents(2, documents=30, sentences=20, words=9))
    rows = rows_of(source.tokens, length)
    assert documents_of(rows) == expected_documents(source)
    assert {len(row) for row in rows[:-1]} == {length}
    text_and_separators = len(source.tokens.ids) + 30 - 1
    assert len(rows) == -(-text_and_separators // (length - 2))


@pytest.mark.parametrize("length", [8, 19, 128])
@pytest.mark.parametrize("block", [10**6, 100, 1])
def test_rows_without_special_tokens_are_the_text_alone(monkeypatch, block, length):
    monkeypatch.setattr(token_store, "BLOCK", block)
    source = Numbered(random_documents(2, documents=30, sentences=20, words=9))
    rows = rows_of(source.tokens, length, special_tokens=False)
    assert np.concatenate(rows).tolist() == source.tokens.ids.tolist()
    assert {len(row) for row in rows[:-1]} == {length}


@pytest.mark.parametrize("sizes", [[1], [14], [1, 13], [13, 1], [6, 6, 1], [6, 6, 15], [39]])
def test_rows_of_short_corpora(sizes):
    """With every length of the first row, which shifts the others."""
    source = Numbered([[[1] * size] for size in sizes])
    text_and_separators = sum(sizes) + len(sizes) - 1
    for cut in range(14):
        rows = rows_of(source.tokens, 16, cut=cut)
        assert documents_of(rows) == expected_documents(source)
        inner = rows[1:-1] if cut else rows[:-1]
        assert {len(row) for row in inner} <= {16}
        if 0 < cut < text_and_separators:
            assert len(rows[0]) - 2 == cut

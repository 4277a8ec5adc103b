"""Batches of documents with several windows: each row once, padded windows, other numbers of windows."""

import itertools

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.data.bucketing import Batches  # noqa: E402
from keras_bert.data.document_batches import DocumentBatches, DocumentRows  # noqa: E402
from keras_bert.data.token_rows import compact, joined, take  # noqa: E402


@pytest.fixture(scope="module")
def documents():
    """Lists of windows, lists of ids from 1 on."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(50):
        count = int(rng.integers(1, 7))
        lengths = [8] * (count - 1) + [int(rng.integers(2, 9))]
        rows.append([rng.integers(1, 300, length).tolist() for length in lengths])
    return rows


def windows_of(documents):
    """Returns the windows of all documents, ragged."""
    windows = list(itertools.chain.from_iterable(documents))
    return tf.ragged.constant(windows, dtype=tf.int32)


def counts_of(documents):
    return [len(windows) for windows in documents]


def feature(documents):
    return DocumentRows(compact(windows_of(documents)), counts_of(documents))


def without_padding(windows):
    """Returns the windows of a padded row without zeros; windows without tokens are absent."""
    return [window[window > 0].tolist() for window in windows if window.any()]


@pytest.mark.parametrize("is_compact", [True, False])
def test_rows(documents, is_compact):
    windows = windows_of(documents)
    if is_compact:
        windows = compact(windows)
    rows = DocumentRows(windows, counts_of(documents))
    assert rows.to_list() == documents
    assert rows.shape.as_list() == [50, None, None]
    assert rows.row_lengths().numpy().tolist() == [sum(map(len, row)) for row in documents]
    some = [7, 7, 0, 49]
    expected = [documents[row] for row in some]
    assert take(rows, some).to_list() == expected
    assert rows.ragged(some).to_list() == expected
    assert joined([take(rows, [3]), take(rows, some)]).to_list() == [documents[3], *expected]
    padded = rows.padded(tf.constant(some), tf.constant([6, 8]))
    assert padded.shape == (4, 6, 8)
    assert list(map(without_padding, padded.numpy())) == expected


@pytest.mark.parametrize(
    "options", [{}, {"grouped": False}, {"shuffle": False}, {"batch_size": 64}, {"most_tokens": 100}]
)
def test_every_document_once(documents, options):
    labels = np.arange(50)
    settings = {"batch_size": 8, "seed": 3} | options
    batches = DocumentBatches({"token_ids": feature(documents)}, labels, **settings)
    assert batches.num_examples == 50
    assert batches.windows == 6
    assert batches.sequence_length == 8
    for epoch in range(2):
        seen = []
        computed = 0
        for inputs, targets, weights in batches.dataset(epoch):
            ids = inputs["token_ids"].numpy()
            if "most_tokens" in options:
                assert len(ids) == 1 or ids.size <= 100
            else:  # A document counts once, whatever its length.
                assert len(ids) == batches.batch_size
            computed += ids.size
            real = weights.numpy() > 0
            for row, windows in zip(targets.numpy()[real], ids[real], strict=True):
                assert without_padding(windows) == documents[row]
                seen.append(row)
        assert sorted(seen) == labels.tolist()
        if epoch == 0:
            assert computed == batches.computed
    if not options:
        flat = np.concatenate(batches.row_indices(0))
        assert sorted(flat[flat >= 0]) == labels.tolist()
        assert batches.computed < 0.8 * 56 * 6 * 8  # Of all documents as long as the longest one.


def test_short_documents_are_those_of_batches(documents):
    single = [row[:1] for row in documents]
    ids = windows_of(single)
    batches = DocumentBatches({"token_ids": feature(single)}, np.arange(50), batch_size=8, seed=1)
    expected = Batches({"token_ids": ids}, np.arange(50), batch_size=8, seed=1)
    assert batches.computed == expected.computed
    for (inputs, targets, _), (others, same, _) in zip(batches.dataset(0), expected.dataset(0), strict=True):
        np.testing.assert_array_equal(inputs["token_ids"][:, 0], others["token_ids"])
        np.testing.assert_array_equal(targets, same)

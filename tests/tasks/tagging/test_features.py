"""Windows, targets and predictions of words, derived by hand and by plain loops."""

import json

import numpy as np
import pytest

import keras_bert
from keras_bert.tasks.tagging import data
from keras_bert.tasks.tagging.features import TaggingWindows, labels
from keras_bert.tasks.tagging.schemes import EntitySpan
from tests.text.test_views import slow_max_context, slow_windows

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def windows(eager, pieces, tmp_path):
    def make(content, length=12, name="x.txt", **options):
        (tmp_path / name).write_text(content)
        sentences = data.read(tmp_path / name)
        vocabulary = [*pieces[:-1], "."]
        return TaggingWindows(sentences, keras_bert.TextPreprocessor(vocabulary, length), labels(sentences), **options)

    return make


def test_targets_of_words(windows):
    """Tokens of the words: a ##b, c . d, none, e; the second part of "c.d" is trained unless told otherwise."""
    content = "ab B-X\nc.d I-X\n\x7f I-X\ne O\n"
    found = windows(content)
    assert found.labels == ["O", "B-X", "I-X"]
    assert found.targets().to_list() == [[-1, 1, -1, 2, 2, 2, 0, -1]]
    assert windows(content, first_token_only=True).targets().to_list() == [[-1, 1, -1, 2, -1, -1, 0, -1]]
    assert found.without_tokens == [(0, 2)]


def slow_logits(lengths, outputs):
    """The logits of each token of the sentences or documents, by plain loops."""
    room = 5
    windows = slow_windows(lengths, [room] * len(lengths), 2)
    rows = [[] for _ in lengths]
    for row, ((example, _, _), best) in enumerate(zip(windows, slow_max_context(windows), strict=True)):
        rows[example] += [outputs[row, 1 + place] for place, is_best in enumerate(best) if is_best]
    return np.concatenate(rows)


@pytest.mark.parametrize("document_context", [False, True])
def test_long_sentences(windows, document_context):
    """Each token is trained once, and predicted in the window that gives it the most context."""
    sentences = ["a b c d e f g h i", "j k", "l m n o p q"]
    blocks = []
    for sentence in sentences:
        blocks.append("\n".join(f"{word} O" for word in sentence.split()))
    body = "\n\n".join(blocks)
    content = f"-DOCSTART- O\n\n{body}\n\n-DOCSTART- O\n\nz B-X\n"
    found = windows(content, length=7, document_context=document_context)
    targets = found.targets()
    assert np.sum(targets.flat_values.numpy() >= 0) == 18
    assert (targets.shape[0], found.counts.tolist()) == (8 if document_context else 7, [9, 2, 6, 1])
    outputs = np.random.default_rng(0).normal(size=(targets.shape[0], 9, 3)).astype("float32")
    logits = found.from_outputs({"logits": outputs})
    lengths = [17, 1] if document_context else [9, 2, 6, 1]
    np.testing.assert_array_equal(logits, slow_logits(lengths, outputs))
    tags = found.tags(logits)
    assert list(map(len, tags)) == [9, 2, 6, 1]
    assert tags[0][0] == found.labels[logits[0].argmax()]


def test_entities_of_texts(windows):
    """Characters to words of BERT and back; an entity inside a word is trained as the whole word."""
    text = "\U0001f600 ab c.d ef"
    rows = [{"text": text, "spans": [[2, 4, "X"], [5, 8, "Y"], [9, 10, "X"], [10, 11, "X"]]}, {"text": "", "spans": []}]
    found = windows("\n".join(map(json.dumps, rows)), name="x.jsonl")
    assert found.counts.tolist() == [6, 0]
    assert found.word_spans(0) == [(0, 1), (2, 4), (5, 6), (6, 7), (7, 8), (9, 11)]
    assert found.gold_tags == [["O", "B-X", "B-Y", "I-Y", "I-Y", "B-X"], []]
    assert found.inexact == [0, 0]  # Both parts of "ef"; the second one finds no word left.
    logits = np.eye(5, dtype="float32")[[0, 1, 3, 4, 4, 1]]
    assert found.labels == ["O", "B-X", "I-X", "B-Y", "I-Y"]
    assert found.entities(logits) == [[EntitySpan("X", 2, 4), EntitySpan("Y", 5, 8), EntitySpan("X", 9, 11)], []]


def test_entities_that_share_a_word_and_adjacent_entities(windows):
    rows = [{"text": "ab c", "spans": [[0, 1, "X"], [1, 4, "X"]]}, {"text": "a", "spans": []}]
    found = windows("\n".join(map(json.dumps, rows)), name="x.jsonl")
    assert found.gold_tags == [["B-X", "B-X"], ["O"]]
    # In the scheme "io", adjacent entities of a type are one, as in the written file.
    found = windows("a X\nb X\nc O\n")
    assert found.entities(np.eye(3, dtype="float32")[[1, 1, 0]]) == [[EntitySpan("X", 0, 2)]]
    assert windows(json.dumps({"text": " ", "spans": []}), name="x.jsonl").counts.tolist() == [0]

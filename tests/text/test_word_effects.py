"""The effects of words by leaving them out, of a model whose logit is a sum that is known."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.text import word_effects  # noqa: E402
from keras_bert.text.joins import EvidenceOfLogits  # noqa: E402
from keras_bert.text.word_effects import LeaveOneOut, Subject, in_chunks, replaced, words_of_texts  # noqa: E402

pytestmark = pytest.mark.usefixtures("eager")
UNKNOWN = 1
# Word 0 has two pieces; [CLS] (2) and [SEP] (3) are of no word; the second text is shorter.
IDS = np.array([[2, 10, 20, 30, 3], [2, 40, 3, 0, 0]], "int32")
NUMBERS = np.array([[-1, 0, 0, 1, -1], [-1, 0, -1, -1, -1]], "int32")


def model(inputs, training):
    """The logits of two classes: the sum of the ids, and its half."""
    total = tf.cast(tf.reduce_sum(inputs["token_ids"], 1), tf.float32)
    return {"logits": tf.stack([total, total / 2], 1)}


@pytest.fixture
def subject():
    """The first class of the first text, the second class of the second text."""
    inputs = {"token_ids": tf.constant(IDS), "padding_mask": tf.constant((IDS > 0).astype("int32"))}
    return Subject(inputs, tf.constant(NUMBERS), row=tf.constant([0, 1]), place=tf.constant([[0], [1]]))


def test_sizes_of_a_subject(subject):
    assert subject.lengths().numpy().tolist() == [5, 3]
    inputs, number = subject.part(1, 3)
    assert inputs["token_ids"].numpy().tolist() == [2, 40, 3]
    assert number.numpy().tolist() == [-1, 0, -1]


@pytest.mark.parametrize("tokens", [1, 8192])
def test_scores_are_what_is_missing_without_a_word(subject, monkeypatch, tokens):
    """Each id of a word becomes [UNK], whether rows are computed together or one by one."""
    monkeypatch.setattr(word_effects, "_TOKENS", tokens)
    effects = LeaveOneOut(model, "logits", UNKNOWN, EvidenceOfLogits())(subject)
    assert effects.value.numpy().tolist() == [65, 45 / 2]
    assert effects.baseline.numpy().tolist() == [8, 6 / 2]  # Without any word.
    assert effects.row.numpy().tolist() == [0, 0, 1]
    assert effects.number.numpy().tolist() == [0, 1, 0]
    assert effects.score.numpy().tolist() == [28, 29, 39 / 2]


def test_copies_without_a_word():
    """Nothing, every word, and one word that two pieces have."""
    inputs = {"token_ids": tf.constant(IDS[0]), "padding_mask": tf.ones(5, tf.int32)}
    copies = replaced(inputs, tf.constant(NUMBERS[0]), tf.constant([-2, -3, 0]), UNKNOWN)
    assert copies["token_ids"].numpy().tolist() == [[2, 10, 20, 30, 3], [2, 1, 1, 1, 3], [2, 1, 1, 30, 3]]
    assert copies["padding_mask"].shape == (3, 5)


def test_words_of_several_sequences_of_a_text():
    row, number, place = words_of_texts(tf.constant([0, 1, 0, 0]), tf.constant([2, 0, 2, 1]))
    assert row.numpy().tolist() == [0, 0, 1]
    assert number.numpy().tolist() == [1, 2, 0]
    assert place.numpy().tolist() == [1, 2, 1, 0]


def test_chunks_are_of_one_sequence_each():
    seen = []

    def some(sequence, first, last):
        seen.append([int(sequence), int(first), int(last)])
        return tf.range(first, last)

    found = in_chunks(some, tf.constant([3, 0, 2]), tf.constant([2, 2, 5]), tf.zeros([0], tf.int32))
    assert seen == [[0, 0, 2], [0, 2, 3], [2, 0, 2]]
    assert found.numpy().tolist() == [0, 1, 2, 0, 1]

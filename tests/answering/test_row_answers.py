"""Rows in batches of similar length: their order, and what is cut."""

import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.answering.row_answers import answer_rows, outputs_of_rows  # noqa: E402


class Signature:
    """Returns the lengths of texts, and remembers the batches."""

    def __init__(self):
        self.batches = []

    def __call__(self, texts):
        self.batches.append([text.decode() for text in texts.numpy()])
        return {"length": tf.strings.length(texts)}


def rows_of(*texts):
    return [{"text": text} for text in texts]


def test_batches_have_texts_of_similar_length_the_longest_first():
    signature = Signature()
    rows = rows_of("a", "four", "bb", "seven77", "ccc")
    found = list(outputs_of_rows(signature, ["text"], rows, 2))
    assert signature.batches == [["seven77", "four"], ["ccc", "bb"], ["a"]]
    assert [numbers for numbers, _, _ in found] == [[3, 1], [4, 2], [0]]
    for numbers, batch, outputs in found:
        assert batch == [rows[number] for number in numbers]
        assert outputs["length"].tolist() == [len(row["text"]) for row in batch]


def test_rows_of_a_batch_have_the_same_number_of_choices():
    def count(choices):
        return {"count": tf.fill([len(choices)], choices.shape[1])}

    rows = [
        {"text": "a", "choices": ["b", "c"]},
        {"text": "d", "choices": ["e", "f", "g"]},
        {"text": "longer", "choices": ["h", "i"]},
    ]
    found = list(outputs_of_rows(count, ["choices"], rows, 8))
    assert [numbers for numbers, _, _ in found] == [[1], [2, 0]]
    assert [outputs["count"].tolist() for _, _, outputs in found] == [[3], [2, 2]]


def test_answers_have_the_order_of_the_rows():
    def answer(outputs, row, n_best):
        return {"text": row["text"], "length": int(outputs["length"]), "n_best": n_best}

    found = answer_rows(answer, Signature(), ["text"], rows_of("a", "ccc", "bb"), 1, n_best=4)
    assert found == [
        {"text": "a", "length": 1, "n_best": 4},
        {"text": "ccc", "length": 3, "n_best": 4},
        {"text": "bb", "length": 2, "n_best": 4},
    ]
    assert answer_rows(answer, Signature(), ["text"], [], 1) == []


def test_lone_surrogates_are_encoded():
    def texts_of(texts):
        return {"text": texts}

    ((_, _, outputs),) = outputs_of_rows(texts_of, ["text"], rows_of("a\ud800"), 1)
    assert outputs["text"].tolist() == [b"a\xed\xa0\x80"]


@pytest.mark.parametrize("batch_size", [0, -1, 1.5, True])
def test_a_wrong_batch_size(batch_size):
    with pytest.raises(ValueError, match="batch_size"):
        list(outputs_of_rows(Signature(), ["text"], rows_of("a"), batch_size))

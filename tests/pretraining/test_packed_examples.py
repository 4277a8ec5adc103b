"""Rows of ids, compared with rows that are written out."""

import numpy as np

from keras_bert.pretraining.packed_examples import SpecialIds, empty_rows, put_texts

SPECIAL = SpecialIds(start=2, separator=3, pad=0)


def test_empty_rows_begin_with_the_start_token():
    assert empty_rows(2, 4, SPECIAL).tolist() == [[2, 0, 0, 0], [2, 0, 0, 0]]
    assert empty_rows(0, 4, SPECIAL).shape == (0, 4)


def test_texts_are_written_from_the_column_of_each_row():
    ids = empty_rows(3, 5, SPECIAL)
    put_texts(ids, columns=np.array([1, 3, 2]), lengths=np.array([3, 2, 0]), texts=np.array([7, 8, 9, 10, 11]))
    assert ids.tolist() == [[2, 7, 8, 9, 0], [2, 0, 0, 10, 11], [2, 0, 0, 0, 0]]

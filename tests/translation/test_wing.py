"""The answer of a translation model: one translation, or the best ones."""

import numpy as np
import pytest

from keras_bert.translation.wing import answer

OUTPUT = {
    "translations": np.array([b"Ein Hund", "Der Hünd".encode(), b""], object),
    "scores": np.array([-0.5, -1.5, -2.0], "float32"),
    "truncated": np.bool_(False),
}


def test_the_best_translation():
    assert answer(OUTPUT, row=None, n_best=None) == {"translation": "Ein Hund", "score": -0.5}


@pytest.mark.parametrize("n_best", [1, 2, 3])
def test_the_best_ones(n_best):
    translations = answer(OUTPUT, row=None, n_best=n_best)["translations"]
    expected = [("Ein Hund", -0.5), ("Der Hünd", -1.5), ("", -2.0)]
    assert [(each["translation"], each["score"]) for each in translations] == expected[:n_best]


def test_a_text_that_was_cut_off():
    assert answer(OUTPUT | {"truncated": np.bool_(True)}, row=None, n_best=None)["truncated"] is True

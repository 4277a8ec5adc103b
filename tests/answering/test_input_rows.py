"""Texts of all forms as rows."""

import numpy as np
import pytest

from keras_bert.answering.input_rows import check_rows, read_rows


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("a b", {"text": "a b"}),
        (("a", "b"), {"text": "a", "pair": "b"}),
        ({"question": "a", "context": "b"}, {"question": "a", "context": "b"}),
        ({"text": "a", "choices": ["b", "c"]}, {"text": "a", "choices": ["b", "c"]}),
    ],
)
def test_a_single_text_and_a_list(text, row):
    assert read_rows(text) == ([row], True)
    assert read_rows([text, text]) == ([row, row], False)


def test_words_have_tabs_for_the_spaces_within():
    expected = {"words": "New\tYork b", "text": "New York b"}
    assert read_rows([["New York", "b"]], words=True) == ([expected], False)
    assert read_rows({"text": ["New York", "b"]}, words=True) == ([expected], True)
    assert read_rows(["a b"], words=True) == ([{"text": "a b"}], False)


def test_arrays_and_bytes():
    assert read_rows(np.array([["a", "b"]]))[0] == [{"text": "a", "pair": "b"}]
    assert read_rows([b"a"])[0] == [{"text": "a"}]


@pytest.mark.parametrize("texts", [b"a", 1, None, np.array("a")])
def test_what_is_no_text(texts):
    with pytest.raises(ValueError, match="`texts` must be a text or a list of texts, pairs or dicts. Received: "):
        read_rows(texts)


def test_rows_of_other_inputs():
    allowed = [("text",), ("text", "pair")]
    assert check_rows([], allowed, "the model") == ("text",)
    assert check_rows([{"text": "a", "pair": "b"}], allowed, "the model") == ("text", "pair")
    mixed = [{"text": "a", "pair": "b"}, {"text": "a"}]
    message = "a text or a pair of texts as a tuple, the same for all of `texts`. Received: only a text at index 1"
    with pytest.raises(ValueError, match=message):
        check_rows(mixed, allowed, "the model")

"""Counts of tokens beside outputs and answers, and the one line about texts that are cut."""

import numpy as np
import pytest

from keras_bert.text.token_counts import CutTexts, check_all_read, split_counts, told_once, with_counts, without_counts

COUNTS = {"tokens": np.array([5, 12, 9]), "tokens_read": np.array([5, 8, 8])}


def test_counts_are_added_and_taken_away():
    outputs = with_counts({"logits": [1, 2, 3]}, COUNTS)
    assert outputs == {"logits": [1, 2, 3], **COUNTS}
    others, counts = split_counts(outputs)
    assert others == {"logits": [1, 2, 3]}
    assert counts == COUNTS
    assert without_counts(outputs) == others


def test_an_output_may_be_called_tokens():
    outputs = with_counts({"tokens": ["a", "b"]}, {"tokens": 7, "tokens_read": 6})
    assert outputs == {"tokens": ["a", "b"], "text_tokens": 7, "tokens_read": 6}
    assert split_counts(outputs) == ({"tokens": ["a", "b"]}, {"tokens": 7, "tokens_read": 6})


def test_counts_of_windows():
    counts = {"tokens": 7, "tokens_read": 6, "windows": 2, "strongest": {"start": 0, "end": 3}}
    answer = with_counts({"label": "x"}, counts)
    assert answer["windows"] == 2
    assert split_counts(answer) == ({"label": "x"}, counts)


def test_an_older_export_has_no_counts():
    assert split_counts({"tokens": [1], "windows": [2]}) == ({"tokens": [1], "windows": [2]}, {})


def test_reserved_names():
    with pytest.raises(ValueError, match="Expected other names.* Received: 'windows' among label, windows"):
        with_counts({"label": "x", "windows": 3}, COUNTS)


def test_all_texts_must_be_read():
    """The message names the first of those that are not, by its order or by its number."""
    check_all_read({"tokens": [3], "tokens_read": [3]}, "refuse")
    with pytest.raises(ValueError, match=r"texts\[1\] has 12 tokens, more than the 8 .* Expected shorter texts"):
        check_all_read(COUNTS, "refuse")
    with pytest.raises(ValueError, match=r"texts\[70\].* Expected a call of `windows`"):
        check_all_read(COUNTS, "windows", numbers=[60, 70, 80])


def test_one_line_about_all_calls(caplog):
    cut = CutTexts(most=512)
    cut.add(COUNTS)
    cut.add({"tokens": np.array([], int), "tokens_read": np.array([], int)})
    cut.add({"logits": [1]})  # Of an older export.
    cut.tell()
    assert caplog.messages == [
        "2 of 3 texts were longer than the 8 tokens that the model reads; the rest of each was left out. "
        "The longest has 12; `sequence_length` may be up to 512"
    ]


def test_nothing_is_told_if_all_is_read(caplog):
    cut = CutTexts()
    cut.add({"tokens": np.array([3]), "tokens_read": np.array([3])})
    cut.tell()
    assert not caplog.messages


def test_texts_in_windows_and_questions(caplog):
    windows = CutTexts(most=512)
    windows.add(COUNTS | {"windows": np.array([1, 2, 2])})
    windows.tell()
    questions = CutTexts(unit="questions")
    questions.add({"tokens": np.array([9]), "tokens_read": np.array([4])})
    questions.tell()
    assert "windows are limited by `max_windows`" in caplog.messages[0]
    assert caplog.messages[1].startswith("1 of 1 questions was longer than questions may be, see `max_question_length`")


def test_texts_are_refused():
    with pytest.raises(ValueError, match=r"texts\[1\]"):
        CutTexts(refuses=True).add(COUNTS)


def test_a_block_tells_once(caplog):
    """Also with another block in it."""
    with told_once(), told_once():
        for _ in range(2):
            cut = CutTexts()
            cut.add(COUNTS)
            cut.tell()
        assert not caplog.messages
    (line,) = caplog.messages
    assert line.startswith("4 of 6 texts were longer")

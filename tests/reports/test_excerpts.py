"""Excerpts: what is shown around spans, and where it is split."""

import pytest

from keras_bert.reports.excerpts import excerpts

WORDS = "one two three four five six seven eight nine ten"


def texts_of(shown):
    """Returns the whole text of each excerpt."""
    joined = []
    for excerpt in shown:
        joined.append("".join(text for _, text, _ in excerpt))
    return joined


def test_a_mark_is_a_part_with_its_style():
    (excerpt,) = excerpts("one two three", [(4, 7)], {"gold": [(4, 7)]})
    assert excerpt == [("", "one ", []), ("gold", "two", []), ("", " three", [])]


def test_marks_that_overlap_have_both_styles():
    (excerpt,) = excerpts("abcdef", [(0, 6)], {"gold": [(0, 4)], "predicted": [(2, 6)]})
    assert excerpt == [("gold", "ab", []), ("gold predicted", "cd", []), ("predicted", "ef", [])]


def test_a_label_follows_its_span():
    labels = [((0, 3), "gold", "K")]
    (excerpt,) = excerpts("one two", [(0, 3)], {"gold": [(0, 3)]}, labels)
    assert excerpt == [("gold", "one", [["gold", "K"]]), ("", " two", [])]


def test_an_excerpt_begins_and_ends_with_a_whole_word():
    start = WORDS.index("five")
    shown = excerpts(WORDS, [(start, start + 4)], {}, around=7)
    assert texts_of(shown) == ["… four five six …"]


def test_nearby_excerpts_are_merged():
    text = "a " * 200
    near = excerpts(text, [(100, 101), (140, 141)], {}, around=10)
    far = excerpts(text, [(100, 101), (300, 301)], {}, around=10)
    assert len(near) == 1
    assert len(far) == 2


def test_without_spans_the_start_is_shown():
    # Twice the 8 characters around a span, without the part of a word.
    assert texts_of(excerpts(WORDS, [], {}, around=8)) == ["one two three …"]
    assert texts_of(excerpts("short", [], {})) == ["short"]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("ae\N{COMBINING ACUTE ACCENT}b", (0, 2)),
        ("ax\N{ZERO WIDTH JOINER}yb", (0, 2)),
    ],
)
def test_a_mark_ends_behind_the_characters_that_combine(text, span):
    (excerpt,) = excerpts(text, [span], {"gold": [span]})
    assert excerpt == [("gold", text[:-1], []), ("", "b", [])]

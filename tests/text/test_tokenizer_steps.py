"""The steps of a `tokenizer.json`: flat lists of them, and which are supported."""

import pytest

from keras_bert import Vocabulary
from keras_bert.text.tokenizer_steps import (
    changes_case,
    flat_steps,
    normalizer_steps,
    pre_tokenizer_steps,
    unigram_steps,
)
from tests.text.google_words import SPECIAL
from tests.text.json_steps import replace, steps

METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
TABLE = {"type": "Precompiled", "precompiled_charsmap": "AA=="}
STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
JOIN_SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}
NFKC = {"type": "NFKC"}


def test_steps_of_sequences_within_sequences():
    nested = steps("NFC", steps("Lowercase", replace("a", "b")))
    assert normalizer_steps(nested) == [{"type": "NFC"}, {"type": "Lowercase"}, replace("a", "b")]
    assert flat_steps(nested, "normalizers") == normalizer_steps(nested)
    assert pre_tokenizer_steps({"type": "Punctuation"}) == [{"type": "Punctuation"}]


@pytest.mark.parametrize("values", [None, "NFC", []])
def test_what_is_no_step_has_none(values):
    assert flat_steps(values, "normalizers") == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"normalizer": {"type": "Nmt"}}, r"`normalizer` has a step that is not supported.*\{'type': 'Nmt'\}"),
        ({"normalizer": {"type": "NFC", "other": 1}}, "`normalizer` has a step"),
        ({"normalizer": steps(replace("a", "") | {"pattern": {"Regex": "a+"}})}, "a step Replace that is not supp"),
        ({"normalizer": replace("", "a")}, "a step Replace"),
        ({"normalizer": replace("a", "\0")}, "a step Replace"),
        ({"normalizer": {"type": "NFC"}, "strip_accents": True}, "Expected strip_accents=None. Received: strip_acc"),
        ({"pre_tokenizer": {"type": "ByteLevel"}}, "`pre_tokenizer` has a step that is not supported.*ByteLevel"),
        ({"pre_tokenizer": {"type": "Punctuation", "behavior": "x"}}, "whose `behavior` is none of Isolated"),
    ],
)
def test_steps_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary(SPECIAL, **settings)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (None, False),
        (NFKC, False),
        (steps("NFC", "Lowercase"), True),
        ({"type": "BertNormalizer", "lowercase": True}, True),
        ({"type": "BertNormalizer", "lowercase": False}, False),
    ],
)
def test_steps_that_change_the_case(values, expected):
    assert changes_case(values) == expected


@pytest.mark.parametrize(
    ("normalizer", "pre_tokenizer", "before", "table"),
    [
        (TABLE, steps("WhitespaceSplit", METASPACE), [], "AA=="),
        (steps(NFKC, TABLE, STRIP, JOIN_SPACES), METASPACE, [NFKC], "AA=="),
        (steps(NFKC), steps("WhitespaceSplit", METASPACE), [NFKC], ""),
        (None, steps("WhitespaceSplit", METASPACE | {"add_prefix_space": True}), [], ""),
    ],
)
def test_steps_of_sentencepiece(normalizer, pre_tokenizer, before, table):
    """Words are split at white space by the pre-tokenizer, or by the normalizer; both ways are converted models."""
    assert unigram_steps(normalizer, pre_tokenizer) == (before, table)


@pytest.mark.parametrize(
    ("normalizer", "pre_tokenizer"),
    [
        (TABLE, METASPACE),  # Nothing joins spaces.
        (TABLE, None),
        (steps(TABLE, NFKC), steps("WhitespaceSplit", METASPACE)),  # After the table.
        (TABLE, steps("Whitespace", METASPACE)),
        (TABLE, steps("WhitespaceSplit", METASPACE | {"prepend_scheme": "first"})),
    ],
)
def test_other_steps_of_unigram_are_refused(normalizer, pre_tokenizer):
    with pytest.raises(ValueError, match="the normalizer or the pre-tokenizer of a Unigram vocabulary"):
        unigram_steps(normalizer, pre_tokenizer)

"""GPT-2's pre-tokenizer as files describe it."""

import pytest

from keras_bert.text.byte_level_step import STEP, adds_prefix_space, byte_level_step
from tests.text.byte_level import vocabulary


def test_settings_that_are_missing_have_the_defaults_of_the_library():
    assert byte_level_step({"type": "ByteLevel"}) == {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": True,
        "use_regex": True,
    }
    assert byte_level_step({"type": "Sequence", "pretokenizers": [STEP]}) == STEP


def test_whether_a_text_gets_a_space():
    assert not adds_prefix_space(vocabulary())
    assert not adds_prefix_space(vocabulary(pre_tokenizer=STEP))
    assert adds_prefix_space(vocabulary(pre_tokenizer=STEP | {"add_prefix_space": True}))


@pytest.mark.parametrize(
    "pre_tokenizer",
    [
        None,
        {"type": "Whitespace"},
        {"type": "Sequence", "pretokenizers": [STEP, STEP]},
        STEP | {"use_regex": False},
        STEP | {"add_prefix_space": 1},
        STEP | {"other": 1},
    ],
)
def test_other_steps_are_refused(pre_tokenizer):
    with pytest.raises(ValueError, match="`pre_tokenizer` must be GPT-2's for a vocabulary of byte-level BPE"):
        byte_level_step(pre_tokenizer)

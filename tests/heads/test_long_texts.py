"""Whether a model with a head can read long texts as it is asked to."""

import types

import pytest

from keras_bert.heads.long_texts import check_long_texts, check_stored_reading
from keras_bert.heads.registry import head_named
from keras_bert.metadata import Metadata

CLASSIFIER = head_named("classification")
TAGGER = head_named("token_classification")  # It reads all of a text, in windows.


@pytest.mark.parametrize("long_texts", [None, "head", "windows"])
def test_what_a_classifier_can_do(long_texts):
    check_long_texts(long_texts, CLASSIFIER)


def test_other_ways_are_refused():
    with pytest.raises(ValueError, match="`long_texts` must be one of"):
        check_long_texts("all", CLASSIFIER)
    with pytest.raises(ValueError, match="`long_texts` is for models that read a part .*'token_classification'"):
        check_long_texts("head", TAGGER)
    check_long_texts(None, TAGGER)


def test_stored_windows():
    """Beside [CLS] and [SEP], a window of 10 tokens has 8: one less may be shared with the window before."""
    windows = Metadata(long_texts="windows", sequence_length=10, overlap=7, max_windows=2)
    check_stored_reading(windows, CLASSIFIER)
    with pytest.raises(ValueError, match="`overlap` must be less than the 8 tokens"):
        check_stored_reading(windows.replace(overlap=8), CLASSIFIER)


@pytest.mark.parametrize(("name", "value"), [("overlap", -1), ("overlap", 1.5), ("max_windows", 0)])
def test_numbers_of_windows(name, value):
    metadata = types.SimpleNamespace(long_texts="windows", overlap=None, max_windows=None, sequence_length=10)
    setattr(metadata, name, value)
    with pytest.raises(ValueError, match=f"`{name}`"):
        check_stored_reading(metadata, CLASSIFIER)


@pytest.mark.parametrize("name", ["overlap", "max_windows"])
def test_options_of_windows_need_windows(name):
    with pytest.raises(ValueError, match=f"`{name}` is an option of long_texts='windows'"):
        check_stored_reading(Metadata(long_texts="head", **{name: 2}), CLASSIFIER)

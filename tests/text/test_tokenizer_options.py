"""The options of the tokenizer are arguments of `Vocabulary`. That no format loses one is in `tests/checkpoints`."""

import inspect

from keras_bert import Vocabulary
from keras_bert.text.tokenizer_options import FILE_OPTIONS, LOWERCASE, VOCABULARY_OPTIONS, VocabularySettings


def test_each_option_is_an_argument_with_its_default():
    vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    for option in VOCABULARY_OPTIONS:
        assert getattr(vocabulary, option.name) == option.default, option.name


def test_settings_have_all_options_but_added_tokens():
    names = [option.name for option in VOCABULARY_OPTIONS]
    assert ["added_tokens", *VocabularySettings.__annotations__] == names
    assert "added_tokens" in inspect.signature(Vocabulary).parameters


def test_options_in_a_tokenizer_json_have_places_of_their_own():
    places = [option.file for option in FILE_OPTIONS]
    assert len(set(places)) == len(places)
    assert LOWERCASE in FILE_OPTIONS

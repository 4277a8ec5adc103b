"""What `tokenizer_config.json` says about added tokens, special tokens and segments."""

import pathlib

import pytest

from keras_bert import AddedToken
from keras_bert.text.tokenizer_config import TokenizerConfig, content_of, entries

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def config(older=None, **settings):
    return TokenizerConfig(
        folder="model",
        path=pathlib.Path("model/vocab.txt"),
        class_name="Bert",
        settings={"extra_special_tokens": []} | settings,
        older_added_tokens=older or {},
    )


def test_tokens_are_strings_or_entries():
    assert content_of("[SEP]") == "[SEP]"
    assert content_of({"content": "[SEP]", "lstrip": True}) == "[SEP]"
    assert content_of(None) is None
    expected = [{"content": "<a>", "special": True}, {"content": "<b>", "lstrip": True, "special": True}]
    assert entries(["<a>", {"content": "<b>", "lstrip": True}]) == expected
    assert entries({"bos_token": "<a>"}) == expected[:1]


def test_padding_and_mask_of_the_settings():
    """They must be pieces; names that are BERT's need no mention."""
    values = {"pieces": ["<pad>", "<s>", "[MASK]"], "special_tokens": {"[CLS]": "<s>"}}
    found = config(pad_token="<pad>", mask_token={"content": "[MASK]"}).special_tokens(values)
    assert found == {"[CLS]": "<s>", "[PAD]": "<pad>"}
    assert config(pad_token="<none>").special_tokens(values) == {"[CLS]": "<s>"}


def test_segments():
    assert config().has_segments(True)
    assert not config().has_segments(False)
    assert config(model_input_names=["input_ids", "token_type_ids"]).has_segments(False)
    assert not config(model_input_names=["input_ids"]).has_segments(True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sep_token": "</s>"}, r"model: the tokenizer's `sep_token` must be '\[SEP\]', as in BERT. Rec.*='</s>'"),
        ({"do_basic_tokenize": False}, "do_basic_tokenize"),
        ({"split_special_tokens": True}, "split_special_tokens"),
    ],
)
def test_settings_that_are_not_berts(settings, message):
    with pytest.raises(ValueError, match=message):
        config(**settings).check()


def test_settings_of_other_special_tokens():
    config(sep_token="</s>").check({"[SEP]": "</s>"})
    with pytest.raises(ValueError, match="sep_token"):
        config(sep_token="[SEP]").check({"[SEP]": "</s>"})


def test_words_that_are_never_split_are_ignored(caplog):
    config(never_split=["[CLS]", "New", "York"]).check()
    assert "`never_split` of tokenizer_config.json is ignored, as in transformers 5: New, York" in caplog.text


def test_added_tokens_of_the_settings():
    """At their ids, with placeholders between; they replace those of the vocabulary's file of the same content."""
    decoder = {"6": {"content": "<x>", "lstrip": True}, "0": {"content": "[PAD]", "special": True}}
    found = config(added_tokens_decoder=decoder)
    assert found.has_added_tokens
    pieces, added = found.with_added_tokens(BERT, [AddedToken("<x>"), AddedToken("<y>")])
    assert pieces == [*BERT, "[no piece 5]", "<x>"]
    assert added == [AddedToken("<y>"), AddedToken("<x>", lstrip=True)]


def test_added_tokens_of_the_older_file():
    """Those that the settings name are special; special tokens without an id follow the pieces."""
    extra = [{"content": "<z>", "special": True}]
    found = config(older={"<x>": 5, "<y>": 6}, bos_token="<y>", extra_special_tokens=extra)
    assert not found.has_added_tokens
    pieces, added = found.with_added_tokens(BERT, [])
    assert pieces == [*BERT, "<x>", "<y>", "<z>"]
    assert [(token.content, token.special) for token in added] == [("<x>", False), ("<y>", True), ("<z>", True)]


def test_an_added_token_with_the_id_of_a_piece():
    with pytest.raises(ValueError, match="2"):
        config(older={"<x>": 2}).with_added_tokens(BERT, [])


def test_flags_of_special_tokens():
    """Only entries have flags; a string says nothing."""
    tokens = [AddedToken("<mask>", wordpiece=True), AddedToken("</s>", lstrip=True)]
    found = config(mask_token={"content": "<mask>", "lstrip": True}, sep_token="</s>").with_flags(tokens)
    mask = AddedToken("<mask>", normalized=False, special=True, wordpiece=True, lstrip=True)
    assert found == [mask, AddedToken("</s>", lstrip=True)]

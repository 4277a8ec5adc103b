import json

import pytest

from keras_bert import AddedToken, Vocabulary
from keras_bert.text import tokenizer_json

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def test_from_list_file_and_itself(tmp_path):
    vocabulary = Vocabulary([*SPECIAL, "hello", "##s"])
    vocabulary.save(tmp_path / "vocab.txt")
    assert (
        Vocabulary(tmp_path / "vocab.txt")
        == Vocabulary(str(tmp_path / "vocab.txt"))
        == Vocabulary(vocabulary)
        == vocabulary
    )
    assert (tmp_path / "vocab.txt").read_bytes() == b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##s\n"
    assert len(vocabulary) == 7
    assert "hello" in vocabulary
    assert vocabulary.ids(["[CLS]", "hello"]) == [2, 5]


def test_windows_line_ends_a_byte_order_mark_and_no_last_line_end(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(SPECIAL).encode())
    assert Vocabulary(tmp_path / "vocab.txt").pieces == tuple(SPECIAL)


def test_pieces_that_python_takes_for_line_ends(tmp_path):
    pieces = [*SPECIAL, "\u2028", "\x85", "\u3000"]
    Vocabulary(pieces).save(tmp_path / "vocab.txt")
    assert Vocabulary(tmp_path / "vocab.txt").pieces == tuple(pieces)


def test_public_vocabularies_keep_their_sizes(data):
    sizes = {path.name.removesuffix("-vocab.txt"): len(Vocabulary(path)) for path in (data / "vocab").iterdir()}
    assert sizes == {
        "bert-base-uncased": 30522,
        "bert-base-cased": 28996,
        "bert-base-multilingual-cased": 119547,
        "bert-base-chinese": 21128,
    }


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([], "the list of pieces: the vocabulary is empty"),
        (SPECIAL[1:], r"the vocabulary lacks \[PAD\]"),
        ([*SPECIAL, 7], "id 5: a piece must be a string. Received: 7"),
        ([*SPECIAL, "a "], "id 5: a piece has no white space around it. Received: 'a '"),
        ([*SPECIAL, "a\n"], r"id 5: a piece has no white space around it. Received: 'a\\n'"),
        ([*SPECIAL, ""], "id 5: a piece has no white space around it. Received: ''"),
    ],
)
def test_bad_pieces(pieces, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary(pieces)


def test_an_unknown_piece():
    with pytest.raises(ValueError, match="the vocabulary has no piece 'x'"):
        Vocabulary(SPECIAL).id("x")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[PAD]\n\n[UNK]\n", r"vocab.txt:2: the line is empty"),
        (b"[PAD]\n[UNK]\n\xff\xfe\n", "vocab.txt:3: a vocabulary must be UTF-8"),
        (b"[PAD]\n[unk]\n[CLS]\n", r"lacks \[UNK\]; .*vocab.txt:2 has '\[unk\]' instead: take an unaltered copy"),
    ],
)
def test_bad_files(tmp_path, content, message):
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Vocabulary(tmp_path / "vocab.txt")


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none.txt: there is no such vocabulary file"):
        Vocabulary(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"model": {"type": "BPE", "vocab": {"a": 0}}}, r"expected model.type='WordPiece'. Received: model.type='BPE'"),
        ({"model": 3}, "not a tokenizer.json"),
        ([], "not a tokenizer.json"),
    ],
)
def test_bad_tokenizer_json(tmp_path, content, message):
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        Vocabulary(tmp_path / "tokenizer.json")


def test_settings_travel_through_configs_and_tokenizer_json(tmp_path):
    pieces = [*SPECIAL, "a", "a", "<x>", "new word"]
    added = [AddedToken("new word"), AddedToken("<x>", normalized=False, special=True)]
    vocabulary = Vocabulary(pieces, added, strip_accents=False, tokenize_chinese_chars=False, max_word_length=7)
    assert vocabulary.id("a") == 6
    assert [token.content for token in vocabulary.added_tokens] == ["<x>", "new word"]
    config = json.loads(json.dumps(vocabulary.get_config()))
    assert Vocabulary(config) == Vocabulary(vocabulary) == vocabulary != Vocabulary(pieces)
    assert Vocabulary(pieces).get_config() == pieces
    (tmp_path / "tokenizer.json").write_text(tokenizer_json.write(vocabulary, lowercase=False))
    read = Vocabulary(tmp_path / "tokenizer.json")
    # The first of two equal lines has no place in the file.
    assert read == Vocabulary({**vocabulary.get_config(), "pieces": [*SPECIAL, "[no piece 5]", *pieces[6:]]})

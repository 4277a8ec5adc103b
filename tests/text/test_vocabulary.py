import json
import resource

import pytest

from keras_bert import AddedToken, Vocabulary
from keras_bert.text import tokenizer_json

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BERT = b'"normalizer": {}, "pre_tokenizer": {}, "model": {"vocab": {"a": 0,'


def test_vocabulary_from_list_file_or_vocabulary(tmp_path):
    pieces = [*SPECIAL, "hello", "##s", "\u2028", "\x85", "\u3000"]  # Python treats the last three as line ends.
    vocabulary = Vocabulary(pieces)
    path = tmp_path / "vocab.txt"
    vocabulary.save(path)
    assert path.read_bytes() == "".join(f"{piece}\n" for piece in pieces).encode()
    assert Vocabulary(path) == vocabulary
    assert Vocabulary(str(path)) == vocabulary
    assert Vocabulary(vocabulary) == vocabulary


def test_pieces_and_ids():
    vocabulary = Vocabulary([*SPECIAL, "hello"])
    assert len(vocabulary) == 6
    assert "hello" in vocabulary
    assert vocabulary.ids(["[CLS]", "hello"]) == [2, 5]
    with pytest.raises(ValueError, match="the vocabulary has no piece 'x'"):
        vocabulary.id("x")


@pytest.mark.parametrize("end", ["", "\n\n", " ", "\r\n \r\n\t"])
def test_ends_of_files(tmp_path, end):
    """Windows line ends, a byte order mark, no newline at end of file or several, spaces after a piece."""
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(SPECIAL).encode() + end.encode())
    assert Vocabulary(path).pieces == tuple(SPECIAL)


def test_a_full_disk_keeps_the_old_file(tmp_path):
    """The limit on the size of files stands in for a disk that is full in the middle of a piece."""
    path = tmp_path / "vocab.txt"
    Vocabulary(SPECIAL).save(path)
    before = path.read_bytes()
    many = Vocabulary(SPECIAL + [f"piece{number}" for number in range(500)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1001, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large, nothing was written: '.*vocab.txt'$"):
            many.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["vocab.txt"]


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([], "the list of pieces: the vocabulary is empty"),
        (SPECIAL[1:], r"the vocabulary lacks \[PAD\]"),
        ([*SPECIAL, 7], "id 5: a piece must be a string. Received: 7"),
        ([*SPECIAL, "a\n"], r"id 5: a piece must be non-empty and stripped. Received: 'a\\n'"),
        ([*SPECIAL, ""], "id 5: a piece must be non-empty"),
        ({"[PAD]": 0, "[UNK]": 1}, "`pieces` must be a path, a list of strings, or a dict from `get_config`"),
    ],
)
def test_invalid_pieces(pieces, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary(pieces)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.txt", b"[PAD]\n\n[UNK]\n", r"vocab.txt:2: the line is empty"),
        ("vocab.txt", b"[PAD]\n[UNK]\n\xff\xfe\n", "vocab.txt:3: a vocabulary must be UTF-8"),
        ("vocab.txt", b"[PAD]\n[unk]\n", r"lacks \[UNK\]; .*vocab.txt:2 has '\[unk\]' instead: use an unmodified"),
        (
            "a.json",
            b'{"model": {"type": "Word", "vocab": {"a": 0}}}',
            "expected model.type='WordPiece'. .*: .*'Word'",
        ),
        ("a.json", b'{"model": 3}', "not a tokenizer.json"),
        ("a.json", b"[]", "not a tokenizer.json"),
        ("a.json", b'{%s "b": 1000000000}}}' % BERT, "with few gaps. Received: 'b' with the id 1000000000 among 2"),
        ("a.json", b'{%s "b": 0}}}' % BERT, "two pieces have the id 0. Expected one for each id. .*: 'a' and 'b'"),
    ],
)
def test_invalid_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Vocabulary(tmp_path / name)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="vocab.txt: there is no such vocabulary file"):
        Vocabulary(tmp_path / "vocab.txt")


def test_settings_round_trip_through_config_and_tokenizer_json(tmp_path):
    pieces = [*SPECIAL, "a", "a", "<x>", "new word"]
    added = [AddedToken("new word", wordpiece=True), AddedToken("<x>", normalized=False, special=True, wordpiece=True)]
    vocabulary = Vocabulary(pieces, added, strip_accents=False, tokenize_chinese_chars=False, max_word_length=7)
    assert vocabulary.id("a") == 6
    assert [token.content for token in vocabulary.added_tokens] == ["<x>", "new word"]
    config = json.loads(json.dumps(vocabulary.get_config()))
    assert Vocabulary(config) == vocabulary
    assert Vocabulary(vocabulary) == vocabulary
    assert Vocabulary(pieces) != vocabulary
    assert Vocabulary(pieces).get_config() == pieces
    (tmp_path / "tokenizer.json").write_text(tokenizer_json.to_json(vocabulary, lowercase=False))
    read = Vocabulary(tmp_path / "tokenizer.json")
    # The first of two duplicates is not in the file.
    assert read == Vocabulary(vocabulary.get_config() | {"pieces": [*SPECIAL, "[no piece 5]", *pieces[6:]]})


@pytest.mark.parametrize(
    "pieces",
    [
        ["a", "b", "<x>", "new word"],
        ["<x>", "a", "new word", "b"],
        ["<x>", "a", "b", "new word"],
        ["a", "b", "b", "<x>", "new word"],
    ],
)
def test_other_programs_give_added_tokens_their_ids(tmp_path, pieces):
    """The library ignores the ids of added tokens in the file; only those at the end need no entry beside it."""
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    vocabulary = Vocabulary([*SPECIAL, *pieces], ["new word", "<x>"])
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json.to_json(vocabulary, lowercase=True))
    texts = ["[CLS]", "b", "<x>", "a", "new word", "[SEP]"]
    assert tokenizers.Tokenizer.from_file(str(path)).encode("b <x> a new word").ids == vocabulary.ids(texts)
    assert Vocabulary(path).ids(texts) == vocabulary.ids(texts)

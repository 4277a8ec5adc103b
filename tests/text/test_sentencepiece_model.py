"""SentencePiece's models: files that are read, tables of characters that are checked, and what is refused.

A model is read without a library; SentencePiece never sees a table that points outside of itself.
"""

import pytest

import keras_bert
from keras_bert.checkpoints import tokenizer_files
from keras_bert.checkpoints.folder import Folder
from keras_bert.metadata import Metadata
from keras_bert.text import sentencepiece_model
from keras_bert.wire_format import message
from tests.checkpoints.conftest import edit
from tests.text.unigrams import METASPACE, SCORES, table, unigram

NORMAL = 1
UNKNOWN = 2
CONTROL = 3
USER_DEFINED = 4
BYTE = 6
PIECE_FIELD = 1
TRAINER_FIELD = 2
NORMALIZER_FIELD = 3


def piece(text, kind):
    return PIECE_FIELD, message([(1, text.encode()), (2, -1.0), (3, kind)])


UNKNOWN_PIECE = piece("<unk>", UNKNOWN)
# A unit of a table is a leaf, has a string, or has children around a base.
LEAF = 1 << 31
HAS_STRING = 256
BASE_128 = 128 << 10


def read_folder(folder):
    return tokenizer_files.read(Folder(folder), Metadata()).vocabulary


def write_model(folder, content):
    """Writes a `.model` and the settings of a class whose ids follow from it."""
    path = folder / "sentencepiece.bpe.model"
    path.write_bytes(content)
    edit(folder / "tokenizer_config.json", tokenizer_class="XLMRobertaTokenizer")
    return path


def test_pieces_and_scores_of_a_file(tmp_path):
    content = message([UNKNOWN_PIECE, piece("▁a", NORMAL), (PIECE_FIELD, message([(1, b"b"), (2, 0.5)]))])
    pieces, characters = sentencepiece_model.read(write_model(tmp_path, content))
    assert [tuple(found) for found in pieces] == [("<unk>", -1.0, UNKNOWN), ("▁a", -1.0, NORMAL), ("b", 0.5, NORMAL)]
    assert characters == ""


def test_symbols_of_the_user(tmp_path):
    """They are added tokens in transformers."""
    pieces = [
        UNKNOWN_PIECE,
        piece("<s>", CONTROL),
        piece("</s>", CONTROL),
        piece("@user", USER_DEFINED),
        piece("▁", NORMAL),
    ]
    write_model(tmp_path, message(pieces))
    vocabulary = read_folder(tmp_path)
    assert vocabulary.id("@user") == 4
    assert keras_bert.AddedToken("@user", False, False, True) in vocabulary.added_tokens


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x08\xff", "not a model"),
        (message([UNKNOWN_PIECE, (TRAINER_FIELD, message([(3, 2)]))]), "expected model_type UNIGRAM"),
        (message([UNKNOWN_PIECE, (NORMALIZER_FIELD, message([(3, 0)]))]), "expected add_dummy_prefix"),
        (message([piece("<unk>", BYTE)]), "expected normal pieces"),
        (
            message([UNKNOWN_PIECE, (NORMALIZER_FIELD, message([(2, b"\0\4\0\0" + b"\xff" * 1024)]))]),
            "is damaged",
        ),
    ],
)
def test_models_that_are_refused(tmp_path, content, expected):
    write_model(tmp_path, content)
    with pytest.raises(ValueError, match=expected):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unigram": {"scores": [0.0]}}, "`scores` of Unigram must be a finite float of 32 bits"),
        ({"unigram": {"scores": [1e39] * 16}}, "`scores` of Unigram"),
        ({"unigram": {"scores": [], "penalty": 1}}, "`unigram` has no key 'penalty'"),
        ({"normalizer": {"type": "Prepend"}}, "`normalizer` has a step that is not supported"),
        ({"pre_tokenizer": METASPACE | {"prepend_scheme": "never"}}, "is not supported"),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed"}}, "is not supported"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAQAAA=="}}, "is damaged: it has no end"),
        (table({0: LEAF}), "it points outside"),  # The root is followed though it is no inner unit.
        (table({1: HAS_STRING | 1}), "it points outside"),  # A string, at the base of a unit.
        # a, aa, aaa, ...
        (table({0: BASE_128, 128 ^ 97: 97 << 10 | HAS_STRING | 97, 128: LEAF}), "its keys are too long"),
    ],
)
def test_settings_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        unigram(SCORES, **options)


def test_characters_that_a_table_leaves():
    """ "a" becomes the string of the table, which is empty."""
    known = unigram(SCORES, **table({0: BASE_128, 128 ^ 97: 1 << 10 | HAS_STRING | 97, 128 ^ 97 ^ 1: LEAF}))
    assert sentencepiece_model.unchanged(known, "ab") == ["b"]
    assert sentencepiece_model.unchanged(unigram(SCORES), "ab") == ["a", "b"]


def test_the_class_decides_on_ids(tmp_path):
    """Without a `tokenizer.json`, those of other classes are not known."""
    ends = [piece("<s>", CONTROL), piece("</s>", CONTROL)]
    path = write_model(tmp_path, message([UNKNOWN_PIECE, *ends, piece("▁", NORMAL)]))
    content = sentencepiece_model.to_tokenizer_json(path, "Camembert")
    texts = [text for text, _ in content["model"]["vocab"]]
    assert texts[:5] == ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"]
    assert texts[5:] == ["<s>", "</s>", "▁", "<mask>"]
    with pytest.raises(ValueError, match="the ids of AlbertTokenizer are not in this file"):
        sentencepiece_model.to_tokenizer_json(path, "Albert")


@pytest.mark.parametrize(
    ("ends", "missing"),
    [([], "<s>, </s>"), (["<s>"], "</s>"), (["</s>"], "<s>")],
)
def test_a_model_without_tokens_at_the_ends(tmp_path, ends, missing):
    """CamemBERT takes them from the pieces, which a model of another tokenizer may lack."""
    control_pieces = [piece(text, CONTROL) for text in ends]
    path = write_model(tmp_path, message([UNKNOWN_PIECE, *control_pieces, piece("▁", NORMAL)]))
    edit(tmp_path / "tokenizer_config.json", tokenizer_class="CamembertTokenizer")
    with pytest.raises(ValueError, match=f"{path.name}: .* missing: {missing}. Expected a model of CamembertTokenizer"):
        read_folder(tmp_path)

"""Which subword algorithm a vocabulary or a file has."""

import json

import pytest

from keras_bert import Vocabulary
from keras_bert.text.byte_level_bpe import ByteLevelBPE
from keras_bert.text.registry import ALGORITHMS, algorithm_of, read_file, read_json
from keras_bert.text.tokenizer_json import to_json
from keras_bert.text.unigram import Unigram
from keras_bert.text.wordpiece import WordPiece
from tests.text.byte_level import MERGES, vocabulary
from tests.text.google_words import SPECIAL
from tests.text.unigrams import SCORES, unigram


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, WordPiece),
        ({"merges": None, "unigram": None}, WordPiece),
        ({"unigram": {"scores": []}}, Unigram),
        ({"merges": []}, ByteLevelBPE),
    ],
)
def test_the_settings_decide(values, expected):
    assert type(algorithm_of(values)) is expected


def test_each_algorithm_has_names_of_its_own():
    for attribute in ("name", "described", "json_type", "option"):
        assert len({getattr(algorithm, attribute) for algorithm in ALGORITHMS}) == len(ALGORITHMS)


@pytest.mark.parametrize(
    "known", [Vocabulary(SPECIAL), unigram(SCORES), vocabulary()], ids=["words", "scores", "bytes"]
)
def test_the_type_of_the_model_decides_on_a_json_file(known):
    values = read_json("tokenizer.json", to_json(known, False))
    assert type(algorithm_of(values)) is type(known.algorithm)
    assert tuple(values["pieces"]) == known.pieces


def test_the_side_of_truncation():
    content = json.loads(to_json(Vocabulary(SPECIAL), False))
    assert "truncation_side" not in read_json("a.json", json.dumps(content))
    content["truncation"] = {"direction": "Left"}
    assert read_json("a.json", json.dumps(content))["truncation_side"] == "left"


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "a.json: not a JSON file: Expecting"), ("[]", "a.json: not a tokenizer.json"), ("3", "a.json: not a token")],
)
def test_other_content(text, message):
    with pytest.raises(ValueError, match=message):
        read_json("a.json", text)


def test_one_file(tmp_path):
    """Of a name that an algorithm writes, or of any other."""
    lines = tmp_path / "words.txt"
    lines.write_text("\n".join(SPECIAL))
    assert read_file(lines) == {"pieces": SPECIAL}
    known = vocabulary()
    ids = {piece: index for index, piece in enumerate(known.pieces)}
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES]))
    values = read_file(tmp_path / "vocab.json")
    assert tuple(values["pieces"]) == known.pieces
    assert type(algorithm_of(values)) is ByteLevelBPE

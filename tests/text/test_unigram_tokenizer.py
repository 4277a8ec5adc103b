"""Unigram tokenizers inside the graph, beside a search over all pieces of a word."""

import itertools
import pickle
import random

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoints import tokenizer_files
from keras_bert.checkpoints.folder import Folder
from keras_bert.metadata import Metadata
from keras_bert.text.tokenizer import build_tokenizer
from tests.text.google_words import listed, surfaces_of
from tests.text.json_steps import steps
from tests.text.unigrams import MASK, NO_TABLE, unigram

PIECES = ["▁", *"abc", "▁a", "ab", "bc", "▁ab", "abc", "ca", "▁cab", "cb", "(", ")", "a▁a"]
# The table leaves all of them.
SPACES = [" ", "  ", "\t\n", "\v", "\x85", "\xa0", "\u1680", "\u2007", "\u2028", "\u3000 "]


@pytest.fixture(scope="module")
def scores():
    chosen = random.Random(1)
    return {piece: -chosen.uniform(1, 9) for piece in PIECES}


@pytest.fixture(scope="module")
def letters(scores):
    return unigram(scores)


def most_probable(word, scores):
    """Returns the pieces of a word, by dynamic programming over its beginnings."""
    unknown = min(scores.values()) - 10
    best = [(0.0, [])]  # The score and the pieces of each beginning.
    for end in range(1, len(word) + 1):
        ways = []
        for start in range(end):
            piece = word[start:end]
            score, before = best[start]
            if piece in scores:
                ways.append((score + scores[piece], [*before, piece]))
            elif len(piece) == 1:
                ways.append((score + unknown, [*before, "<unk>"]))
        best.append(max(ways))
    return best[-1][1]


def pieces_of_text(text, scores):
    """Returns the pieces of all words; unknown characters beside each other are one piece."""
    pieces = []
    for word in text.split():
        pieces += most_probable(f"▁{word}", scores)
    joined = []
    for piece, same in itertools.groupby(pieces):
        if piece == "<unk>":
            joined.append(piece)
        else:
            joined += same
    return joined


def test_the_pieces_are_the_most_probable_ones(letters, scores):
    chosen = random.Random(2)
    words = []
    for _ in range(200):
        word = "".join(chosen.choices("abcx()", k=chosen.randrange(1, 9)))
        words.append(word + chosen.choice(SPACES))
    texts = ["".join(words[start : start + 4]) for start in range(0, 200, 4)]
    expected = [letters.ids(pieces_of_text(text, scores)) for text in texts]
    assert build_tokenizer(letters)(texts).to_list() == expected


def test_offsets_have_no_white_space_before_pieces(letters):
    text = "  (cab) <mask>xé a ℀ béa"
    tokenizer = build_tokenizer(letters)
    ids, starts, ends = listed(tokenizer.with_offsets(text))
    assert "".join(surfaces_of(text, starts, ends)) == "(cab)<mask>xéa℀béa"
    assert pickle.loads(pickle.dumps(tokenizer))(text).numpy().tolist() == ids


def test_punctuation_is_a_word(letters):
    tokenizer = build_tokenizer(letters)
    ids = tokenizer(["  (cab) <mask>xé a ℀ béa"])
    words = []
    for index, begins in zip(ids.values.numpy(), tokenizer.word_starts(ids).numpy(), strict=True):
        piece = letters.pieces[index]
        if begins:
            words.append(piece)
        else:
            words[-1] += piece
    assert words == ["▁(", "cab", ")", "<mask>", "▁<unk>", "▁a", "▁<unk>", "▁b<unk>a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("＜mask＞ cab", ["▁", "<mask>", "▁cab"]),  # No added token, but the pieces of its normalization.
        ("a ＜s＞", ["▁a", "▁", "<s>"]),
        ("cab ca new", ["▁cab", "▁", "ca", "new"]),
        ("aｎｅｗb new", ["▁a", "<unk>", "b", "new"]),
    ],
)
def test_added_tokens_and_normalization(scores, text, expected, tmp_path):
    """transformers keeps added tokens whole in texts, and finds the pieces that they also are after normalization."""
    vocabulary = unigram(scores | {"new": 0.0}, added_tokens=[MASK, "new"], normalizer=steps("NFKC", NO_TABLE))
    assert build_tokenizer(vocabulary)(text).numpy().tolist() == vocabulary.ids(expected)
    tokenizer_files.write(vocabulary, False, 8, tmp_path)  # "new" is no piece there either.
    assert tokenizer_files.read(Folder(tmp_path), Metadata()).vocabulary == vocabulary


def test_pairs_and_words_in_a_preprocessor(letters):
    preprocessor = keras_bert.TextPreprocessor(letters, 12)
    ab, cab = preprocessor.tokenizer(["ab", "cab"]).to_list()
    packed = preprocessor((["ab"], ["cab cab"]))
    start, end, padding = letters.ids(["<s>", "</s>", "<pad>"])
    expected = [start, *ab, end, end, *cab, *cab, end]
    padded = 12 - len(expected)
    assert packed["token_ids"].numpy().tolist() == [expected + [padding] * padded]
    assert packed["padding_mask"].numpy().tolist() == [[1] * len(expected) + [0] * padded]
    assert packed["segment_ids"].numpy().tolist() == [[0] * 12]
    assert preprocessor.decode(packed["token_ids"][0]) == "ab cab cab"
    assert preprocessor.from_words([["ab", "cab"]])[1].to_list() == [[1, 1 + len(ab)]]


def test_files_of_keras(letters, tmp_path):
    preprocessor = keras_bert.TextPreprocessor(letters, 12)
    encoder = keras_bert.build_encoder(keras_bert.BertConfig(len(letters), 8, 1, 2, 8))
    keras_bert.build_text_model(encoder, preprocessor).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").get_layer(preprocessor.name)
    np.testing.assert_array_equal(loaded(["(cab)"])["token_ids"], preprocessor(["(cab)"])["token_ids"])


def test_offsets_of_characters_with_several_pieces(golden):
    folder = Folder(golden / "hf_world" / "unigram_bert")
    tokenizer = build_tokenizer(tokenizer_files.read(folder, Metadata()).vocabulary)
    text = "tŀろ"  # "l·ろ", of which "·ろ" is unknown.
    _, starts, ends = listed(tokenizer.with_offsets(text))
    assert surfaces_of(text, starts, ends) == ["t", "ŀ", "ŀろ"]

"""Unigram vocabularies, SentencePiece's, beside a search over all pieces and the files of transformers."""

import base64
import json
import pickle
import random
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.checkpoints import tokenizer_files
from keras_bert.checkpoints.folder import Folder
from keras_bert.metadata import Metadata
from keras_bert.pretraining.example_builder import ExampleBuilder, Settings
from keras_bert.text.tokenizer import build_tokenizer
from keras_bert.wire_format import message
from tests.checkpoints.conftest import edit

SPECIAL = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>", "[MASK]": "<mask>"}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
STEPS = {
    "normalizer": {"type": "Precompiled", "precompiled_charsmap": ""},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, METASPACE]},
}
PIECES = ["▁", *"abc", "▁a", "ab", "bc", "▁ab", "abc", "ca", "▁cab", "cb", "(", ")", "a▁a"]
# The table leaves all of them.
SPACES = [" ", "  ", "\t\n", "\v", "\x85", "\xa0", "\u1680", "\u2007", "\u2028", "\u3000 "]
MASK = keras_bert.AddedToken("<mask>", False, True, True)


def table(units):
    """Options with a table of characters of one block, which has one string, an empty one."""
    content = np.zeros(256, "<u4")
    content[list(units)] = list(units.values())
    encoded = base64.b64encode(b"\0\4\0\0" + content.tobytes() + b"\0").decode()
    return {"normalizer": {"type": "Precompiled", "precompiled_charsmap": encoded}}


def unigram(pieces, **options):
    pieces = dict.fromkeys(SPECIAL.values(), 0.0) | pieces
    values = {
        "unigram": {"scores": list(pieces.values())},
        "special_tokens": SPECIAL,
        "pair_separators": 2,
        "pair_segments": False,
        "added_tokens": [MASK],
    }
    return keras_bert.Vocabulary(list(pieces), **{**values, **STEPS, **options})


@pytest.fixture(scope="module")
def scores():
    chosen = random.Random(1)
    return {piece: -chosen.uniform(1, 9) for piece in PIECES}


@pytest.fixture(scope="module")
def letters(scores):
    return unigram(scores)


def most_probable(word, scores):
    """Returns the pieces of a word, by dynamic programming over its beginnings."""
    unknown, paths = min(scores.values()) - 10, [(0.0, [])]
    for end in range(1, len(word) + 1):
        last = {word[start:end]: start for start in range(end) if word[start:end] in scores}
        ways = [(paths[start][0] + scores[piece], [*paths[start][1], piece]) for piece, start in last.items()]
        if word[end - 1] not in scores:
            ways.append((paths[end - 1][0] + unknown, [*paths[end - 1][1], "<unk>"]))
        paths.append(max(ways))
    return paths[-1][1]


def test_the_pieces_are_the_most_probable_ones(letters, scores):
    chosen = random.Random(2)
    words = ["".join(chosen.choices("abcx()", k=chosen.randrange(1, 9))) + chosen.choice(SPACES) for _ in range(200)]
    texts, expected = ["".join(words[start : start + 4]) for start in range(0, 200, 4)], []
    for text in texts:
        pieces = [piece for word in text.split() for piece in most_probable(f"▁{word}", scores)]
        joined = [piece for before, piece in zip(["", *pieces], pieces, strict=False) if {before, piece} != {"<unk>"}]
        expected.append(letters.ids(joined))
    assert build_tokenizer(letters)(texts).to_list() == expected


def test_offsets_words_and_added_tokens(letters):
    """A piece never has the white space before it; punctuation is a word."""
    text, tokenizer = "  (cab) <mask>xé a ℀ béa", build_tokenizer(letters)
    ids, starts, ends = (part.numpy().tolist() for part in tokenizer.with_offsets(text))
    pieces = [letters.pieces[index] for index in ids]
    surfaces = [text.encode()[start:end].decode() for start, end in zip(starts, ends, strict=True)]
    assert "".join(surfaces) == "(cab)<mask>xéa℀béa"
    begins = tokenizer.word_starts(tf.ragged.constant([ids])).numpy().tolist()
    words = "".join(" " * begin + piece for piece, begin in zip(pieces, begins, strict=True)).split()
    assert words == ["▁(", "cab", ")", "<mask>", "▁<unk>", "▁a", "▁<unk>", "▁b<unk>a"]
    assert pickle.loads(pickle.dumps(tokenizer))(text).numpy().tolist() == ids


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
    steps = {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, STEPS["normalizer"]]}}
    vocabulary = unigram(scores | {"new": 0.0}, added_tokens=[MASK, "new"], **steps)
    assert build_tokenizer(vocabulary)(text).numpy().tolist() == vocabulary.ids(expected)
    tokenizer_files.write(vocabulary, False, 8, tmp_path)  # "new" is no piece there either.
    assert tokenizer_files.read(Folder(tmp_path), Metadata()).vocabulary == vocabulary


def test_pairs_words_and_files_of_keras(letters, tmp_path):
    preprocessor = keras_bert.TextPreprocessor(letters, 12)
    ab, cab = preprocessor.tokenizer(["ab", "cab"]).to_list()
    packed = {name: ids.numpy()[0].tolist() for name, ids in preprocessor((["ab"], ["cab cab"])).items()}
    expected = letters.ids(["<s>"]) + ab + letters.ids(["</s>"]) * 2 + cab * 2 + letters.ids(["</s>"])
    assert packed["token_ids"] == expected + letters.ids(["<pad>"]) * (12 - len(expected))
    assert packed["padding_mask"] == [1] * len(expected) + [0] * (12 - len(expected))
    assert packed["segment_ids"] == [0] * 12
    assert preprocessor.decode(packed["token_ids"]) == "ab cab cab"
    assert preprocessor.from_words([["ab", "cab"]])[1].to_list() == [[1, 1 + len(ab)]]
    keras_bert.build_text_model(
        keras_bert.build_encoder(keras_bert.BertConfig(len(letters), 8, 1, 2, 8)), preprocessor
    ).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").get_layer(preprocessor.name)
    np.testing.assert_array_equal(loaded(["(cab)"])["token_ids"], preprocessor(["(cab)"])["token_ids"])


def test_the_model_outlives_a_session(letters):
    """`keras.utils.clear_session` removes TensorFlow's resources without a name of their own."""
    preprocessor = keras_bert.TextPreprocessor(letters, 12)
    expected = preprocessor(["(cab)"])["token_ids"]
    keras.utils.clear_session()
    (mapped,) = tf.data.Dataset.from_tensors(["(cab)"]).map(preprocessor)
    for packed in (preprocessor(["(cab)"]), mapped, pickle.loads(pickle.dumps(preprocessor))(["(cab)"])):
        np.testing.assert_array_equal(packed["token_ids"], expected)


def test_files(golden, tmp_path):
    """A `.model` without `tokenizer.json` has the same ids; both are written so that the settings return."""
    folder = golden / "hf_world" / "unigram_bert"
    read = tokenizer_files.read(Folder(folder), Metadata()).vocabulary
    for name in ("sentencepiece.bpe.model", "tokenizer_config.json", "config.json"):
        shutil.copy(folder / name, tmp_path)
    alone = tokenizer_files.read(Folder(tmp_path), Metadata()).vocabulary
    texts = json.loads((folder / "texts.json").read_text())["texts"]
    assert build_tokenizer(alone)(texts).to_list() == build_tokenizer(read)(texts).to_list()
    edit(tmp_path / "tokenizer_config.json", tokenizer_class="CamembertTokenizer")
    other = tokenizer_files.read(Folder(tmp_path), Metadata()).vocabulary
    assert other.pieces[5:7] == ("<s>", "</s>")
    assert other.id("▁the") == alone.id("▁the") + 3
    edit(tmp_path / "tokenizer_config.json", tokenizer_class="XLMRobertaTokenizer")
    tokenizer_files.write(read, False, 128, tmp_path)
    assert tokenizer_files.read(Folder(tmp_path), Metadata()).vocabulary == read
    assert keras_bert.Vocabulary(tmp_path / "tokenizer.json").pieces == read.pieces
    edit(tmp_path / "tokenizer_config.json", cls_token="<cls>")
    with pytest.raises(ValueError, match="`cls_token` must be '<s>'"):
        tokenizer_files.read(Folder(tmp_path), Metadata())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unigram": {"scores": [0.0]}}, "`scores` of Unigram must be a finite float"),
        ({"unigram": {"scores": [1e39] * 18}}, "`scores` of Unigram must be a finite float of 32 bits"),
        ({"unigram": {"scores": [], "penalty": 1}}, "`unigram` has no key 'penalty'"),
        ({"normalizer": {"type": "Prepend"}}, "`normalizer` has a step that is not supported"),
        ({"pre_tokenizer": METASPACE | {"prepend_scheme": "never"}}, "is not supported"),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed"}}, "is not supported"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAQAAA=="}}, "is damaged: it has no end"),
        (table({0: 1 << 31}), "it points outside"),  # The root is followed though it is no inner unit.
        (table({1: 256 | 1}), "it points outside"),  # A string, at the base of a unit.
        # a, aa, aaa, ...
        (table({0: 128 << 10, 128 ^ 97: 97 << 10 | 256 | 97, 128: 1 << 31}), "its keys are too long"),
    ],
)
def test_settings_that_are_refused(scores, options, message):
    with pytest.raises(ValueError, match=message):
        unigram(scores, **options)


def test_offsets_of_characters_with_several_pieces(golden):
    folder = Folder(golden / "hf_world" / "unigram_bert")
    tokenizer = build_tokenizer(tokenizer_files.read(folder, Metadata()).vocabulary)
    text = "tŀろ"  # "l·ろ", of which "·ろ" is unknown.
    _, starts, ends = (part.numpy() for part in tokenizer.with_offsets(text))
    surfaces = [text.encode()[start:end].decode() for start, end in zip(starts, ends, strict=True)]
    assert surfaces == ["t", "ŀ", "ŀろ"]


def test_symbols_of_the_user(tmp_path):
    """They are added tokens in transformers."""
    pieces = [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("@user", 4), ("▁", 1)]
    content = [(1, message([(1, text.encode()), (2, -1.0), (3, kind)])) for text, kind in pieces]
    (tmp_path / "sentencepiece.bpe.model").write_bytes(message(content))
    edit(tmp_path / "tokenizer_config.json", tokenizer_class="XLMRobertaTokenizer")
    vocabulary = tokenizer_files.read(Folder(tmp_path), Metadata()).vocabulary
    assert vocabulary.id("@user") == 4
    assert keras_bert.AddedToken("@user", False, False, True) in vocabulary.added_tokens


def test_pre_training_data_is_refused(letters):
    with pytest.raises(
        ValueError, match="expected a vocabulary of WordPiece. Received: a Unigram model of SentencePiece"
    ):
        ExampleBuilder(letters, Settings(16))


def test_models_that_are_refused(tmp_path):
    """A model is read without a library; SentencePiece never sees a table that points outside of itself."""
    path, piece = tmp_path / "sentencepiece.bpe.model", [(1, b"<unk>"), (2, 0.0), (3, 2)]
    edit(tmp_path / "tokenizer_config.json", tokenizer_class="XLMRobertaTokenizer")
    for content, expected in (
        (b"\x08\xff", "not a model"),
        (message([(1, message(piece)), (2, message([(3, 2)]))]), "expected model_type UNIGRAM"),
        (message([(1, message(piece)), (3, message([(3, 0)]))]), "expected add_dummy_prefix"),
        (message([(1, message([*piece[:2], (3, 6)]))]), "expected normal pieces"),
        (message([(1, message(piece)), (3, message([(2, b"\0\4\0\0" + b"\xff" * 1024)]))]), "is damaged"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=expected):
            tokenizer_files.read(Folder(tmp_path), Metadata())

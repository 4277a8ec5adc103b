"""The reversible tokenizer: any text, its tokens, the same text."""

import itertools
import random
import unicodedata

import pytest

tf = pytest.importorskip("tensorflow")

from keras_bert.corpus.word_counts import count_words  # noqa: E402
from keras_bert.corpus.wordpiece_trainer import learn_vocabulary  # noqa: E402
from keras_bert.text.lossless import LosslessTokenizer, normalize  # noqa: E402

pytestmark = pytest.mark.tensorflow

TEXTS = [
    "Hello there!",
    "a, b , c ,d",
    "«Ça va?» – l'été",
    "don't  stop\tnow\n",
    "3.5 % (ca. 3,50 €)",
    "今天 天气很好。",
    "\u2581 is the mark, \u2800\u28ff are the bytes",
    "👩‍👩‍👧 and e\u0301 and \u00e9",
    "x" * 300,
    "[START] is no token, nor is [PAD]",
    "##a #b ## a",
    "",
    " ",
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join([*TEXTS[:5], "a house, a mouse.", "Ein Haus, eine Maus."] * 3))
    counts, _ = count_words([path], lowercase=False, reversible=True)
    return LosslessTokenizer(learn_vocabulary(counts, 420, reversible=True))


WHITE = {" ", "\t", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85"}


def is_white(character):
    return character in WHITE or unicodedata.category(character).startswith("Z")


def python_normalize(text):
    """Joins the words between white space as in Unicode, and the separators of ASCII, with one space."""
    words = []
    for white, characters in itertools.groupby(text, is_white):
        if not white:
            words.append("".join(characters))
    return " ".join(words)


RANGES = [
    (0x20, 0x7E),
    (0xA0, 0x24F),
    (0x300, 0x36F),
    (0x400, 0x4FF),
    (0x2000, 0x2BFF),
    (0x4E00, 0x4EFF),
    (0x1F300, 0x1F9FF),
]


def random_texts(count):
    """Yields texts of three ranges of characters, half of them ASCII."""
    rng = random.Random(0)
    for _ in range(count):
        some = [rng.choice(RANGES) for _ in range(3)]
        some += [(0x20, 0x7E)] * 3
        text = ""
        for _ in range(rng.randint(0, 40)):
            text += chr(rng.randint(*rng.choice(some)))
        yield text


def restored(tokenizer, texts):
    """Returns the texts of the tokens of texts."""
    return [text.decode() for text in tokenizer.detokenize(tokenizer(texts)).numpy()]


def test_texts_return(tokenizer):
    texts = [*TEXTS, *random_texts(500)]
    assert restored(tokenizer, texts) == [python_normalize(text) for text in texts]
    assert tokenizer.vocabulary.id("[UNK]") not in tokenizer(texts).flat_values.numpy()


def test_a_text_alone_has_the_same_tokens(tokenizer):
    """A batch with rare characters takes another path than one without."""
    together = tokenizer(TEXTS).to_list()
    for text, ids in zip(TEXTS, together, strict=True):
        assert tokenizer([text]).to_list() == [ids]


def test_spaces_before_punctuation(tokenizer):
    pieces = [tokenizer.vocabulary.pieces[index] for index in tokenizer("a, b , c").numpy()]
    assert "".join(pieces).replace("##", "") == "▁a,▁b▁,▁c"


def test_normalization():
    assert normalize(tf.constant(["  a \u3000b\r\n", "\xa0"])).numpy().tolist() == [b"a b", b""]
    assert normalize(tf.constant([b"a\xff"])).numpy().tolist() == ["a\ufffd".encode()]


def test_another_vocabulary_is_refused(pieces):
    with pytest.raises(ValueError, match=r"lacks '\[START\]'. Expected one of `train_vocab --reversible`"):
        LosslessTokenizer(pieces)


def test_a_corpus_with_the_reserved_characters(tmp_path):
    """A mark or a byte of the text is no mark of the vocabulary; with few tokens, rare characters are bytes."""
    texts = ["\u2581xy\u2581z \u2581", "x\u2800y", "a\u2581b c", *map(chr, range(0x4E00, 0x4E40))] * 3
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    counts, _ = count_words([tmp_path / "texts.txt"], lowercase=False, reversible=True)
    vocabulary = learn_vocabulary(counts, 300, reversible=True)
    assert len(vocabulary) == len(set(vocabulary.pieces)) <= 300
    tokenizer = LosslessTokenizer(vocabulary)
    assert restored(tokenizer, texts) == texts


def test_a_mark_within_a_word_is_no_word():
    with pytest.raises(ValueError, match="only at the start, see `count_words`. Received: '\u2581x\u2581y'"):
        learn_vocabulary({"\u2581x\u2581y": 2}, 300, reversible=True)

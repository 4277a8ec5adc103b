"""Sentence splitting, compared with manual splits and with the program that split the books."""

import random
import re

import pytest

from keras_bert.corpus.sentences import split_sentences

pytestmark = pytest.mark.tensorflow

# `|` marks the end of a sentence.
PARAGRAPHS = """
It was late. |The rain fell on St. Peter's church.  |Nobody came!
"Who is there?" he asked. |"It is I." |He opened the door... |And shut it.
Mr. J. R. Smith and Dr. Brown met at 5 p.m. on Jan. 3rd. |They left.
(He lied.) |She knew it. |[It was so.] |Was it?! |Yes.
It was 3.14, or about 3.2. |See www.example.com for e.g. the rest.
See No. 5 and fig. 3. |He said no. |Then he left.
So did I. |We met, cf. Miller et al. 1990, on Oct. 12.
Wait… |What? |«Non.» |“So it is.” |‘Oh.’ |He went… and came back.
No end
今天很好。|明天呢？|「好！」|他说。
彼は言った。|「そうです。」　|Then he left.
¿Qué? |¡Sí! |Él dijo: "no". |Y se fue.
"""


def test_manually_split_paragraphs():
    for paragraph in PARAGRAPHS.strip().splitlines():
        expected = [sentence.strip() for sentence in paragraph.split("|")]
        assert list(split_sentences(paragraph.replace("|", ""))) == expected


def test_only_white_space_is_removed():
    rng = random.Random(0)
    assert list(split_sentences("")) == list(split_sentences(" \t")) == []
    for _ in range(500):
        paragraph = "".join(rng.choices("aB1.!?…。！」\"')(] \t", k=60))
        found = list(split_sentences(paragraph))
        assert "".join("".join(found).split()) == "".join(paragraph.split())
        assert all(sentence and sentence == sentence.strip() for sentence in found)


def test_long_runs_of_punctuation():
    for filler in (".", ". .", '."', "。", "a. "):
        paragraph = filler * 100_000 + "x"
        assert "".join(split_sentences(paragraph)).replace(" ", "") == paragraph.replace(" ", "")


def test_sentences_of_books(data):
    """Nearly all sentence ends found by another program are found, and hardly any others."""
    text = (data / "corpus" / "books" / "books-06.txt").read_text()[:1_000_000]
    found, expected = set(), set()
    for number, chapter in enumerate(text.split("\n\n")):
        lines = [" ".join(line.split()) for line in chapter.splitlines()]
        for ends, sentences in ((expected, lines), (found, split_sentences(" ".join(lines)))):
            place = 0
            for sentence in sentences:
                place += len(re.sub(r"\s", "", sentence))
                ends.add((number, place))
    assert len(found & expected) > 0.99 * len(found)
    assert len(found & expected) > 0.97 * len(expected)

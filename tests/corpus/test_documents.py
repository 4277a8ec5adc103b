"""Documents of byte ranges of a corpus, compared with reading whole files in plain Python."""

import itertools
import json
import math
import random
import re

import pytest

from keras_bert.corpus.documents import cut_corpus, read_documents, split_sentences
from tests.pretraining.numbered import write

pytestmark = pytest.mark.tensorflow
CONTENTS = {
    "usual": "Ein Satz.\nNoch einer.\n\nEin Dokument.\n\nÜber Übung.\nEnde.\n",
    "no end": "one\ntwo\n\nthree",
    "windows": "one\r\ntwo\r\n\r\n\r\nthree\r\nfour\r\n\r\n",
    "blank lines": "\n\n  \none\n\n \t \n\ntwo\nthree\n\f\nfour\n\n\n",
    "blanks inside": "  one \n\ttwo\n \n three  \n",
    "one document": "one\ntwo\nthree",
    "blank": "\n \n\n",
    "empty": "",
}
LATIN = "Ein Satz.\nNoch einer.\n\nÜbung.\n".encode("latin-1")
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


def documents(ranges, form="sentences", field="text"):
    """Returns the non-empty documents of ranges as lists of sentences."""
    found = [[]]
    for part in ranges:
        for sentence in read_documents(*part, form, field):
            if sentence is None:
                found.append([])
            else:
                assert sentence
                found[-1].append(sentence)
        assert not found[-1], "the last document of a range is not terminated"
    return [document for document in found if document]


def by_blank_lines(content):
    """Splits a text into documents by a regular expression."""
    found = []
    for part in re.split(rb"\n[ \t\r\f]*(?=\n)", b"\n\n" + content):
        lines = [line.strip() for line in part.split(b"\n") if line.strip()]
        if lines:
            found.append(lines)
    return found


def parts_of(path, *cuts):
    """Returns the ranges of a file between neighbors of `cuts`, without empty ones."""
    return [(path, start, end) for start, end in itertools.pairwise(cuts) if start < end]


@pytest.mark.parametrize("form", ["sentences", "paragraphs"])
@pytest.mark.parametrize("name", CONTENTS)
def test_all_byte_ranges(tmp_path, name, form):
    content = CONTENTS[name].encode()
    path = write(tmp_path / "a.txt", content)
    expected = by_blank_lines(content)
    size = len(content)
    for cut in range(size + 2):
        for second in (cut, (cut + size) // 2, size):
            assert documents(parts_of(path, 0, cut, second, size), form) == expected
    assert documents([(write(tmp_path / "a.gz", content), 0, math.inf)], form) == expected


def test_ranges_have_similar_sizes_and_cover_the_corpus(tmp_path):
    paths = [write(tmp_path / f"{size}.txt", b"x" * size) for size in (70, 0, 20, 10)]
    assert cut_corpus(paths, 4) == [
        [(paths[0], 0, 25)],
        [(paths[0], 25, 50)],
        [(paths[0], 50, 70), (paths[2], 0, 5)],
        [(paths[2], 5, 20), (paths[3], 0, 10)],
    ]
    # A compressed file belongs to the range in which it starts.
    (tmp_path / "a.gz").write_bytes(b"x" * 50)
    paths = [paths[2], tmp_path / "a.gz", paths[3]]
    assert cut_corpus(paths, 2) == [[(paths[0], 0, 20), (paths[1], 0, math.inf)], [(paths[2], 0, 10)]]
    assert cut_corpus(paths[:1], 30).count([]) == 10


def test_paragraphs_are_split_into_sentences(tmp_path):
    path = write(tmp_path / "a.txt", "Dr. No left. He came back.\nWhy? Él.\n\nOne.")
    assert documents([(path, 0, 99)], "paragraphs") == [
        [b"Dr. No left.", b"He came back.", b"Why?", "Él.".encode()],
        [b"One."],
    ]


JSON_TEXTS = ["One. Two.\nThree.\r\n\r\nFour", "", "Ünï\ud800 ü\u2028文", "end"]
JSON_DOCUMENTS = [[b"One.", b"Two.", b"Three.", b"Four"], ["Ünï? ü".encode(), "文".encode()], [b"end"]]


@pytest.mark.parametrize(("is_ascii", "end"), [(True, "\n"), (False, "\r\n")])
def test_json_lines(tmp_path, is_ascii, end):
    lines = [json.dumps({"text": text, "title": "x"}, ensure_ascii=is_ascii) for text in JSON_TEXTS]
    content = f"{end}  {end}".join([*lines, ""]).encode("utf-8", "surrogatepass")
    path = write(tmp_path / "a.jsonl", content)
    for cut in range(1, len(content)):
        assert documents(parts_of(path, 0, cut, len(content)), "jsonl") == JSON_DOCUMENTS


def test_another_field_of_json_lines(tmp_path):
    path = write(tmp_path / "b.jsonl.gz", '\ufeff{"body": "One. Two."}')
    assert documents([(path, 0, math.inf)], "jsonl", "body") == [[b"One.", b"Two."]]


@pytest.mark.parametrize("form", ["sentences", "paragraphs"])
@pytest.mark.parametrize("joint", [b" ", b""])
def test_very_long_lines_are_split(tmp_path, form, joint):
    """Between words, if possible."""
    line = joint.join(b"word%d" % number for number in range(60_000))
    path = write(tmp_path / "a.txt", line + b"\nend")
    ((*parts, end),) = documents(parts_of(path, 0, 300_000, len(line) + 4), form)
    assert joint.join(parts) == line
    assert end == b"end"
    assert max(map(len, parts)) <= 2**16


@pytest.mark.parametrize("suffix", ["txt", "gz"])
@pytest.mark.parametrize(("start", "form"), [(0, "sentences"), (12, "paragraphs")])
def test_invalid_utf8_is_reported_with_file_and_line(tmp_path, suffix, start, form):
    path = write(tmp_path / f"a.{suffix}", LATIN)
    message = rf"a.{suffix}:4: not UTF-8: b'\\xdcbung.'. Convert the file, for example by `iconv -f latin1 -t utf-8`"
    with pytest.raises(ValueError, match=message):
        documents([(path, start, 99)], form)


@pytest.mark.parametrize("suffix", ["txt", "gz"])
def test_invalid_utf8_at_the_end_of_a_long_line(tmp_path, suffix):
    path = write(tmp_path / f"a.{suffix}", b"one\n" + b"two " * 100_000 + b"\xff\nthree")  # In several parts.
    with pytest.raises(ValueError, match=f"a.{suffix}:2: not UTF-8"):
        documents([(path, 0, 10)])


@pytest.mark.parametrize("form", ["sentences", "jsonl"])
@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt", "Ein Satz.\n".encode("utf-16")), ("a.gz", b"\x89PNG\0\0"), ("a.txt", b"one\n" * 10_000 + b"\0")],
)
def test_binary_files_are_rejected(tmp_path, form, name, content):
    message = f"{name}: a binary or UTF-16 file. Expected UTF-8 text, optionally compressed as .gz"
    with pytest.raises(ValueError, match=message):
        documents([(write(tmp_path / name, content), 0, 99)], form)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{'text': 1}", "Expecting property name"),
        ('["text"]', "expected an object with a string in its field 'text'. Received: list"),
        ('{"text": null, "a": 1}', r"Received: \['a', 'text'\]"),
        ('{"text": "é"}', "'utf-8' codec can't decode byte 0xe9"),
    ],
)
def test_invalid_json_lines(tmp_path, line, message):
    for suffix in ("jsonl", "jsonl.gz"):
        path = write(tmp_path / f"a.{suffix}", b'{"text": "one."}\n\n' + line.encode("latin-1") + b"\n")
        with pytest.raises(ValueError, match=f"a.{suffix}:3: .*{message}"):
            documents([(path, 18, 99)], "jsonl")


def test_manually_split_paragraphs():
    for paragraph in PARAGRAPHS.strip().splitlines():
        expected = [sentence.strip() for sentence in paragraph.split("|")]
        assert list(split_sentences(paragraph.replace("|", ""))) == expected


def test_only_white_space_is_removed():
    rng = random.Random(0)
    assert list(split_sentences("")) == []
    assert list(split_sentences(" \t")) == []
    for _ in range(500):
        paragraph = "".join(rng.choices("aB1.!?…。！」\"')(] \t", k=60))
        found = list(split_sentences(paragraph))
        assert "".join("".join(found).split()) == "".join(paragraph.split())
        for sentence in found:
            assert sentence
            assert sentence == sentence.strip()


def test_long_runs_of_punctuation():
    for filler in (".", ". .", '."', "。", "a. "):
        paragraph = filler * 100_000 + "x"
        assert "".join(split_sentences(paragraph)).replace(" ", "") == paragraph.replace(" ", "")


def ends_of(sentences):
    """Returns where sentences end, in characters that are no white space."""
    ends = []
    place = 0
    for sentence in sentences:
        place += len("".join(sentence.split()))
        ends.append(place)
    return ends


def test_sentences_of_books(data):
    """Nearly all sentence ends found by another program are found, and hardly any others."""
    text = (data / "corpus" / "books" / "books-06.txt").read_text()[:1_000_000]
    found = set()
    expected = set()
    for number, chapter in enumerate(text.split("\n\n")):
        lines = [" ".join(line.split()) for line in chapter.splitlines()]
        expected.update((number, end) for end in ends_of(lines))
        found.update((number, end) for end in ends_of(split_sentences(" ".join(lines))))
    assert len(found & expected) > 0.99 * len(found)
    assert len(found & expected) > 0.97 * len(expected)

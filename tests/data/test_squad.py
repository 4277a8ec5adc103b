"""SQuAD's real files, and small manual ones: many kinds of text, and all errors."""

import csv
import json
import re

import numpy as np
import pytest

from keras_bert.data import squad
from keras_bert.data.sources import PythonRows


def qa(name="q", question="Who?", **rest):
    return {"id": name, "question": question, **rest}


def at(start, text):
    return {"answer_start": start, "text": text}


def content(context, *entries, **rest):
    """Returns the content of a file with one paragraph."""
    return {"data": [{"title": "T", "paragraphs": [{"context": context, "qas": list(entries)}]}], **rest}


def read(tmp_path, value, **options):
    """Reads bytes, or a value that is written as JSON."""
    path = tmp_path / "a.json"
    if isinstance(value, bytes):
        path.write_bytes(value)
    else:
        path.write_text(json.dumps(value, ensure_ascii=True))
    return squad.read(path, **options)


def cut(questions):
    """The texts that the spans select from the bytes of the contexts, a list for each question."""
    texts = []
    for context, spans in zip(questions.context, questions.spans, strict=True):
        content = questions.contexts[context].encode()
        texts.append([content[first:last].decode() for first, last in spans])
    return texts


def test_a_real_file(data):
    path = data / "squad" / "dev-v2.0-cs224n-half.json"
    questions = squad.read(path)
    assert questions.version_2
    assert questions.wrong == []

    paragraphs = []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        paragraphs += article["paragraphs"]
    assert questions.contexts == [paragraph["context"] for paragraph in paragraphs]
    entries = []
    numbers = []
    for number, paragraph in enumerate(paragraphs):
        entries += paragraph["qas"]
        numbers += [number] * len(paragraph["qas"])
    assert questions.ids == [entry["id"] for entry in entries]
    assert questions.questions == [entry["question"] for entry in entries]
    assert questions.context.tolist() == numbers

    without_answer = 0
    for entry, golds, texts in zip(entries, questions.golds, cut(questions), strict=True):
        assert golds == [answer["text"] for answer in entry["answers"]]
        assert texts == [text.strip() for text in golds]
        if not golds:
            without_answer += 1
    assert without_answer == 3168


@pytest.mark.parametrize(
    ("context", "start", "answer", "span"),
    [
        ("Zoe\u0308 paid.", 5, "paid", (6, 10)),  # The accent is a combining character.
        ("a 👩\u200d🚀 b", 2, "👩\u200d🚀", (2, 13)),
        ("\x7f\x80\u07ff\u0800\uffff\U00010000x", 6, "x", (15, 16)),
        ("a\x00b", 2, "b", (2, 3)),
        ("Es war 1871 in Köln.", 14, " Köln", (15, 20)),
        ("a  b  c", 1, "  b  ", (3, 4)),
        ("漢\u3000字\u00a0。", 1, "\u3000字\u00a0", (6, 9)),
    ],
)
@pytest.mark.parametrize("version", ["1.1", "v2.0"])  # XQuAD says 1.1.
def test_spans_are_byte_offsets(tmp_path, context, start, answer, span, version):
    questions = read(tmp_path, content(context, qa(answers=[at(start, answer)]), version=version))
    assert questions.spans == [[span]]
    assert questions.wrong == []
    assert questions.golds == [[answer]]
    assert cut(questions) == [[answer.strip()]]


def test_lone_surrogates_become_question_marks(tmp_path):
    entry = qa(question="\udc00?", answers=[at(3, "b\udfff"), at(0, "é\ud83d")])
    questions = read(tmp_path, content("é\ud83d b\udfff 😀", entry))
    assert questions.contexts == ["é? b? 😀"]
    assert questions.questions == ["??"]
    assert questions.golds == [["b?", "é?"]]
    assert questions.spans == [[(4, 6), (0, 3)]]


def test_order_of_articles_paragraphs_and_answers(tmp_path):
    answers = [at(0, "one"), at(8, "one"), at(8, "one two")]
    first = {"context": "one and one two", "qas": [qa("a0", answers=answers), qa("a1", answers=answers[1:2])]}
    empty = {"context": "b", "qas": []}
    last = {"context": "c", "qas": [qa("c0")]}
    questions = read(tmp_path, {"data": [{"paragraphs": [first, empty]}, {"title": "", "paragraphs": [last]}]})
    assert not questions.version_2
    assert questions.contexts == ["one and one two", "b", "c"]
    assert questions.ids == ["a0", "a1", "c0"]
    np.testing.assert_array_equal(questions.context, [0, 0, 2])
    assert questions.golds == [["one", "one", "one two"], ["one"], []]
    assert questions.spans == [[(0, 3), (8, 11), (8, 15)], [(8, 11)], []]


def test_answers_at_wrong_positions(tmp_path):
    answers = {
        "moved": [at(3, "Köln")],
        "other": [at(0, "IN"), at(0, "in")],
        "behind": [at(6, "ln 😀 x")],
        "far": [at(99, "x")],
        "negative": [at(-2, "😀")],
        "empty": [at(0, ""), at(2, " ")],
        "utf16": [at(11, "x")],  # JavaScript counts emoji as two.
        "right": [at(10, "x")],
    }
    entries = [qa(name, answers=those) for name, those in answers.items()]
    questions = read(tmp_path, content("in  Köln 😀x", *entries))
    for golds, those in zip(questions.golds, answers.values(), strict=True):
        assert golds == [answer["text"] for answer in those]
    assert questions.spans == [[], [(0, 2)], [], [], [], [], [], [(14, 15)]]
    assert questions.wrong == [
        ("moved", "Köln", 3),
        ("other", "IN", 0),
        ("behind", "ln 😀 x", 6),
        ("far", "x", 99),
        ("negative", "😀", -2),
        ("empty", "", 0),
        ("empty", " ", 2),
        ("utf16", "x", 11),
    ]


def test_questions_without_answers(tmp_path):
    entries = [
        qa("q1", answers=[], is_impossible=True, plausible_answers=[at(0, "a")]),
        qa("q2", answers=[at(0, "a")], is_impossible=True),
        qa("q3", answers=[at(0, "a")], is_impossible=False),
    ]
    questions = read(tmp_path, content("a b", *entries, version="v2.0"))
    # The official script of version 2.0 only uses the answers; Google's program trains by the mark.
    assert questions.golds == [[], ["a"], ["a"]]
    assert questions.spans == [[], [(0, 1)], [(0, 1)]]
    assert questions.contradicted == {"q2"}
    assert questions.first(1).contradicted == frozenset()
    # Version 1.1 has no such mark.
    assert read(tmp_path, content("a b", *entries[1:]), version_2=False).contradicted == frozenset()


ANSWERED = content("a b", qa(answers=[at(0, "a")]))


@pytest.mark.parametrize(
    ("version", "is_2"),
    [(None, False), ("v2.0", True), ("2.0", True), (2.0, True), ("1.1", False), (1.2, False)],
)
def test_version(tmp_path, version, is_2):
    """The caller decides; also on version 2.0, if all questions have answers."""
    value = ANSWERED
    if version is not None:
        value = ANSWERED | {"version": version}
    assert read(tmp_path, value).version_2 == is_2
    assert read(tmp_path, value, version_2=True).version_2
    assert not read(tmp_path, value, version_2=False).version_2


def test_questions_without_answers_are_of_version_2(tmp_path):
    value = content("a", qa(1, answers=[at(0, "a")]), qa(2, answers=[]), qa(3, answers=[]), version="v2.0")
    assert read(tmp_path, b"\xef\xbb\xbf" + json.dumps(value).encode()).ids == ["1", "2", "3"]
    message = r"a.json: 2 question\(s\) have no answer, the first is 2: this is SQuAD 2.0. Expected `version_2=True`"
    with pytest.raises(ValueError, match=message):
        read(tmp_path, value, version_2=False)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "JSON that cannot be read: Expecting value: line 1 column 1 (char 0)"),
        (b'{"a": "\xff', "not UTF-8, byte 0xff at position 7. Save the file as UTF-8"),
        ({"version": "1.1"}, "expected SQuAD's format, an object with a list `data`"),
        (content("a"), "the file contains no questions"),
        ({"data": [{"title": "T", "paragraphs": []}]}, "article 0 (T) has no paragraphs"),
        (content(7), "article 0 (T), paragraph 0: `context` must be a string. Received: 7"),
        (content(" \n\u3000"), "article 0 (T), paragraph 0: the context is empty. Expected a string"),
        (content("a", qa(), {"question": "Who?"}), "article 0 (T), paragraph 0: question 1 has no `id`"),
        (content("a", "Who?"), "article 0 (T), paragraph 0: question 0 has no `id`"),
        (content("a", qa("5"), qa(5)), "two questions have the id 5. Expected unique ids"),
        (content("a", qa("q7", ["Who?"])), "q7: `question` must be a string. Received: ['Who?']"),
        (content("a", qa(answers={"text": "x" * 99})), f"q: `answers` must be a list. Received: {{'text': '{'x' * 70}"),
        (content("a", qa(answers=["a"])), "q: `text` must be a string. Received: None"),
        (content("a", qa(answers=[at("0", "a")])), "q: `answer_start` must be an integer. Received: '0'"),
    ],
)
def test_errors(tmp_path, value, message):
    with pytest.raises(ValueError, match=rf"^{re.escape(str(tmp_path))}/a.json(:1)?: {re.escape(message)}"):
        read(tmp_path, value)


CONTEXT = 'é was d, then "d".'
FLAT = {"question": "Who?", "context": CONTEXT}
# Columns of a row and the spans of its answers, in bytes.
ROWS = [
    ({"answers": "d", "answer_start": 15}, ["d"], [(16, 17)]),
    ({"answers": "d", "answer_start": None}, ["d"], [(7, 8)]),
    ({"answer": "d", "answer_start": 15}, ["d"], [(16, 17)]),
    ({"answer_text": "é", "answer_start": 0}, ["é"], [(0, 2)]),
    ({"answers": "d"}, ["d"], [(7, 8)]),
    ({"answers": "", "answer_start": None, "is_impossible": True}, [], []),
    ({"answers": "d", "answer_start": 15, "is_impossible": False}, ["d"], [(16, 17)]),
]
LISTS = [
    ({"answers": ["d", "é"], "answer_start": [15, 0]}, ["d", "é"], [(16, 17), (0, 2)]),
    ({"answers": ["d"], "answer_start": 15.0}, ["d"], [(16, 17)]),
    ({"answers": {"text": ["d"], "answer_start": None}, "answer_start": 3}, ["d"], [(7, 8)]),
    ({"answers": {"text": "d", "answer_start": 15}}, ["d"], [(16, 17)]),
    ({"answers": {"text": [], "answer_start": []}}, [], []),
]


def write_table(path, row, dialect):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, row, dialect=dialect)
        writer.writeheader()
        writer.writerow(row)
    return path


@pytest.mark.parametrize(("columns", "golds", "spans"), ROWS + LISTS)
def test_rows_of_all_forms(tmp_path, columns, golds, spans):
    """The same from JSON, rows in Python, and tables if they have no lists; the csv module writes these."""
    row = FLAT | columns
    lines = tmp_path / "a.jsonl"
    lines.write_text(json.dumps(row))
    given = [PythonRows("texts", [row]), lines]
    if (columns, golds, spans) in ROWS:
        given.append(write_table(tmp_path / "a.csv", row, "excel"))
        given.append(write_table(tmp_path / "a.tsv", row, "excel-tab"))
    for source in given:
        found = squad.read(source)
        assert found.golds == [golds]
        assert found.spans == [spans]
        assert found.wrong == []
        assert found.version_2 == (not golds or "is_impossible" in columns)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            [{"answers": ["d", "é"], "answer_start": [1]}],
            {},
            "1: expected one `answer_start` for each answer. Received: 2",
        ),
        ([{"answers": {"text": ["d"], "answer_start": [1, 2]}}], {}, "1: .* Received: 1 answer.* and 2 `answer_start`"),
        ([{"answers": {"text": ["d"], "answer_start": []}}], {}, "1: .* Received: 1 answer.* and 0 `answer_start`"),
        (
            [{"answers": "d", "id": None}] * 2,
            {},
            "1: `id` is missing. Expected one of its own in each row, or no column",
        ),
        ([{"answers": "d", "id": 5}] * 2, {}, "2: the id 5 is also that of .*:1. Expected unique ids"),
        ([{"answers": "d", "answer_start": "x"}], {}, "1: `answer_start` must be an integer. Received: 'x'"),
        ([{"answers": "d", "is_impossible": "no"}], {}, "1: `is_impossible` must be true or false. Received: 'no'"),
        (
            [{"answers": "d"}, {"answers": None}],
            {"version_2": False},
            r"2: 1 question\(s\) have no answer, the first is 2: this is SQuAD 2.0. Expected `version_2=True`",
        ),
    ],
)
def test_errors_of_rows(tmp_path, rows, options, message):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps(FLAT | row) for row in rows]
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}:{message}") as error:
        squad.read(path, **options)
    assert "\n" not in str(error.value)


def test_missing_columns_of_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("question,text\na,b\n")
    with pytest.raises(ValueError, match="a.csv:1: no column `context`. It has: 'question', 'text'"):
        squad.read(path)

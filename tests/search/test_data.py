"""Passages, queries and relevance judgments: formats, and what is wrong with files."""

import csv
import gzip
import io
import json
import re
import tracemalloc

import pyarrow
import pyarrow.parquet
import pytest

from keras_bert.search.data import (
    Passage,
    Query,
    passage_reader,
    read_passages,
    read_queries,
    read_relevance,
    read_squad,
)
from tests.tasks.files import write


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("p.jsonl", '{"id": 7, "text": "a", "title": "T"}\n\n', [Passage("7", "a", "T")]),
        ("p.jsonl", '{"id": "x", "text": "", "title": null}', [Passage("x", "")]),
        ("p.jsonl", '{"_id": "d1", "title": "", "text": "\\ud800"}', [Passage("d1", "?")]),
        ("p.csv", '\ufefftext,title\n\n"a, b",T\n \n,\n', [Passage("0", "a, b", "T"), Passage("1", "")]),
        ("p.tsv", "id\ttext\n5\ta\n", [Passage("5", "a")]),
        (
            "p.txt",
            "\ufeffone\r\n\r\nthree\u2028more\r\n\n \n",
            [Passage("0", "one"), Passage("1", ""), Passage("2", "three\u2028more")],
        ),
        ("p.txt", "one\rtwo\r", [Passage("0", "one"), Passage("1", "two")]),
        ("p", "one", [Passage("0", "one")]),
    ],
)
def test_passages(tmp_path, name, content, expected):
    assert list(read_passages(write(tmp_path / name, content))) == expected


def table(rows, delimiter):
    """Returns rows as a table, written by `csv`."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


def parquet(rows):
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file.getvalue()


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


# Ways to write rows, by the ends of the names of files.
FORMS = {
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".json": lambda rows: json.dumps(rows).encode(),
    ".csv": lambda rows: table(rows, ","),
    ".tsv": lambda rows: table(rows, "\t"),
    ".parquet": parquet,
    ".jsonl.gz": lambda rows: gzip.compress(json_lines(rows)),
    ".ndjson.gz": lambda rows: gzip.compress(json_lines(rows)),
    ".json.gz": lambda rows: gzip.compress(json.dumps({"data": rows}).encode()),
    ".csv.gz": lambda rows: gzip.compress(table(rows, ",")),
    ".tsv.gz": lambda rows: gzip.compress(table(rows, "\t")),
    ".corpus": json_lines,  # Content alone tells.
    ".downloaded": parquet,
}


@pytest.mark.parametrize("end", FORMS)
def test_all_forms_of_rows_are_the_same(tmp_path, end):
    """Ids, titles and texts of passages, queries, and judgments."""
    rows = [
        {"id": "a 1", "title": "T", "text": 'A "quoted" text, with commas'},
        {"id": "7", "title": "", "text": "Zwölf Boxkämpfer"},
        {"id": "x", "title": "U", "text": "[1] {"},
    ]
    path = write(tmp_path / f"passages{end}", FORMS[end](rows))
    passages = list(read_passages(path))
    assert passages == [Passage(**row) for row in rows]
    assert list(passage_reader(str(path))()) == passages
    assert read_queries(path) == [Query(passage.id, passage.text) for passage in passages]


@pytest.mark.parametrize("end", FORMS)
def test_rows_without_ids_are_numbered(tmp_path, end):
    path = write(tmp_path / f"unnamed{end}", FORMS[end]([{"body": "a, b"}, {"body": "Zwölf"}]))
    assert list(read_passages(path, "body", first_id=5)) == [Passage("5", "a, b"), Passage("6", "Zwölf")]


@pytest.mark.parametrize("end", FORMS)
def test_all_forms_of_judgments_are_the_same(tmp_path, end):
    judged = [{"query-id": "q", "corpus-id": "a 1", "score": 2}, {"query-id": "q", "corpus-id": "7", "score": 0}]
    path = write(tmp_path / f"judged{end}", FORMS[end](judged))
    assert read_relevance(path) == {"q": {"a 1": 2.0, "7": 0.0}}


@pytest.mark.parametrize("end", ["", ".txt", ".text", ".txt.gz"])
def test_lines(tmp_path, end):
    """Those of text stay as they are, also if they look like JSON."""
    lines = ["[1] a", "text", '{"text": "b"}', "", "last"]
    if end == "":
        lines[2] = "{b}"  # A file of no name whose lines are JSON has rows.
    content = "\n".join(lines).encode()
    if end.endswith("gz"):
        content = gzip.compress(content)
    path = write(tmp_path / f"lines{end}", content)
    assert [passage.text for passage in read_passages(path)] == lines


@pytest.mark.parametrize(
    ("name", "start"),
    [("p.jsonl", '{"text": "a"}\n'), ("p.ndjson", '{"text": "a"}\n'), ("p.txt", "a\n"), ("p.csv", "text\na\n")],
)
@pytest.mark.parametrize("is_compressed", [False, True])
def test_files_are_streamed(tmp_path, name, start, is_compressed):
    """The memory does not grow with the file."""
    row = start.splitlines()[-1].replace("a", "a" * 4000) + "\n"
    peaks = []
    for count in (500, 2000):
        content = (start + row * count).encode()
        if is_compressed:
            content = gzip.compress(content, 1)
        path = write(tmp_path / name, content)
        tracemalloc.start()
        assert sum(1 for _ in read_passages(path)) == count + 1
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 3_000_000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.jsonl", "", "p.jsonl: there is no passage"),
        ("p.txt", "\n\n", "p.txt: there is no passage"),
        ("p.jsonl", '{"text": "a"}\n{"body": "b"}\n', "p.jsonl:2: no column `text`. It has: 'body'"),
        ("p.csv", "body\na\n", "p.csv:1: no column `text`. It has: 'body'. Name another one with `text_column`"),
        ("p.jsonl", '{"text": 5}', "p.jsonl:1: column `text` must be a string. Received: 5"),
        ("p.jsonl", '{"text": "a", "title": 5}', "p.jsonl:1: column `title` must be a string. Received: 5"),
        ("p.jsonl", '{"text": "a", "id": true}', "column `id` must be a string or an integer. Received: True"),
        ("p.jsonl", '{"text": "a", "id": "\\ud800"}', "column `id` has a lone surrogate. Expected UTF-8. Received: "),
        ("p.jsonl", '{"text": "a"}\n[]\n', "p.jsonl:2: expected one JSON object per line"),
        ("p.jsonl", '{"text": "a"', "p.jsonl:1: not JSON"),
    ],
)
def test_bad_passages(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        list(read_passages(write(tmp_path / name, content)))


def test_queries(tmp_path):
    assert read_queries(write(tmp_path / "q.txt", "who?\nwhen?\n")) == [Query("0", "who?"), Query("1", "when?")]
    assert read_queries(write(tmp_path / "q.tsv", "id\tquestion\n9\twho?\n"), "question") == [Query("9", "who?")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.txt", "", "there is no query"),
        ("q.txt", "a\n\nb\n", "q.txt:2: the query is empty"),
        (
            "q.jsonl",
            '{"id": 1, "text": "a"}\n{"id": "1", "text": "b"}\n',
            "q.jsonl:2: another query has the id '1'. Expected unique ids",
        ),
    ],
)
def test_bad_queries(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        read_queries(write(tmp_path / name, content))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.jsonl", '{"query_id": "q", "passage_id": 1, "grade": 2}\n{"query_id": "q", "passage_id": 2, "grade": 0}'),
        ("r.tsv", "query-id\tcorpus-id\tscore\nq\t1\t2\nq\t2\t0\n"),
        ("r.csv", "\ngrade;passage_id;query_id\n2;1;q\n\n0;2;q\n"),
        ("qrels.txt", "\nq 0 1 2\n \nq 0 2 0\n"),
        ("qrels.tsv", "q\t0\t1\t2\nq\t0\t2\t0\n"),
    ],
)
def test_relevance(tmp_path, name, content):
    assert read_relevance(write(tmp_path / name, content)) == {"q": {"1": 2.0, "2": 0.0}}


def test_relevance_without_grades(tmp_path):
    path = write(tmp_path / "r.tsv", "query_id\tpassage_id\na\t1\na\t2\nb\t1\n")
    assert read_relevance(path) == {"a": {"1": 1.0, "2": 1.0}, "b": {"1": 1.0}}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.jsonl", "", "there is no relevance judgment"),
        ("r.txt", "", "there is no relevance judgment"),
        ("r.txt", "q 1\n", "r.txt:1: expected query id, an unused column, passage id and grade. Received: 'q 1'"),
        ("r.txt", "q 0 1 high\n", "r.txt:1: column `grade` must be a finite number. Received: 'high'"),
        ("r.tsv", "query_id\tdocument\nq\t1\n", "r.tsv:1: no column `passage_id`"),
        ("r.tsv", "query_id\tpassage_id\nq\t1\nq\t1\n", "r.tsv:3: query 'q' and passage '1' appear twice"),
    ],
)
def test_bad_relevance(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_relevance(write(tmp_path / name, content))


@pytest.mark.parametrize("name", ["p.txt", "p.jsonl"])
def test_missing_files(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name}: no such file"):
        list(read_passages(tmp_path / name))


def test_a_missing_file_of_judgments(tmp_path):
    with pytest.raises(ValueError, match="r.tsv: no such file"):
        read_relevance(tmp_path / "r.tsv")


def article(context, questions):
    """An article with one paragraph, of SQuAD's format; `questions` are by id."""
    entries = [{"id": name, "question": question, "answers": []} for name, question in questions.items()]
    return {"title": "A", "paragraphs": [{"context": context, "qas": entries}]}


def test_squad_paragraphs(tmp_path):
    """Two articles have the same paragraph: it is one passage."""
    articles = [
        article("same", {"1": "who?", "2": "when?"}),
        article("other", {"3": "where?"}),
        article("same", {"4": "why?"}),
    ]
    content = json.dumps({"version": "2.0", "data": articles})
    found = read_squad(write(tmp_path / "squad.json", content))
    assert found.passages == [Passage("0", "same"), Passage("1", "other")]
    assert found.queries[2] == Query("3", "where?")
    assert found.relevance == {"1": {"0": 1}, "2": {"0": 1}, "3": {"1": 1}, "4": {"0": 1}}

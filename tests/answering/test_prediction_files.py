"""Texts to predict as rows, and answers as lines and files."""

import csv
import json

import numpy as np
import pytest

from keras_bert.answering import prediction_files
from keras_bert.data.formats import source
from keras_bert.metadata import Metadata


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def read_csv(path, delimiter=","):
    """Returns the rows of a table as dicts."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def test_parts_of_a_row_that_stand_apart():
    names = [("text",), ("text", "pair")]
    row = prediction_files.from_parts("the arguments", ["a b", "c d"], names)
    assert row["pair"] == "c d"


def test_rows_of_a_table(tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text("id\ttext\n1\ta b c\n2\tf g\n")
    rows = prediction_files.read_texts(path, [("text",)])
    assert [row["text"] for row in rows] == ["a b c", "f g"]


@pytest.mark.parametrize(
    ("lines", "allowed", "expected"),
    [
        (["text", "a"], [("text",)], [{"text": "a"}]),
        (["text\tpair", "a\tb"], [("text", "pair")], [{"text": "a", "pair": "b"}]),
        (["text"], [("text",)], [{"text": "text"}]),
        (["text", "", "a"], [("text",)], [{"text": ""}, {"text": "a"}]),
    ],
)
def test_a_line_with_the_names_of_columns_is_no_text(lines, allowed, expected):
    assert list(prediction_files.from_lines("stdin", lines, allowed)) == expected


@pytest.mark.parametrize(
    ("column", "known"),
    [("tokens", None), ("words", {"text": "none"}), ("Satz", {"text": "Satz"})],
)
def test_words_of_a_tagger(tmp_path, column, known):
    """Lists of words, in the columns of data sets or in that of training."""
    path = tmp_path / "a.jsonl"
    words = {"id": 1, column: ["a", "b c"], "ner_tags": [0, 1]}
    text = {"id": 2, column: "a b", "ner_tags": [0, 1]}
    write_rows(path, [words, text])
    found = prediction_files.stream_texts(path, [("text",)], known=known, words=True)
    assert list(found) == [(words, {"text": ["a", "b c"]}), (text, {"text": "a b"})]


@pytest.mark.parametrize(("words", "expected"), [(True, "a string or a list of strings"), (False, "a string")])
def test_a_value_that_is_no_text(tmp_path, words, expected):
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a", 1]}\n')
    message = rf"a.jsonl:1: column `tokens` must be {expected}. Received: \['a', 1\]"
    with pytest.raises(ValueError, match=message):
        prediction_files.read_texts(path, [("text",)], text_column="tokens", words=words)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "question,B,A,answer\na,c,b,?\n"),
        ("arc.csv", "a,b,c,,B\n"),
        ("a.jsonl", '{"question": "a", "choices": ["b", "c", null]}\n'),
    ],
)
def test_files_of_choices(tmp_path, name, text):
    """Tables and JSONL are read as in training, without their labels."""
    (tmp_path / name).write_text(text)
    (row,) = prediction_files.read_texts(tmp_path / name, [("text", "choices")])
    assert row["text"] == "a"
    assert row["choices"][:2] == ["b", "c"]
    assert not any(row["choices"][2:])


def test_too_few_choices(tmp_path):
    names = [("text", "choices")]
    (tmp_path / "one.jsonl").write_text('{"text": "a", "choices": ["b"]}\n')
    with pytest.raises(ValueError, match=r"one.jsonl:1: expected at least 2 choices, got 1"):
        prediction_files.read_texts(tmp_path / "one.jsonl", names)
    message = r"expected text and at least 2 choices. Received: 2 text\(s\)"
    with pytest.raises(ValueError, match=message):
        prediction_files.from_parts("the arguments", ["a", "b"], names)


KNOWN = {"text": "stem", "choices": ["this", "that"]}


@pytest.mark.parametrize(
    ("options", "text", "choices"),
    [
        ({"known": KNOWN}, "a", ["b", "c"]),
        ({"known": {"text": "stem"}}, "a", ["e", "f"]),
        ({"known": {"choices": ["this", "that"]}}, "d", ["b", "c"]),
        ({"known": {"text": "other", "choices": ["this", "that"]}}, "d", ["e", "f"]),
        ({"known": KNOWN, "choice_columns": ["A", "B"]}, "d", ["e", "f"]),
    ],
)
def test_columns_of_choices_that_the_model_was_trained_on(tmp_path, options, text, choices):
    """Flags win; a file without the columns is read by the usual names."""
    path = tmp_path / "new.csv"
    path.write_text("id;stem;this;that;question;A;B\n1;a;b;c;d;e;f\n")
    (row,) = prediction_files.read_texts(path, [("text", "choices")], **options)
    assert (row["text"], row["choices"]) == (text, choices)


def test_stored_columns_are_names_or_lists_of_names():
    assert Metadata.from_json({"columns": KNOWN}).columns == KNOWN
    with pytest.raises(ValueError, match="`columns` in `keras_bert`"):
        Metadata.from_json({"columns": {"choices": [1]}})


NOT_FINITE = [(float("nan"), None), (-float("inf"), None), (0.5, 0.5)]


def test_numbers_that_are_not_finite_in_json_are_null(tmp_path):
    path = tmp_path / "answers.jsonl"
    parts = []
    expected = []
    for value, stored in NOT_FINITE:
        parts.append((None, {"text": "a"}, {"value": value, "scores": [value, 1.0]}))
        expected.append({"text": "a", "value": stored, "scores": [stored, 1.0]})
    prediction_files.write(path, parts)
    assert read_rows(path) == expected


def test_numbers_that_are_not_finite_in_tables_are_empty(tmp_path):
    path = tmp_path / "answers.csv"
    parts = []
    for value, _ in NOT_FINITE:
        parts.append((None, {"text": "a"}, {"value": value, "scores": [value, 1.0]}))
    prediction_files.write(path, parts, ",")
    header, *lines = path.read_text().splitlines()
    assert header == "text,value,scores"
    assert lines == ['a,,"[null, 1.0]"', 'a,,"[null, 1.0]"', 'a,0.5,"[0.5, 1.0]"']


def test_nested_answers_in_a_table(tmp_path):
    answer = {"entities": [{"text": "ü", "score": 0.12345678}], "count": 1}
    prediction_files.write(tmp_path / "a.csv", [(None, {"text": "a,b"}, answer)], ",")
    header, line = (tmp_path / "a.csv").read_text().splitlines()
    assert header == "text,entities,count"
    assert line == '"a,b","[{""text"": ""ü"", ""score"": 0.123457}]",1'


# Labels, and what a table has in their place.
FORMULAS = {
    "=1+1": "'=1+1",
    "-a": "'-a",
    "@b": "'@b",
    "\tc": "'\tc",
    "\rd": "'\rd",
    "'e": "''e",
    "plain": "plain",
    " +f": "' +f",
    "-1.5": "-1.5",
}


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_answers_are_no_formulas_in_spreadsheets(tmp_path, delimiter):
    """An apostrophe precedes them; the user's own columns, numbers and JSON stay as they are."""
    parts = []
    expected = []
    for label, shown in FORMULAS.items():
        answer = {"label": label, "score": -0.5, "scores": dict.fromkeys(FORMULAS, 0.25)}
        parts.append(({"=id": "=1+1"}, {"text": "=1+1"}, answer))
        expected.append(["=1+1", shown, "-0.5", "0.25"])
    prediction_files.write(tmp_path / "a.csv", parts, delimiter)
    with open(tmp_path / "a.csv", newline="") as file:
        header, *rows = csv.reader(file, delimiter=delimiter)
    assert header == ["=id", "label", "score", *(f"score_{label}" for label in FORMULAS)]
    assert [row[:4] for row in rows] == expected
    # JSON has no formulas.
    prediction_files.write(tmp_path / "c.jsonl", parts[:1])
    assert read_rows(tmp_path / "c.jsonl")[0]["label"] == "=1+1"


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_names_of_answers_are_no_formulas_either(tmp_path, delimiter):
    part = (None, {"text": "-a"}, {"answer": "-a", "=x": ["=y"]})
    prediction_files.write(tmp_path / "b.csv", [part], delimiter)
    lines = (tmp_path / "b.csv").read_text().replace("\t", ",").splitlines()
    assert lines == ["text,answer,'=x", '-a,\'-a,"[""=y""]"']


# Numbers with all digits, the answers of an earlier model, and line ends within cells.
RECORD = {
    "text": "a\r\nb",
    "time": 1690000123.456,
    "label": "gold",
    "predicted_label": "mine",
}
ANSWERED = RECORD | {"predicted_predicted_label": "pos", "score": 0.333333}


def test_columns_of_the_user_are_kept_in_json(tmp_path):
    part = (RECORD, {"text": "a"}, {"label": "pos", "score": 1 / 3})
    prediction_files.write(tmp_path / "a.jsonl", [part])
    assert read_rows(tmp_path / "a.jsonl") == [ANSWERED]


def test_columns_of_the_user_are_kept_in_tables(tmp_path):
    part = (RECORD, {"text": "a"}, {"label": "pos", "score": 1 / 3})
    prediction_files.write(tmp_path / "a.csv", [part], ",")
    expected = {name: str(value) for name, value in ANSWERED.items()}
    assert read_csv(tmp_path / "a.csv") == [expected]


def test_columns_with_the_same_name_are_all_kept(tmp_path):
    (tmp_path / "b.csv").write_bytes(b"text,x,x,,\r\na,1,2,3,4\r\n")
    expected = {"text": "a", "x": "1", "x.1": "2", "": "3", ".1": "4"}
    assert source(tmp_path / "b.csv").rows(["text"]) == [(2, expected)]


def test_a_table_of_rows_with_different_keys(tmp_path):
    """The columns of the first part are those of all its rows; later ones cannot get others."""
    path = tmp_path / "a.csv"
    answer = {"label": "yes"}
    first = ({"text": "a"}, {"text": "a"}, answer)
    second = ({"text": "b", "n": 1}, {"text": "b"}, answer)
    third = ({"n": 2, "text": "c"}, {"text": "c"}, answer)
    other = ({"text": "d", "m": 3}, {"text": "d"}, answer)
    with prediction_files.AnswersFile(path, ",") as file:
        file.write([first, second])
        file.write([third])
        with pytest.raises(ValueError, match="^row 4 has `m`.* ends in .jsonl$"):
            file.write([other])
    assert read_csv(path) == [
        {"text": "a", "label": "yes", "n": ""},
        {"text": "b", "label": "yes", "n": "1"},
        {"text": "c", "label": "yes", "n": "2"},
    ]


ADA = {"text": "Ada\tB", "label": "PER", "start": 0, "end": 5, "score": 0.5}
FILLS = [{"token": "a", "score": 0.75}, {"token": "b", "score": 0.25}]


@pytest.mark.parametrize(
    ("row", "answer", "lines"),
    [
        ({"text": "Ada\tB!"}, {"entities": [ADA]}, ['0.5000\tPER\t"Ada\tB"']),
        ({"text": ""}, {"entities": []}, ["no entities"]),
        ({"text": "[MASK]"}, {"fills": [FILLS]}, ["a 0.7500\tb 0.2500"]),
        ({"text": "a"}, {"fills": []}, ["no [MASK]; write [MASK] in the text"]),
        (
            {"text": "a [MASK]"},
            {"fills": []},
            ["the [MASK] is beyond the longest text that the model takes"],
        ),
        (
            {"text": "a", "choices": ["b", "c"]},
            {"choice": 1, "scores": [0.25, 0.75]},
            ["0.7500\tc", "0.2500\tb"],
        ),
        (
            {"text": "ü\ud800"},
            {"embedding": np.array([0.5, 1.0], "float32")},
            ['{"text": "ü?", "embedding": [0.5, 1.0]}'],
        ),
    ],
)
def test_lines_to_read(row, answer, lines):
    """One form for each kind of answer."""
    assert prediction_files.readable(row, answer) == lines


def test_tables_to_read():
    assert prediction_files.table([{"probability": 0.5}]) == ["probability", "0.5"]
    one_label = {"labels": ["a"], "scores": {"a": 0.75, "b": 0.25}}
    no_label = {"labels": [], "scores": {"a": 0.0, "b": 0.0}}
    lines = prediction_files.table([one_label, no_label])
    assert lines == ["labels\ta\tb", "a\t0.7500\t0.2500", '""\t0.0000\t0.0000']


def test_a_table_on_a_terminal_shows_the_texts():
    answer = {"label": "bad", "score": 0.75, "scores": {"good": 0.25, "bad": 0.75}}
    table = prediction_files.table([answer, answer])
    assert prediction_files.with_texts(table, [{"text": "a\tb"}, {"text": "c" * 50}]) == [
        "label  good    bad     text",
        "bad    0.2500  0.7500  a b",
        f"bad    0.2500  0.7500  {'c' * 37}...",
    ]


def test_a_text_without_a_label_on_a_terminal():
    table = prediction_files.table([{"labels": [], "scores": {"a": 0.25}}])
    assert prediction_files.with_texts(table, [{"text": "a\tb"}]) == [
        "labels  a       text",
        "(none)  0.2500  a b",
    ]


def test_numbers_of_a_line_of_json_are_rounded():
    line = prediction_files.json_line({"text": "a"}, {"score": 1 / 3, "start": 1})
    assert line == '{"text": "a", "score": 0.333333, "start": 1}'

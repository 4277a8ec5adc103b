"""A user's tables, right and wrong ones."""

import pytest

from keras_bert.tasks.table import balance, discover_labels, read_table

CONTENTS = {
    "a.csv": 'text,other,label\n"a, ""b""\nc",x,yes\nd,y z,no\n',
    "a.tsv": 'text\tother\tlabel\n"a"" b"\tx\tyes\nd\ty z\tno\n',
    "b.tsv": 'text\tother\tlabel\n"a b\tx\tyes\nd "e"\ty z\tno\n',
    "a.jsonl": '{"text": "a\\tb", "other": "x", "label": "yes"}\n{"label": "no", "text": "d", "other": "y z"}\n',
}


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("a.csv", ['a, "b"\nc', "d"]),
        ("a.tsv", ['a" b', "d"]),
        ("b.tsv", ['"a b', 'd "e"']),  # A lone quote: none is a sign of quoting.
        ("a.jsonl", ["a\tb", "d"]),
    ],
)
@pytest.mark.parametrize("change", [lambda text: text, lambda text: "\ufeff" + text.replace("\n", "\r\n")])
def test_formats(tmp_path, name, texts, change):
    path = write(tmp_path, name, change(CONTENTS[name]))
    examples = read_table(path, "text", "other", "label", labels=["no", "yes"])
    assert (examples.text, examples.pair, examples.labels) == (texts, ["x", "y z"], [1, 0])
    assert examples.ids == [0, 1]
    assert len(examples) == 2


def test_columns_are_optional(tmp_path):
    examples = read_table(write(tmp_path, "a.csv", "text\nx\n"), "text")
    assert (examples.text, examples.pair, examples.labels) == (["x"], None, None)


def test_only_line_feeds_end_a_line(tmp_path):
    text = "a\u2028b\x85c\x0cd"
    assert read_table(write(tmp_path, "a.tsv", f"text\n{text}\n"), "text").text == [text]


def test_labels_are_discovered_and_numbered(tmp_path):
    path = write(tmp_path, "a.csv", "t,l\na,10\nb,9\nc,10\n")
    raw = read_table(path, "t", label_column="l").labels
    assert raw == ["10", "9", "10"]
    assert discover_labels(raw) == ["9", "10"]
    assert read_table(path, "t", label_column="l", labels=discover_labels(raw)).labels == [1, 0, 1]
    assert discover_labels(["b", "a", "10"]) == ["10", "a", "b"]


def test_numbers_of_json_are_labels(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"t": "a", "l": 1}\n{"t": "b", "l": 0}\n')
    assert read_table(path, "t", label_column="l", labels=[0, 1]).labels == [1, 0]


def test_regression(tmp_path):
    path = write(tmp_path, "a.csv", "t,l\na,1.5\nb,-2\n")
    assert read_table(path, "t", label_column="l", regression=True).labels == [1.5, -2.0]


def test_balance():
    assert balance([0, 1, 1, 1]) == "1: 3 (75.0%), 0: 1 (25.0%)"
    assert balance([0, 0], names=["no", "yes"]) == "no: 2 (100.0%), yes: 0 (0.0%)"
    assert balance(["b", "a"]) == "a: 1 (50.0%), b: 1 (50.0%)"
    assert balance([1.0, 2.0, 4.5]) == "3 numbers from 1 to 4.5, mean 2.5"
    assert balance([]) == "no labels"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "text,l\nx,no\n", r"a\.csv:1: no column `t`. It has: 'text', 'l'"),
        ("a.jsonl", '{"t": "a", "l": "no"}\n{"l": "no"}\n', r"a\.jsonl:2: no column `t`. It has: 'l'"),
        ("a.csv", "t,t,l\nx,y,no\n", r"a\.csv:1: the column `t` stands twice"),
        ("a.csv", 't,l\n"x\ny",no\nz,maybe\n', r"a\.csv:4: unknown label 'maybe'. Expected one of: 'no', 'yes'"),
        ("a.csv", "t,l\nx,\n", r"a\.csv:2: column `l` is empty"),
        ("a.csv", "t,l\n  ,no\n", r"a\.csv:2: column `t` is empty"),
        ("a.csv", "t,l\nx,no\nx,no,no\n", r"a\.csv:3: expected 2 columns, got 3"),
        ("a.csv", 't,l\n"x,no\ny,no\n', r"a\.csv:2: unexpected end of data. Expected CSV with quotes doubled"),
        ("a.tsv", "t\tl\nx\n", r"a\.tsv:2: expected 2 columns, got 1"),
        ("a.csv", "", r"a\.csv: the file is empty"),
        ("a.csv", "t,l\n", r"a\.csv: no rows"),
        ("a.jsonl", "", r"a\.jsonl: no rows"),
        ("a.jsonl", '{"t": "a", "l": "no"}\n{"t": \n', r"a\.jsonl:2: not JSON: Expecting value at column 7"),
        ("a.jsonl", "[1]\n", r"a\.jsonl:1: expected one JSON object a line. Received: \[1\]"),
        ("a.jsonl", '{"t": 3, "l": "no"}\n', r"a\.jsonl:1: column `t` must be a string. Received: 3"),
        ("a.jsonl", '{"t": "a", "l": null}\n', r"a\.jsonl:1: column `l` must be a string or a number. Received: None"),
        ("a.csv", b"t,l\nx\xe9,no\n", r"a\.csv:2: not UTF-8, byte 0xe9 at position 1"),
        ("a.xlsx", "", r"a\.xlsx: the name must end in \.csv, \.tsv, \.jsonl"),
    ],
)
def test_errors(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path, name, content), "t", label_column="l", labels=["no", "yes"])


@pytest.mark.parametrize("value", ["high", "nan", ""])
def test_a_target_that_is_no_number(tmp_path, value):
    path = write(tmp_path, "a.csv", f"t,l\nx,1\ny,{value}\n")
    with pytest.raises(ValueError, match=rf"a\.csv:3: column `l` must be a finite number. Received: '{value}'"):
        read_table(path, "t", label_column="l", regression=True)


def test_other_errors(tmp_path):
    with pytest.raises(ValueError, match=r"none\.csv: no such file"):
        read_table(tmp_path / "none.csv", "t")
    with pytest.raises(ValueError, match="`labels` must be None for regression"):
        read_table(tmp_path / "none.csv", "t", labels=["a"], regression=True)
    with pytest.raises(ValueError, match=r"`labels` must have two classes at least. Received: \['a'\]"):
        discover_labels(["a", "a"])

"""Users' own tables of texts with labels: valid and invalid ones, in every format."""

import csv
import gzip
import json
import logging

import numpy as np
import pytest

from keras_bert.answering.prediction_files import read_texts
from keras_bert.data import in_memory
from keras_bert.data.formats import source, stream_rows
from keras_bert.data.sources import PythonRows
from keras_bert.tasks.class_names import discover_labels
from keras_bert.tasks.classification.data import Columns, TableReader, own_data, read_table
from keras_bert.tasks.classification.examples import TextExamples
from tests.tasks.files import write

FORMATS = [
    ("a.csv", 'text,other,label\n"a, ""b""\nc",x,yes\nd,y z,no\n', ['a, "b"\nc', "d"]),
    ("a.tsv", 'text\tother\tlabel\n"a"" b"\tx\tyes\nd\ty z\tno\n', ['a" b', "d"]),
    # Quotes of a part of a field are literal, whatever other fields have.
    ("a.tsv", 'text\tother\tlabel\n"a" b\t"x"\tyes\n"d"\ty z\t"no"\n', ['"a" b', "d"]),
    (
        "a.jsonl",
        '{"text": "a\\tb", "other": "x", "label": "yes"}\n{"label": "no", "text": "d", "other": "y z"}\n',
        ["a\tb", "d"],
    ),
]


@pytest.mark.parametrize(("name", "content", "texts"), FORMATS)
@pytest.mark.parametrize("change", [lambda text: text, lambda text: "\ufeff" + text.replace("\n", "\r\n")])
def test_formats(tmp_path, name, content, texts, change):
    path = write(tmp_path / name, change(content))
    if name == "a.csv" and "\r\n" in change(content):  # Within quotes, line ends stay as they are.
        texts = [text.replace("\n", "\r\n") for text in texts]
    examples = read_table(path, "text", "other", "label", labels=["no", "yes"])
    assert examples == TextExamples(texts, ["x", "y z"], [1, 0], [0, 1])
    assert len(examples) == 2


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ([1, 0, 1.0], ["0", "1"]),  # 1 and 1.0 are the same number in JSON.
        ([True, False, True], ["false", "true"]),
        ([4.5, 2, 4.5], ["2", "4.5"]),
        ([" b", "a", "b "], ["a", "b"]),  # Surrounding spaces are ignored.
        ([10, 9, 10], ["9", "10"]),
        (["a", "10", "a"], ["10", "a"]),
    ],
)
def test_labels_agree_in_all_formats(tmp_path, found, names):
    rows = [json.dumps({"t": "x", "l": value}) for value in found]
    path = write(tmp_path / "a.jsonl", "\n".join(rows) + "\n")
    raw = read_table(path, "t", label_column="l").labels
    assert raw[0] == raw[2]
    assert discover_labels(raw) == names
    lines = [f"x\t{label}\n" for label in raw]
    tsv = write(tmp_path / "a.tsv", "t\tl\n" + "".join(lines))
    for labels in (names, np.array(names), [found[1], found[0]]):
        numbers = read_table(path, "t", label_column="l", labels=labels).labels
        assert numbers == read_table(tsv, "t", label_column="l", labels=labels).labels
        assert numbers[0] == numbers[2] != numbers[1]


@pytest.mark.parametrize(("delimiter", "end"), [(",", "\n"), (";", "\r\n"), ("\t", "\r")])
def test_csv_of_spreadsheets(tmp_path, delimiter, end):
    rows = [["text", "label"], ['a, "b"; c\td', "yes"], ["e", "no"]]
    with open(tmp_path / "a.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator=end).writerows(rows)
        file.write(end * 2)  # Blank lines at the end.
    examples = read_table(tmp_path / "a.csv", "text", label_column="label")
    assert examples.text == ['a, "b"; c\td', "e"]
    assert examples.labels == ["yes", "no"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_separator_is_found_where_columns_are_optional(tmp_path, delimiter):
    path = write(tmp_path / "a.csv", f"text{delimiter}label\na{delimiter}1\n")
    data = own_data("regression", path, path, path)
    assert data.test["regression"].labels == [1.0]


# Blank lines are no rows, as in `csv` and pandas. In one column, lines of spaces are texts; in TSV, empty lines too.
BLANK_LINES = [
    ("a.csv", '\n  \ntext,label\n\na,x\n \t\n\u2003\n"b\n\nc",y\n\n', ["a", "b\n\nc"]),
    ("a.csv", "\r\n\r\ntext;label\r\na;x\r\n\r\nb;y\r\n", ["a", "b"]),
    ("a.tsv", "\n \ntext\tlabel\n\na\tx\n   \nb\ty\n\n", ["a", "b"]),
    ("a.jsonl", '\n \n{"text": "a"}\n\n\t\n{"text": "b"}\n\n', ["a", "b"]),
    ("a.csv", "\ntext\n\na\n  \n\nb\n\n", ["a", "  ", "b"]),
    ("a.tsv", "\ntext\na\n\n  \nb\n\n", ["a", "", "  ", "b"]),
]


@pytest.mark.parametrize(("name", "content", "texts"), BLANK_LINES)
def test_blank_lines(tmp_path, name, content, texts):
    path = write(tmp_path / name, content)
    assert [row["text"] for row in read_texts(path, [("text",)])] == texts
    assert [record["text"] for _, record in stream_rows(path, ["text"])] == texts


def test_unusual_texts(tmp_path):
    limit = csv.field_size_limit()
    long = "word " * 40_000
    path = write(tmp_path / "a.csv", f'text,label\n"{long}",yes\n')
    assert read_table(path, "text").text == [long]
    assert csv.field_size_limit() == limit
    text = "a\u2028b\x85c\x0cd"  # Only line feeds end a line.
    examples = read_table(write(tmp_path / "a.tsv", f"text\n{text}\n  \r\n\n"), "text")
    assert examples == TextExamples([text], None, None, [0])
    path = write(tmp_path / "a.jsonl", '{"text": "a \\ud83d b", "label": "\\udc00"}\n  \r\n\n')  # Lone surrogates.
    examples = read_table(path, "text", label_column="label")
    assert examples.text == ["a ? b"]
    assert examples.labels == ["?"]


BAD = {
    "a.csv": "t,l\na,1\nb\n ,2\nc,\nd,3\n",
    "a.tsv": "t\tl\na\t1\nb\n \t2\nc\t\nd\t3\n",
    "a.jsonl": '{"t": "a", "l": 1}\n{"t": "b"}\n{"t": " ", "l": 2}\n{"t": "c", "l": null}\n{"t": "d", "l": 3}\n',
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("regression", [False, True])
def test_bad_rows_are_skipped_and_logged(tmp_path, caplog, name, regression):
    path = write(tmp_path / name, BAD[name])
    options = {"label_column": "l", "regression": regression}
    with caplog.at_level(logging.WARNING):
        examples = read_table(path, "t", **options, skip_bad_rows=3)
    assert examples.text == ["a", "d"]
    assert examples.ids == [0, 4]
    assert examples.labels == ([1.0, 3.0] if regression else ["1", "3"])
    line = 2 if name == "a.jsonl" else 3
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"{path}: skipped 3 unreadable row(s). The first: {path}:{line}: ")
    with pytest.raises(ValueError, match=rf":{line}: .*\. 3 of 5 .* Fix the file, or .* `skip_bad_rows=3`$"):
        read_table(path, "t", **options, skip_bad_rows=2)


@pytest.mark.parametrize(("name", "line"), [("a.csv", 2), ("a.tsv", 2), ("a.jsonl", 1)])
def test_a_file_of_bad_rows_alone_is_refused(tmp_path, name, line):
    content = BAD[name].replace("a", " ").replace("d", " ")
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=rf"^[^:]*:{line}: column `t` is empty$"):
        read_table(path, "t", label_column="l", skip_bad_rows=9)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "text,l\nx,no\n", r"no column `t`. It has: 'text', 'l'. Name another one with `text_column`$"),
        ("a.csv", "T,l\nx,no\n", r"no column `t`. It has: 'T', 'l'. Did you mean `text_column=T`\?$"),
        (
            "a.csv",
            "x,y\nx,no\n",
            r"no columns `t` and `l`. It has: 'x', 'y'. Name another one with `text_column` and `la",
        ),
        (
            "a.csv",
            "T,y\nx,no\n",
            r"`l`. It has: 'T', 'y'. Did you mean `text_column=T`\? Name another one with `label_c",
        ),
        ("a.csv", "t,l\n ,\n", r"^[^ ]*a\.csv:2: column `t` is empty; column `l` is empty$"),
        ("a.jsonl", '{"t": "a", "l": "no"}\n{"l": "no"}\n', r"a\.jsonl:2: no column `t`. It has: 'l'$"),
        ("a.csv", "t,t,l\nx,y,no\n", r"a\.csv:1: the column `t` appears twice"),
        ("a.csv", 't,l\n"x\ny",no\nz,maybe\n', r"a\.csv:4: unknown label 'maybe'. Expected one of: 'no', 'yes'"),
        ("a.csv", "t,l\n  ,no\n", r"a\.csv:2: column `t` is empty"),
        ("a.csv", 't,l\n"x,no\ny,no\n', r"a\.csv:2: unexpected end of data. Expected CSV with doubled quotes"),
        ("a.csv", "\n\nt,l\n\nx,no\n \nz,maybe\n", r"a\.csv:7: unknown label 'maybe'"),
        ("a.csv", "\n \n", r"a\.csv: the file is empty"),
        ("a.tsv", "\nt\tl\n  \nx\n", r"a\.tsv:4: expected 2 columns, got 1"),
        ("a.tsv", "t\tl\n\t\nx\tno\n", r"a\.tsv:2: column `t` is empty"),
        ("a.jsonl", '\n{"t": "a", "l": "no"}\n \n[]\n', r"a\.jsonl:4: expected one JSON object per line"),
        ("a.csv", "t,l\nx,No\n", r"a\.csv:2: unknown label 'No', which looks like 'no'. Use one spelling per class"),
        ("a.jsonl", '{"t": "x", "l": "yes\\u200b"}', r"a\.jsonl:1: unknown label 'yes\\u200b', which looks like 'yes'"),
        ("a.csv", "t,l\n", r"a\.csv: no rows"),
        ("a.jsonl", '{"t": "a", "l": "no"}\n{"t": \n', r"a\.jsonl:2: not JSON: Expecting value at column 7"),
        ("a.jsonl", '{"t": 3, "l": "no"}\n', r"a\.jsonl:1: column `t` must be a string. Received: 3"),
        ("a.jsonl", '{"t": "a", "l": null}\n', r"a\.jsonl:1: column `l` must be a string or a number. Received: None"),
        ("a.csv", b"t,l\nx\xe9,no\n", r"a\.csv:2: not UTF-8, byte 0xe9 at position 1"),
        ("a.csv", "t,l\nx,no\n".encode("utf-16"), r"a\.csv: the file is UTF-16. Save it as UTF-8"),
        ("a.csv", "t,l\nx,no\n".encode("utf-32"), r"a\.csv: the file is UTF-32. Save it as UTF-8"),
        ("a.csv", gzip.compress(b"t,l\nx,no\n", mtime=0)[:-9], r"a\.csv: gzip that cannot be read"),
        ("a.csv", b"PK\x03\x04t,l", r"a\.csv: the file is compressed. Decompress it"),
        ("a.csv", "t,l\nx,no\n".encode("utf-16-le"), r"a\.csv: the file is UTF-16"),
        ("a.csv", "t,l\nx\ry,no\n", r"a\.csv:2: a carriage return within a line. Save the file with consistent"),
        ("a.jsonl", '{"t": "a", "l": "no", "t": "b"}\n', r"a\.jsonl:1: the column `t` appears twice"),
        ("a.jsonl", '{"t": "a", "l": NaN}\n', r"a\.jsonl:1: column `l` must be a finite number. Received: nan"),
        ("a.jsonl", '{"t": "a", "l": ' + "1" * 5000 + "}", r"a\.jsonl:1: JSON that cannot be read: Exceeds the limit"),
        ("a.jsonl", '{"t": ' + "[" * 100_000, r"a\.jsonl:1: JSON that cannot be read: maximum recursion"),
        ("a.xlsx", "", r"a\.xlsx: the name must end in \.csv, \.tsv, \.jsonl"),
    ],
)
def test_errors(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path / name, content), "t", label_column="l", labels=["no", "yes"])


def test_regression_labels(tmp_path):
    def read(value):
        path = write(tmp_path / "a.jsonl", f'{{"t": "x", "l": 1.5}}\n{{"t": "y", "l": {value}}}\n')
        return read_table(path, "t", label_column="l", regression=True).labels

    assert read(-2) == read('"-2"') == [1.5, -2.0]
    for value in ('"high"', '"nan"', '""', '"1_000"', "1" + "0" * 400):
        with pytest.raises(ValueError, match=r"a\.jsonl:2: column `l` must be a finite number"):
            read(value)
    with pytest.raises(ValueError, match=r"`l` must be between -1e\+15 and 1e\+15"):
        read(1e20)


def test_a_file_that_is_not_there():
    with pytest.raises(ValueError, match=r"none\.csv: no such file"):
        read_table("none.csv", "t")


@pytest.mark.parametrize("options", [{"labels": ["a"], "regression": True}, {"labels": [1, 1.0]}])
def test_wrong_labels_are_refused_before_the_file_is_read(options):
    with pytest.raises(ValueError, match="`labels`"):
        read_table("none.csv", "t", **options)


def table_of(path, rows):
    """Writes pairs of a text and a label."""
    lines = [f"{text},{label}\n" for text, label in rows]
    return write(path, "text,label\n" + "".join(lines))


IDS = [(f"a {n}", f"id {n}") for n in range(12)]


def test_labels_that_all_differ_are_refused(tmp_path):
    ids = table_of(tmp_path / "ids.csv", IDS)
    other = table_of(tmp_path / "other.csv", [("a", "id 99")])
    message = "ids.csv: column `label` has another label in each of 12 rows. Expected classes"
    with pytest.raises(ValueError, match=message):
        own_data("classification", ids, other)
    with pytest.raises(ValueError, match=message):
        own_data("classification", ids)
    same = PythonRows("texts", [{"text": "a", "label": number} for number in range(12)])
    with pytest.raises(ValueError, match="^texts: `label` has another label"):
        own_data("classification", same, same)


def test_numbers_that_all_differ_are_those_of_regression(tmp_path):
    numbers = table_of(tmp_path / "numbers.csv", [("a", f"{n / 7:.3f}") for n in range(12)])
    other = table_of(tmp_path / "other.csv", [("a", "id 99")])
    with pytest.raises(ValueError, match="`task=regression`"):
        own_data("classification", numbers, other)


def test_labels_that_all_differ_are_classes_if_rows_are_few_or_dev_has_them(tmp_path):
    few = table_of(tmp_path / "few.csv", IDS[:9])
    assert len(own_data("classification", few).task.labels) == 9
    ids = table_of(tmp_path / "ids.csv", IDS)
    dev = table_of(tmp_path / "dev.csv", [("b", "id 3")])
    assert len(own_data("classification", ids, dev).task.labels) == 12
    rare = table_of(tmp_path / "rare.csv", [*IDS, IDS[0]])
    assert len(own_data("classification", rare, rare).task.labels) == 12


def test_own_classification_data(tmp_path):
    train = write(tmp_path / "train.csv", "text,label\na,10\nb,9\nc,9\n")
    dev = write(tmp_path / "dev.jsonl", '{"text": "d", "label": 10}\n')
    test = write(tmp_path / "test.tsv", "id\ttext\nx\te\n")
    data = own_data("classification", train, dev, test)
    assert data.task.labels == ("9", "10")
    assert data.task.num_classes == 2
    assert data.task.main_metric == "accuracy"
    assert data.train.labels == [1, 0, 0]
    assert data.dev["classification"].labels == [1]
    assert data.test["classification"].labels is None
    assert data.balance() == "9: 2 (66.7%), 10: 1 (33.3%)"
    assert data.first(2).dev == data.dev


def test_without_a_file_dev_is_what_is_trained_on(tmp_path):
    train = write(tmp_path / "train.csv", "text,label\na,10\nb,9\nc,9\n")
    data = own_data("classification", train).first(2)
    assert data.train.text == ["a", "b"]
    assert data.dev["classification"] == data.train


@pytest.mark.parametrize(("content", "labels"), [("text,label\na,-1\nb,-1\n", None), ("text,label\na,no\n", [0])])
def test_labels_of_data_to_predict(tmp_path, content, labels):
    """Those of other programs are -1 where they are unknown."""
    reader = TableReader("classification", text="text", pair=None, labels=["label"])
    origin = source(write(tmp_path / "test.csv", content))
    assert reader.read_to_predict(origin, ["no", "yes"]).labels == labels


def test_own_regression_data(tmp_path):
    table = write(tmp_path / "all.csv", "a,b,score\nx,y,1.5\nz,w,2\n")
    data = own_data("regression", table, table, table, columns=Columns(text="a", pair="b", label="score"))
    assert data.task.num_classes == 1
    assert data.task.main_metric == "spearman"
    assert data.train.pair == ["y", "w"]
    assert data.test["regression"].labels == [1.5, 2.0]
    assert data.balance() == "2 numbers from 1.5 to 2, mean 1.75"


OWN = {
    "train.csv": "text,label\na,no\nb,yes\n",
    "other.csv": "text,label\na,maybe\n",
    "alone.csv": "text,label\na,no\nb,no\n",
    "rated.csv": "text,label\na,3.7\nb,4.1\n",
    "number.csv": "text,label\na,4.2\n",
}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["alone.csv", "train.csv"], "alone.csv: column `label` must have at least two classes"),
        (["rated.csv", "number.csv"], "`task=regression`"),
        (["train.csv", "other.csv"], "other.csv:2: unknown label 'maybe'"),
        (["train.csv", "train.csv", "other.csv"], "other.csv:2: unknown label 'maybe'"),
    ],
)
def test_invalid_own_data(tmp_path, names, message):
    files = [write(tmp_path / name, OWN[name]) for name in names]
    with pytest.raises(ValueError, match=message):
        own_data("classification", *files)


def test_kinds_of_own_data():
    with pytest.raises(ValueError, match="`kind` must be one of .*, multi_label, regression"):
        own_data("tagging", "a.csv", "b.csv")


def test_test_rows_are_never_skipped(tmp_path):
    good = write(tmp_path / "a.csv", "text,label\na,1\n")
    bad = write(tmp_path / "b.csv", "text,label\na,1\nb\n")
    assert len(own_data("regression", bad, bad, good, skip_bad_rows=1).train) == 1
    with pytest.raises(ValueError, match=r"b\.csv:3"):
        own_data("regression", good, good, bad, skip_bad_rows=1)


TABLES = {
    "columns.csv": "text,b,a\nx,1,0\ny,True,1.0\nz,false,0\n",
    "columns.jsonl": '{"text": "x", "b": true, "a": 0}\n{"text": "y", "b": 1, "a": "1"}\n'
    '{"text": "z", "b": 0.0, "a": false}\n',
    "list.csv": "text,labels\nx,b\ny, b | a\nz,\n",
    "list.tsv": "text\tlabels\nx\tb\ny\ta|b\nz\t\n",
    "list.jsonl": '{"text": "x", "labels": ["b"]}\n{"text": "y", "labels": ["b", "a"]}\n{"text": "z", "labels": []}\n',
}


@pytest.mark.parametrize("name", TABLES)
def test_several_labels(tmp_path, name):
    path = write(tmp_path / name, TABLES[name])
    if name.startswith("columns"):  # They keep their order; the labels of lists are sorted.
        columns = ["b", "a"]
        labels = ("b", "a")
        ids = [(0,), (0, 1), ()]
    else:
        columns = "labels"
        labels = ("a", "b")
        ids = [(1,), (0, 1), ()]
    data = own_data("multi_label", path, path, path, columns=Columns(label=columns))
    assert data.task.labels == labels
    assert data.train.labels == ids
    assert data.train == data.dev["multi_label"] == data.test["multi_label"]
    assert data.task.main_metric == "micro_f1"
    assert data.task.num_classes == 2
    shares = "b: 2 (66.7%), a: 1 (33.3%)"
    assert data.balance() == f"{shares}; 1.00 labels per row; rows without a label: 1 (33.3%)"
    assert data.train.fingerprint() != data.first(2).train.fingerprint()
    unlabeled = write(tmp_path / "test.csv", "text\nx\n")
    data = own_data("multi_label", path, path, unlabeled, columns=Columns(label=columns))
    assert data.test["multi_label"].labels is None


LISTS = "labels"
COLUMNS = ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.csv", "text,a,b\nx,1,2\n", COLUMNS, r"a\.csv:2: column `b` must be 0 or 1, or true or false. Received:"),
        ("a.jsonl", '{"text": "x", "a": null, "b": 1}', COLUMNS, r"a\.jsonl:1: column `a` must be 0 or 1.* None"),
        ("a.csv", "text,labels\nx,a||b\n", LISTS, r"a\.csv:2: column `labels` contains an empty label. .*'a\|\|b'"),
        ("a.csv", "text,labels\nx,a|a\n", LISTS, r"a\.csv:2: column `labels` contains the label 'a' twice"),
        ("a.csv", "text,labels\nx,\"['a']\"\n", LISTS, r"a\.csv:2: .* separated by `\|`, without brackets"),
        ("a.jsonl", '{"text": "x", "labels": ["a|b"]}', LISTS, r"a\.jsonl:1: .*the label 'a\|b': `\|` separates"),
        ("a.jsonl", '{"text": "x", "labels": "a"}', LISTS, r"a\.jsonl:1: column `labels` must be a list of strings"),
        ("a.csv", "text,labels\nx,1\ny,0\n", LISTS, "alone contains only 0, 1: use `task=classification`"),
        ("a.csv", "text,labels\nx,\n", LISTS, "`labels` must have at least one class"),
        ("a.csv", "text,a,b\nx,1,1\n", ["a", "a"], "`label_column` must be different names. Received: a,a"),
        ("a.csv", "text,a,b|c\nx,1,1\n", ["a", "b|c"], r"`\|` separates labels in predictions. Rename the column"),
    ],
)
def test_bad_rows_of_several_labels(tmp_path, name, content, columns, message):
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=message):
        own_data("multi_label", path, path, columns=Columns(label=columns))


def test_unreadable_rows_of_several_labels_are_skipped(tmp_path):
    path = write(tmp_path / "train.csv", "text,labels\nx,a|b\ny,a||b\nz,b\n")
    data = own_data("multi_label", path, columns=Columns(label="labels"), skip_bad_rows=1)
    assert data.train.labels == [(0, 1), (1,)]
    assert data.train.skipped == 1


def test_unknown_labels_are_never_skipped(tmp_path):
    train = write(tmp_path / "train.csv", "text,labels\nx,a|b\nz,b\n")
    other = write(tmp_path / "other.csv", "text,labels\nx,a\ny,a|c\n")
    for files in ((train, other), (train, train, other)):
        with pytest.raises(ValueError, match=r"other.csv:3: unknown label 'c'"):
            own_data("multi_label", *files, columns=Columns(label="labels"), skip_bad_rows=1)


def test_numbers_as_several_labels(tmp_path):
    path = write(tmp_path / "a.csv", "text,labels\nx,1|0\ny,1\n")
    data = own_data("multi_label", path, columns=Columns(label="labels"))
    assert data.train.labels == [(0, 1), (1,)]


def test_labels_of_one_type(tmp_path):
    """JSON lines with strings and numbers are refused as `fit` refuses such targets; CSV has strings alone."""
    texts = ["a", "b", "c", "d"]
    labels = ["pos", 1, "neg", 0]
    lines = []
    for text, label in zip(texts, labels, strict=True):
        lines.append(json.dumps({"text": text, "label": label}) + "\n")
    path = write(tmp_path / "a.jsonl", "".join(lines))
    places = rf"a.jsonl:1: column `label` is the string 'pos', and in {path}:2 1"
    with pytest.raises(ValueError, match=f"{places}. Expected one type: strings or numbers"):
        own_data("classification", path, path, columns=Columns(text="text"))
    with pytest.raises(ValueError, match="'pos' and 1. Expected one type"):
        in_memory.read(texts, labels)
    path = table_of(tmp_path / "a.csv", zip(texts, labels, strict=True))
    data = own_data("classification", path, path, columns=Columns(text="text"))
    assert data.task.labels == ("0", "1", "neg", "pos")

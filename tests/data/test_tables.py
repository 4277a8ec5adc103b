"""Rows of CSV: line ends within quotes, and how much of a file is read."""

import csv

from keras_bert.data import text_files
from keras_bert.data.formats import source
from tests.tasks.files import write


def test_line_ends_within_quotes(tmp_path):
    """As `csv` reads the file, whose places count the lines of the file."""
    content = 'text,label\r\n"a\r\nb\nc",x\r\n"d",y\n\n"e\r""f",z\r\nbad\r\n'
    path = write(tmp_path / "a.csv", content)
    with open(path, newline="") as file:
        header, *expected = (row for row in csv.reader(file) if row)
    *rows, (line, error) = source(path).rows(["text"])
    assert [row for _, row in rows] == [dict(zip(header, row, strict=True)) for row in expected[:-1]]
    assert [line for line, _ in rows] == [2, 5, 7]
    assert (line, str(error)) == (8, f"{path}:8: expected 2 columns, got 1")


def test_a_file_is_read_once_and_its_head_alone_for_names(tmp_path, monkeypatch):
    opened = []
    real = text_files.opened

    def counted(path):
        opened.append(path)
        return real(path)

    path = write(tmp_path / "a.csv", "text,label\n" + "a,x\nb,y\n" * 4000)
    monkeypatch.setattr(text_files, "opened", counted)
    origin = source(path)
    assert origin.names(["text"]) == ["text", "label"]
    opened.clear()
    assert len(origin.rows(["text"])) == 8000
    assert opened == [path]
    # A row is there before the file is read further.
    path.write_bytes(path.read_bytes() + b"\xff")
    assert next(iter(origin.stream(["text"]))) == (2, {"text": "a", "label": "x"})

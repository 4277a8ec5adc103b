"""What a file of rows is: by its content, and by its name where the content does not tell."""

import gzip
import io

import pytest

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

from keras_bert.data.arrow import Parquet  # noqa: E402
from keras_bert.data.formats import source, stream_rows  # noqa: E402
from keras_bert.data.json_rows import Json, JsonLines  # noqa: E402
from keras_bert.data.sources import PythonRows  # noqa: E402
from keras_bert.data.tables import Table  # noqa: E402
from tests.tasks.files import write  # noqa: E402


def parquet_content():
    file = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist([{"a": 1}]), file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.csv", b"a,b\n1,2\n", Table),
        ("a.csv", b"[a],b\n1,2\n", Table),  # The name of a table decides.
        ("a.tsv.gz", gzip.compress(b"a\tb\n"), Table),
        ("a.jsonl", b'{"a": 1}\n', JsonLines),
        ("a.json", b'{"a": 1}\n{"a": 2}\n', JsonLines),
        ("a.json", b'[{"a": 1}]', Json),
        ("a.txt", b' \n[{"a": 1}]', Json),
        ("a", b'\xef\xbb\xbf{"a": 1}\n{"a": 2}', JsonLines),
        ("a.parquet", parquet_content(), Parquet),
        ("a.data", parquet_content(), Parquet),
    ],
)
def test_kinds_of_files(tmp_path, name, content, kind):
    assert type(source(write(tmp_path / name, content))) is kind


def test_a_source_stays_as_it_is():
    origin = PythonRows("texts", [{"a": 1}])
    assert source(origin) is origin


def test_files_that_are_not_what_their_name_says(tmp_path):
    with pytest.raises(ValueError, match="a.parquet: not Parquet, whose files start with PAR1. Received: b'a,b'"):
        source(write(tmp_path / "a.parquet", "a,b"))
    with pytest.raises(ValueError, match="a.xlsx: the name must end in .csv, .tsv, .jsonl, .ndjson, .json, .parquet"):
        source(write(tmp_path / "a.xlsx", "PK"))


def test_lists_in_lines_and_tables_in_gzip(tmp_path):
    listed = source(write(tmp_path / "a.jsonl", '[{"a": 1},\n{"a": 2}]'))
    assert listed.rows(["a"]) == [(1, {"a": 1}), (2, {"a": 2})]
    semicolons = write(tmp_path / "a.csv.gz", gzip.compress(b"a;b\nx;y\n", mtime=0))
    assert source(semicolons).rows(["a"]) == [(2, {"a": "x", "b": "y"})]
    tabs = write(tmp_path / "a.tsv.gz", gzip.compress(b"a\tb\nx\ty\n", mtime=0))
    assert source(tabs).rows(["a"]) == [(2, {"a": "x", "b": "y"})]


def test_rows_one_by_one(tmp_path):
    """An error comes after the rows before it; lone surrogates of lines stay as they are."""
    path = write(tmp_path / "a.jsonl", '{"a": "\\ud800"}\n{"b": 1}\n{\n')
    rows = stream_rows(path, ["a"])
    assert next(rows) == (1, {"a": "\ud800"})
    with pytest.raises(ValueError, match="a.jsonl:2: no column `a`"):
        next(rows)

"""Rows of Parquet: in parts, compressed, with metadata of other programs, and damaged."""

import gzip

import pytest

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from keras_bert.data.formats import source  # noqa: E402
from keras_bert.runs import fit_data  # noqa: E402
from tests.data.test_sources import table  # noqa: E402
from tests.tasks.files import write  # noqa: E402


@pytest.mark.parametrize("name", ["a.parquet", "a.parquet.gz"])
def test_parquet_in_gzip_and_in_parts(tmp_path, monkeypatch, name):
    monkeypatch.setattr("keras_bert.data.arrow._BATCH", 2)
    rows = [{"text": f"é{number}", "label": number} for number in range(5)]
    parquet.write_table(table(rows, {}), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    if name.endswith(".gz"):
        content = gzip.compress(content)
    write(tmp_path / name, content)
    assert source(tmp_path / name).rows(["text"]) == list(enumerate(rows, 1))


@pytest.mark.parametrize("written", ["no json", "[1]", '{"info": null}', '{"info": {"features": [1]}}'])
def test_foreign_metadata(tmp_path, written):
    """One line with the name of the file; for a table in memory, one without."""
    foreign = pyarrow.Table.from_pylist([{"text": "a"}]).replace_schema_metadata({"huggingface": written})
    parquet.write_table(foreign, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="a.parquet: Parquet that cannot be read.* metadata `huggingface`"):
        source(tmp_path / "a.parquet").rows(["text"])
    with pytest.raises(ValueError, match="its metadata `huggingface`"):
        fit_data.read_data(foreign, None, None, None, None, 1)


def _error_of(path):
    try:
        source(path).rows(["text"])
    except ValueError as error:
        return str(error)
    return None


def test_corrupt_parquet(tmp_path):
    """Each byte of a file is changed in turn: rows, or one line with the name of the file."""
    rows = [{"text": f"text {number} {number * 7}", "label": number % 3} for number in range(40)]
    features = {"label": {"names": ["a", "b", "c"], "_type": "ClassLabel"}}
    parquet.write_table(table(rows, features), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    count = 0
    for place in range(4, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 0xFF
        error = _error_of(write(tmp_path / "b.parquet", bytes(changed)))
        if error is not None:
            assert error.startswith(f"{tmp_path}/b.parquet: Parquet that cannot be read, after row ")
            assert "\n" not in error
            count += 1
    assert count > 5

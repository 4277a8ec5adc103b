"""What a file of rows is, which follows from its content.

JSON with a row in each line, a list of rows or an object with the rows under `data`, Parquet, or else a table, CSV or
TSV by its name. Each may be compressed by gzip.
"""

import pathlib

from keras_bert.data import text_files
from keras_bert.data.arrow import Parquet
from keras_bert.data.json_rows import JsonLines, json_source
from keras_bert.data.sources import Source
from keras_bert.data.tables import Table

_TABLES = (".csv", ".tsv")
_JSON = (".jsonl", ".ndjson", ".json")
ROWS = (*_TABLES, *_JSON, ".parquet")  # Ends of the names of files with rows.
_BEFORE_CONTENT = b"\xef\xbb\xbf \t\r\n"  # Byte order mark and white space.


def source(path):
    """Returns the source of a path; a source stays as it is."""
    if isinstance(path, Source):
        return path
    path = pathlib.Path(path)
    text_files.check_file(path)
    suffix = text_files.suffix(path)
    start = text_files.first_bytes(path).lstrip(_BEFORE_CONTENT)
    if start.startswith(b"PAR1"):
        return Parquet(path)
    if suffix == ".parquet":
        raise ValueError(f"{path}: not Parquet, whose files start with PAR1. Received: {start[:20]!r}")
    if suffix in _TABLES:
        return Table(path)
    if suffix in _JSON or start[:1] in (b"{", b"["):
        return json_source(path, suffix)
    raise ValueError(f"{path}: the name must end in {', '.join(ROWS)}")


def stream_rows(path, wanted):
    """Yields the line number and the row of a source or file, a dict by column; files of lines are not kept.

    Strings of JSON lines stay as they are, see `valid_text`.
    """
    origin = source(path)
    if isinstance(origin, JsonLines):
        origin = JsonLines(origin.path, replace_surrogates=False)
    for number, row in origin.stream(wanted):
        if isinstance(row, ValueError):
            raise row
        yield number, row

"""Rows of Arrow: files of Parquet, and tables and data sets in memory, with the names of classes of the hub."""

import datetime
import decimal
import json

from keras_bert.data import text_files
from keras_bert.data.sources import File

_BATCH = 1024  # Rows of Parquet to convert together.


class Parquet(File):
    """Rows of Parquet. Numbers of classes become their names, if the file has them, as those of the hub do."""

    def stream_values(self):
        import pyarrow
        import pyarrow.parquet

        number = 0
        try:
            with pyarrow.parquet.ParquetFile(self._content()) as file:
                names = class_names(_hub_schema(file.schema_arrow))
                for batch in file.iter_batches(batch_size=_BATCH):
                    for row in batch.to_pylist():
                        number += 1
                        yield number, with_class_names(row, names)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError, _SchemaError) as error:
            problem = str(error).partition("\n")[0]
            raise ValueError(f"{self}: Parquet that cannot be read, after row {number}: {problem}") from error

    def _content(self):
        """Returns the path, or the uncompressed content of a file in gzip, in which pyarrow cannot jump."""
        import pyarrow

        with open(self.path, "rb") as file:
            is_compressed = file.read(2) == text_files.GZIP
        if is_compressed:
            return pyarrow.BufferReader(text_files.whole(self.path))
        return self.path


class _SchemaError(ValueError):
    """Metadata of Arrow that are not those of the hub."""


def arrow_rows(table):
    """Returns the rows of a table of Arrow as dicts; numbers of classes become their names, -1 a missing one."""
    names = class_names(_hub_schema(table.schema))
    return [with_class_names(row, names) for row in table.to_pylist()]


def _hub_schema(schema):
    """Returns what `datasets` writes into the schema of Arrow, a dict."""
    metadata = schema.metadata or {}
    written = metadata.get(b"huggingface", b"{}")
    try:
        hub_schema = json.loads(written)
        class_names(hub_schema)
    except (ValueError, RecursionError, TypeError, AttributeError):
        raise _SchemaError(
            "its metadata `huggingface`, where the names of classes are, must be what `datasets` writes, or be left "
            f"out. Received: {written!r:.100}"
        ) from None
    return hub_schema


def class_names(schema):
    """Returns the names of the classes by column, as the hub's data sets have them in their schema."""
    features = schema.get("info", {}).get("features", {})
    names = {}
    for column, feature in features.items():
        inner = feature
        while isinstance(inner, dict) and isinstance(inner.get("feature"), dict):  # Of a list.
            inner = inner["feature"]
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and inner.get("names"):
            names[column] = inner["names"]
    return names


def with_class_names(row, names):
    """Returns a row with the types of JSON; numbers become the names of classes that their columns have."""
    named = {}
    for column, value in row.items():
        named[column] = _named_classes(_json_value(value), names.get(column))
    return named


def _named_classes(value, names):
    """Returns a class, or a list of them, by names; -1 is a missing one."""
    if names is None or value is None:
        return value
    if isinstance(value, list):
        return [_named_classes(part, names) for part in value]
    if not isinstance(value, int):  # Names already.
        return value
    if 0 <= value < len(names):
        return names[value]
    return None


def _json_value(value):
    """Returns a value of Arrow with the types of JSON."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        return str(value)
    if isinstance(value, list):
        return [_json_value(part) for part in value]
    if isinstance(value, dict):
        return {name: _json_value(part) for name, part in value.items()}
    return value

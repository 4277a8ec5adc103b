"""Lines of text files in UTF-8, with LF, CRLF or CR line ends, which may be compressed by gzip; cells of tables."""

import codecs
import contextlib
import gzip
import pathlib
import re
import zlib

NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
# What spreadsheets take for formulas, some also after white space or with full-width signs, and the mark of a text.
_FORMULA = re.compile(r"[\s\0]*[=+\-@\uff1d\uff0b\uff0d\uff20]|['\t\r\n]")


def read_lines(path):
    """Returns (line number, line) of a UTF-8 file, without line ends, byte order mark and trailing blank lines."""
    with _opened(path) as file:
        return _numbered(file.read(), path)


def _numbered(content, path):
    lines = split_lines(decoded(content, path))
    while lines and not lines[-1].strip(" \r"):
        lines.pop()
    return list(enumerate(lines, 1))


def stream_lines(path):
    """Yields what `read_lines` returns without reading the file as a whole, unless all of its line ends are CR."""
    blank = []
    with _opened(path) as file:
        for number, content in enumerate(file, 1):
            if number == 1 and not content.endswith(b"\n"):
                yield from _numbered(content, path)
                return
            line = decoded(content, path, number)
            blank.append((number, line.removesuffix("\n").removesuffix("\r")))
            if line.strip(" \r\n"):
                yield from blank
                blank = []


def decoded(content, name, first_line=1):
    """Decodes the bytes of the UTF-8 file `name` from a line to the end, without its byte order mark."""
    if first_line == 1:
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content[:2]:
            found = "UTF-32" if b"\0\0" in content[:4] else "UTF-16"
            raise ValueError(f"{name}: the file is {found}. Save it as UTF-8 (Excel calls it `CSV UTF-8`)")
        if content.startswith(b"PK\x03\x04"):
            raise ValueError(f"{name}: the file is compressed. Decompress it")
        content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        *lines, line = split_lines(content[: error.start].decode("utf-8"))
        raise ValueError(
            f"{name}:{len(lines) + first_line}: not UTF-8, byte 0x{content[error.start]:02x} at position "
            f"{len(line.encode())}. Save the file as UTF-8"
        ) from error


def split_lines(text):
    """Splits a text at LF or CRLF, or at CR if it has no LF. `str.splitlines` would also split at other characters."""
    return [line.removesuffix("\r") for line in text.split("\n" if "\n" in text else "\r")]


def suffix(path):
    """Returns the end of the name of a file in lower case, without that of gzip."""
    return pathlib.Path(path.name.lower().removesuffix(".gz")).suffix


def first_bytes(path):
    """Returns the beginning of a file, uncompressed."""
    with _opened(path) as file:
        return file.read(512)


@contextlib.contextmanager
def _opened(path):
    with open(path, "rb") as raw:  # Once: it may be a pipe.
        try:
            yield gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: gzip that cannot be read: {error}") from None


def split_tabs(path, convert=str):
    """Returns (line number, fields) of each line of a file whose columns are separated by tabs."""
    return [(number, list(map(convert, line.split("\t")))) for number, line in read_lines(path)]


def is_blank(fields):
    """Whether the fields of a row with several columns are those of a blank line."""
    return not fields or (len(fields) == 1 and not fields[0].strip())


def as_text(cell):
    """Precedes a cell to write that spreadsheets would take for a formula by an apostrophe, as `page/csv.js` does."""
    return f"'{cell}" if _FORMULA.match(cell) and not NUMBER.fullmatch(cell) else cell


def valid_text(text):
    """Replaces lone surrogates, which JSON may contain and UTF-8 cannot encode, by `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")

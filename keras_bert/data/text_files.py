"""Lines of text files in UTF-8, with LF, CRLF or CR line ends, which may be compressed by gzip; cells of tables."""

import codecs
import contextlib
import gzip
import io
import os
import pathlib
import re
import zlib

from keras_bert.checks import similar

LARGEST = 1 << 27  # Bytes of a line.
GZIP = b"\x1f\x8b"  # The start of such files.
BLOCK_BYTES = 1 << 20  # To read at a time.
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
# What spreadsheets take for formulas, some also after white space or with full-width signs, and the mark of a text.
_FORMULA = re.compile(r"[\s\0]*[=+\-@\uff1d\uff0b\uff0d\uff20]|['\t\r\n]")


class LongLineError(ValueError):
    """A line is longer than `LARGEST`."""


def check_file(path):
    """Raises an error unless a path is that of a file."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Expected a file")
    if not path.exists():
        raise ValueError(no_such_file(path))
    if not path.is_file():
        raise ValueError(f"{path} is a pipe or a device. Expected a file, which is read several times")


def no_such_file(path):
    """Returns the message for a path without a file, with that of a similar name beside it."""
    path = pathlib.Path(path)
    names = {}  # Without their ends: those such as .csv are alike in different names.
    if path.parent.is_dir():
        for other in sorted(path.parent.iterdir()):
            names[other.stem] = other.name
    alike = similar(path.stem, names)
    if alike:
        return f"{path}: no such file. Did you mean {path.with_name(names[alike])}?"
    return f"{path}: no such file"


def read_lines(path):
    """Returns (line number, line) of a UTF-8 file, without line ends, byte order mark and trailing blank lines."""
    return list(stream_lines(path))


def stream_lines(path, blank_end=False):
    """Yields what `read_lines` returns without reading the file as a whole, unless all of its line ends are CR.

    With `blank_end`, also the blank lines at the end of the file.
    """
    for number, line in enumerate(stream_text(path, blank_end), 1):
        yield number, without_end(line)


def stream_text(path, blank_end=False):
    """Yields the lines of a UTF-8 file as they are, with their line ends; see `stream_lines`."""
    with opened(path) as file:
        yield from text_of(file, path, blank_end)


def text_of(file, name, blank_end=False):
    """Same as `stream_text` for an open binary file, such as the standard input; messages call it `name`."""
    line_end = "\r"
    for text in _texts(file, name, blank_end):
        if "\n" in text:
            line_end = "\n"
        # Unlike a file's, the lines of `StringIO` end at this character alone.
        yield from io.StringIO(text, newline=line_end)


def without_end(line):
    """Returns a line without its end: LF, CRLF, or CR."""
    return line.removesuffix("\n").removesuffix("\r")


def _texts(file, name, blank_end):
    """Yields the text of whole lines, block by block; without `blank_end`, blank lines wait for one that is not."""
    waiting = ""
    first_line = 1
    for block in _blocks(file, name):
        for content in _readable_first(block):
            text = waiting + decoded(content, name, first_line)
            first_line += content.count(b"\n")
            waiting = ""
            if not blank_end:
                line_end = "\n" if first_line > 1 else "\r"
                end = _end_of_content(text, line_end)
                waiting = text[end:]
                text = text[:end]
                _check_length(len(waiting), name, first_line, "blank lines")
            if text:
                yield text


def _readable_first(block):
    """Yields a block, or the lines before the first one that is not UTF-8, and then the others."""
    try:
        block.decode("utf-8")
    except UnicodeDecodeError as error:
        start = block.rfind(b"\n", 0, error.start) + 1
        if start:
            yield block[:start]
        yield block[start:]
    else:
        yield block


def _end_of_content(text, line_end):
    """Returns where the last line that is not blank ends."""
    content = text.rstrip(" \r\n")
    if not content:
        return 0
    end = text.find(line_end, len(content))
    if end < 0:
        return len(text)
    return end + 1


def _blocks(file, name):
    """Yields the bytes of whole lines, as soon as they are there: about a MiB, or a line that is longer."""
    parts = []
    first_line = 1
    while block := file.read1(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*parts, block[:end]])
            first_line += block.count(b"\n")
            parts = []
        parts.append(block[end:])
        _check_length(sum(map(len, parts)), name, first_line, "a line")
    rest = b"".join(parts)
    if rest:
        yield rest


def _check_length(size, name, line, what):
    """Raises an error for a line that no text is: without a bound, a small file of gzip could take all memory."""
    if size > LARGEST:
        raise LongLineError(
            f"{name}:{line}: {what} of more than {LARGEST >> 20} MiB. Expected shorter lines, with a text or a row each"
        )


def whole_text(path):
    """Returns the text of a UTF-8 file; what is compressed has a bound."""
    return decoded(whole(path), path)


def whole(path):
    """Returns the bytes of a file, uncompressed.

    Gzip may expand to `LARGEST` bytes, or to a hundred times the size of the file: texts are compressed to a tenth.
    """
    size = 0
    blocks = []
    with opened(path) as file:
        limit = max(LARGEST, 100 * os.fstat(file.fileno()).st_size)
        while block := file.read(BLOCK_BYTES):
            size += len(block)
            if size > limit and isinstance(file, gzip.GzipFile):
                raise ValueError(
                    f"{path}: gzip that expands to more than {limit >> 20} MiB, a hundred times its size, and is read "
                    "as a whole. If that is right, decompress it; lines of JSON or CSV are read one by one"
                )
            blocks.append(block)
    return b"".join(blocks)


def decoded(content, name, first_line=1):
    """Decodes the bytes of the UTF-8 file `name` from a line to the end, without its byte order mark."""
    if first_line == 1:
        if _is_utf16(content):
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


def _is_utf16(content):
    """Whether bytes are UTF-16 or UTF-32: with their byte order mark, or with the zeros of characters of one byte."""
    start = content[:200]
    has_mark = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return has_mark or 3 * start.count(0) > len(start)


def split_lines(text):
    """Splits a text at LF or CRLF, or at CR if it has no LF. `str.splitlines` would also split at other characters."""
    line_end = "\n" if "\n" in text else "\r"
    return [line.removesuffix("\r") for line in text.split(line_end)]


def suffix(path):
    """Returns the end of the name of a file in lower case, without that of gzip."""
    return pathlib.Path(path.name.lower().removesuffix(".gz")).suffix


def first_bytes(path):
    """Returns the beginning of a file, uncompressed."""
    with opened(path) as file:
        return file.read(512)


@contextlib.contextmanager
def opened(path):
    """Yields a binary file, uncompressed; gzip that cannot be read is an error with the path."""
    with open(path, "rb") as raw:  # Once: it may be a pipe.
        try:
            is_compressed = raw.peek(2)[:2] == GZIP
            yield gzip.GzipFile(fileobj=raw) if is_compressed else raw
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: gzip that cannot be read: {error}") from None


def split_tabs(path, convert=str):
    """Returns (line number, fields) of each line of a file whose columns are separated by tabs."""
    rows = []
    for number, line in read_lines(path):
        rows.append((number, list(map(convert, line.split("\t")))))
    return rows


def is_blank(fields):
    """Whether the fields of a row with several columns are those of a blank line."""
    return not fields or (len(fields) == 1 and not fields[0].strip())


def without_formula(cell):
    """Precedes a cell to write that spreadsheets would take for a formula by an apostrophe, as `page/csv.js` does."""
    if _FORMULA.match(cell) and not NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def valid_text(text):
    """Replaces lone surrogates, which JSON may contain and UTF-8 cannot encode, by `?`."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")

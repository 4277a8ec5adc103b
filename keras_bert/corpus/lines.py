"""Reads lines from any byte range of text files, plain or `.gz`, in bounded memory."""

import glob
import gzip
import math
import pathlib
import zlib

_LOOK = 2**16  # Bytes at the start of a file that are checked to be text.


def find(files):
    """Returns the files that match a glob pattern, which may contain `**`, or the paths of a list."""
    if not isinstance(files, str | pathlib.Path):
        return [pathlib.Path(path) for path in files]
    paths = [path for path in map(pathlib.Path, sorted(glob.glob(str(files), recursive=True))) if path.is_file()]
    if not paths and pathlib.Path(files).is_dir():
        raise FileNotFoundError(f"{files}: a folder. Expected a pattern of files, such as {files}/*")
    if not paths:
        raise FileNotFoundError(f"{files}: no file matches")
    return paths


def is_packed(path):
    return path.suffix == ".gz"


def lines(path, start=0, stop=math.inf, longest=math.inf):
    """Yields `(place, line)`, the byte offset and the bytes, of the lines of a file that start in a range.

    In a `.gz`, bytes are counted after decompression. Lines of more than `longest` bytes are split, after a space if
    possible.
    """
    size = -1 if longest == math.inf else longest
    try:
        with (gzip.open if is_packed(path) else open)(path, "rb") as file:
            place = _next_line(file, start, size) if start else 0
            while place < stop and (line := file.readline(size)):
                begin, place = place, place + len(line)
                while len(line) == size and not line.endswith(b"\n"):
                    cut = _place_to_cut(line)
                    yield begin, line[:cut]
                    more = file.readline(cut)
                    place += len(more)
                    line = line[cut:] + more
                yield begin, line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: truncated or invalid .gz file: {error}") from None


def _next_line(file, start, size):
    """Seeks to the first line that starts at `start` or later, and returns its offset."""
    file.seek(start - 1)
    while (rest := file.readline(size)) and not rest.endswith(b"\n"):
        pass
    return file.tell()


def _place_to_cut(line):
    """Returns the position after the last space, or else before the last character."""
    if b" " in line:
        return line.rindex(b" ") + 1
    begins = [place for place in range(max(1, len(line) - 4), len(line)) if line[place] & 0xC0 != 0x80]
    return begins[-1] if begins else len(line)


def check_is_text(path):
    """Raises if a file has a NUL near its start."""
    size = 0
    for _, line in lines(path, longest=_LOOK):
        if b"\0" in line:
            raise ValueError(f"{path}: a binary or UTF-16 file. Expected UTF-8 text, optionally compressed as .gz")
        size += len(line)
        if size >= _LOOK:
            return


def check_is_utf8(path, place, line):
    """Raises if a line, which starts at an offset of a file, is not UTF-8."""
    try:
        line.isascii() or line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}:{line_number(path, place)}: not UTF-8: {error.object[error.start :][:8]!r}. Convert the file, "
            "for example by `iconv -f latin1 -t utf-8`"
        ) from None


def line_number(path, place):
    """Returns the number, from 1, of the line that starts at an offset."""
    return sum(begin < place for begin, _ in lines(path)) + 1

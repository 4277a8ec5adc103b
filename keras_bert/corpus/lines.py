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
    paths = []
    for name in sorted(glob.glob(str(files), recursive=True)):
        path = pathlib.Path(name)
        if path.is_file():
            paths.append(path)
    if paths:
        return paths
    if pathlib.Path(files).is_dir():
        raise FileNotFoundError(f"{files}: a folder. Expected a pattern of files, such as {files}/*")
    raise FileNotFoundError(f"{files}: no file matches")


def is_packed(path):
    return path.suffix == ".gz"


def lines(path, start=0, stop=math.inf, longest=math.inf):
    """Yields `(place, line)`, the byte offset and the bytes, of the lines of a file that start in a range.

    In a `.gz`, bytes are counted after decompression. Lines of more than `longest` bytes are split, after a space if
    possible, and so is one of exactly as many at the end of a file, without a line end. White space at the end of a
    line stays with the part before it, so that such a line may be one part after all. `read_documents` reads on behind
    its range, so that lines there come twice.
    """
    size = -1 if longest == math.inf else longest
    try:
        with _opened(path) as file:
            place = _next_line(file, start, size) if start else 0
            while place < stop:
                line = file.readline(size)
                if not line:
                    break
                begin = place
                if _is_whole(line, size):
                    yield begin, line
                    place += len(line)
                    continue
                for part in _parts(line, file, size):
                    yield begin, part  # All parts of a line have its place.
                    place += len(part)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: truncated or invalid .gz file: {error}") from None


def _opened(path):
    """Returns a file of bytes, decompressed if it is a `.gz`."""
    if is_packed(path):
        return gzip.open(path, "rb")
    return open(path, "rb")


def _is_whole(line, size):
    """Whether what `readline(size)` returned is a line, or its end, rather than its first bytes."""
    return len(line) != size or line.endswith(b"\n")


def _parts(line, file, size):
    """Yields the parts of a line that is longer than `size`, of which `line` has been read; reads the others.

    Together they are the line, byte for byte.
    """
    while not _is_whole(line, size):
        cut = _place_to_cut(line)
        more = file.readline(cut)  # As much as the next part lacks.
        rest = line[cut:] + more
        is_last = len(more) < cut or more.endswith(b"\n")
        if is_last and not rest.strip():  # It would be read as a blank line, which ends a document.
            line += more
            break
        yield line[:cut]
        line = rest
    yield line


def _next_line(file, start, size):
    """Seeks to the first line that starts at `start` or later, and returns its offset."""
    file.seek(start - 1)
    rest = file.readline(size)
    while rest and not rest.endswith(b"\n"):
        rest = file.readline(size)
    return file.tell()


def _place_to_cut(line):
    """Returns the position after the last space, or else before the last character."""
    if b" " in line:
        return line.rindex(b" ") + 1
    for place in range(len(line) - 1, max(0, len(line) - 5), -1):
        if line[place] & 0xC0 != 0x80:  # No continuation byte of UTF-8.
            return place
    return len(line)


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

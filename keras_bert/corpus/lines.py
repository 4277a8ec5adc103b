"""Text files as lines of bytes: which files, `.gz` or plain, any range of them, no line too long for memory."""

import glob
import gzip
import math
import pathlib
import zlib


def find(files):
    """The paths that a glob pattern matches, `**` included, or those of a list, which must exist."""
    if not isinstance(files, str | pathlib.Path):
        return [pathlib.Path(path) for path in files]
    paths = [path for path in map(pathlib.Path, sorted(glob.glob(str(files), recursive=True))) if path.is_file()]
    if not paths:
        raise FileNotFoundError(f"{files}: no file matches")
    return paths


def is_packed(path):
    return path.suffix == ".gz"


def lines(path, start=0, stop=math.inf, longest=math.inf):
    """The lines of a file that begin between two bytes of it.

    Args:
        path: the file; the bytes of a `.gz` are those of the unpacked text.
        start: the first byte.
        stop: the byte behind the last.
        longest: a longer line comes in parts of at most so many bytes, cut after a space where there is one.

    Yields:
        `(place, line)`: the byte that the line begins at, and its bytes with the line end.
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
        raise ValueError(f"{path}: not a whole .gz file: {error}") from None


def _next_line(file, start, size):
    """Goes to the first line that begins at `start` or later."""
    file.seek(start - 1)
    while (rest := file.readline(size)) and not rest.endswith(b"\n"):
        pass
    return file.tell()


def _place_to_cut(line):
    """After the last space, or else before the last character."""
    if b" " in line:
        return line.rindex(b" ") + 1
    begins = [place for place in range(max(1, len(line) - 4), len(line)) if line[place] & 0xC0 != 0x80]
    return begins[-1] if begins else len(line)

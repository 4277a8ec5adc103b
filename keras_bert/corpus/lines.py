"""Lines of text files, plain or `.gz`: any range of bytes, in bounded memory."""

import glob
import gzip
import math
import pathlib
import zlib


def find(files):
    """The files that match a glob pattern, `**` included, or the paths of a list."""
    if not isinstance(files, str | pathlib.Path):
        return [pathlib.Path(path) for path in files]
    paths = [path for path in map(pathlib.Path, sorted(glob.glob(str(files), recursive=True))) if path.is_file()]
    if not paths:
        raise FileNotFoundError(f"{files}: no file matches")
    return paths


def is_packed(path):
    return path.suffix == ".gz"


def lines(path, start=0, stop=math.inf, longest=math.inf):
    """Yields `(place, line)`, the first byte and the bytes, of the lines of a file that begin in a range.

    Args:
        path: the file. Bytes of a `.gz` are counted in the decompressed text.
        start, stop: the range of bytes.
        longest: the most bytes of a line; a longer one is split, after a space if possible.
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

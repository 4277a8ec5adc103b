"""Lines of byte ranges of a file, compared with `split` of the whole file."""

import collections
import gzip
import io
import itertools
import pathlib
import random

import pytest

from keras_bert.corpus import lines as lines_module
from keras_bert.corpus.lines import find, is_packed, lines
from tests.pretraining.numbered import write

pytestmark = pytest.mark.tensorflow
CONTENTS = {
    "usual": b"one\ntwo words\n\nthree\n",
    "no end": b"one\n\n\ntwo",
    "windows": b"one\r\n\r\ntwo\r\n",
    "blank": b"\n\n\n",
    "one line": b"one",
    "empty": b"",
    "utf-8": "éé 中文中文\n😀😀😀\n".encode(),
}


def keep_ends(content):
    """Returns `(place, line)` of each line, using only `split`."""
    *whole, last = content.split(b"\n")
    found = []
    place = 0
    for line in whole:
        found.append((place, line + b"\n"))
        place += len(line) + 1
    if last:
        found.append((place, last))
    return found


def test_find(tmp_path):
    for name in ("b.txt", "a.txt", "deep/er/c.txt", "folder.txt/d"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert find(str(tmp_path / "*.txt")) == [tmp_path / "a.txt", tmp_path / "b.txt"]
    assert find(tmp_path / "**" / "*.txt") == [tmp_path / name for name in ("a.txt", "b.txt", "deep/er/c.txt")]
    # The order of a list is kept.
    assert find(["z.txt", tmp_path / "a.txt"]) == [pathlib.Path("z.txt"), tmp_path / "a.txt"]
    with pytest.raises(FileNotFoundError, match=r"none\*: no file matches"):
        find(tmp_path / "none*")
    assert is_packed(pathlib.Path("a.txt.gz"))
    assert not is_packed(pathlib.Path("a.gz.txt"))


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("suffix", [".txt", ".gz"])
@pytest.mark.parametrize("options", [{}, {"longest": 4}, {"longest": 7}], ids=["whole", "4", "7"])
def test_adjacent_ranges_cover_all_lines(tmp_path, name, suffix, options):
    content = CONTENTS[name]
    path = write(tmp_path / f"a{suffix}", content)
    whole = list(lines(path, **options))
    if not options:
        assert whole == keep_ends(content)
    assert b"".join(line for _, line in whole) == content
    for cut in range(len(content) + 2):
        first = list(lines(path, 0, cut, **options))
        assert [*first, *lines(path, cut, **options)] == whole
        assert all(place < cut for place, _ in first)


def check_parts(whole, parts, size):
    """Asserts that the parts of a line are as long as they may be, and end after a space if they have one."""
    assert b"".join(parts) == whole
    for part in parts:
        assert part.decode()  # Raises in the middle of a character.
        assert len(part.rstrip()) <= size
    if len(parts) > 1:
        assert len(whole) >= size
        assert parts[-1].strip()  # Not a blank line.
    for part, following in itertools.pairwise(parts):
        # After a space, unless the bytes that fit contain none.
        assert part.endswith(b" ") or b" " not in (part + following)[: size - 4]


@pytest.mark.parametrize("seed", range(4))
def test_long_lines_are_split_after_spaces(tmp_path, seed):
    rng = random.Random(seed)
    size = rng.choice([8, 16, 61])
    letters = "a b\n" if seed % 2 else "aé中😀 "
    content = "".join(rng.choices(letters, weights=[9, 3, 2, 1, 2][: len(letters)], k=700)).encode()
    path = write(tmp_path / "a.txt", content)
    parts = collections.defaultdict(list)
    for place, part in lines(path, longest=size):
        parts[place].append(part)
    for place, whole in keep_ends(content):
        check_parts(whole, parts[place], size)


@pytest.mark.parametrize("end", [b"", b"\n", b"  \n", b" \r\n"])
def test_the_end_of_a_long_line_is_no_blank_line(tmp_path, end):
    path = write(tmp_path / "a.txt", b"abc def " + end)
    assert list(lines(path, longest=8)) == [(0, b"abc def " + end)]


def test_long_lines_are_read_in_parts(tmp_path, monkeypatch):
    asked = []

    class File(io.BufferedReader):
        """Records the requested read sizes."""

        def __init__(self, path, mode):
            super().__init__(io.FileIO(path, mode))

        def readline(self, size):
            asked.append(size)
            return super().readline(size)

    monkeypatch.setattr(lines_module, "open", File, raising=False)
    content = b"x" * 1_000_000 + b"\nend\n"
    path = write(tmp_path / "a.txt", content)
    assert sum(len(line) for _, line in lines(path, longest=1000)) == len(content)
    assert list(lines(path, 10, longest=1000)) == [(1_000_001, b"end\n")]
    assert 0 < min(asked) <= max(asked) <= 1000


WHOLE = gzip.compress(random.Random(0).randbytes(1000), mtime=0)


@pytest.mark.parametrize(
    "content",
    [b"no archive", WHOLE[:-9], WHOLE[:300] + b"~~~~" + WHOLE[304:]],
    ids=["text", "truncated", "changed"],
)
def test_invalid_gz_files(tmp_path, content):
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(ValueError, match="a.gz: truncated or invalid .gz file: "):
        list(lines(tmp_path / "a.gz"))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        list(lines(tmp_path / "none.txt"))

"""Lines of byte ranges of a file, compared with `split` of the whole file."""

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
    found = [line + b"\n" for line in content.split(b"\n")]
    found[-1] = found[-1][:-1]
    if not found[-1]:
        found.pop()
    places = itertools.accumulate(map(len, found), initial=0)
    return list(zip(places, found, strict=False))


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
def test_adjacent_ranges_cover_all_lines(tmp_path, name):
    content = CONTENTS[name]
    for suffix, longest in itertools.product((".txt", ".gz"), ({}, {"longest": 4}, {"longest": 7})):
        path = write(tmp_path / f"a{suffix}", content)
        whole = list(lines(path, **longest))
        assert longest or whole == keep_ends(content)
        assert b"".join(line for _, line in whole) == content
        for cut in range(len(content) + 2):
            first = list(lines(path, 0, cut, **longest))
            assert [*first, *lines(path, cut, **longest)] == whole
            assert all(place < cut for place, _ in first)


@pytest.mark.parametrize("seed", range(4))
def test_long_lines_are_split_after_spaces(tmp_path, seed):
    rng = random.Random(seed)
    size = rng.choice([8, 16, 61])
    letters = "a b\n" if seed % 2 else "aé中😀 "
    content = "".join(rng.choices(letters, weights=[9, 3, 2, 1, 2][: len(letters)], k=700)).encode()
    path = write(tmp_path / "a.txt", content)
    for place, whole in keep_ends(content):
        parts = [line for begin, line in lines(path, longest=size) if begin == place]
        assert b"".join(parts) == whole
        assert all(part.decode() and len(part.rstrip()) <= size for part in parts)
        assert len(parts) == 1 or parts[-1].strip()  # Not a blank line.
        for part, following in itertools.pairwise(parts):
            # After a space, unless the bytes that fit contain none.
            assert part.endswith(b" ") or b" " not in (part + following)[: size - 4]
        assert len(parts) == 1 or len(whole) >= size


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


def test_invalid_gz_files(tmp_path):
    whole = gzip.compress(random.Random(0).randbytes(1000))
    broken = {"text.gz": b"no archive", "short.gz": whole[:-9], "bad.gz": whole[:300] + b"~~~~" + whole[304:]}
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name}: truncated or invalid .gz file: "):
            list(lines(tmp_path / name))
    with pytest.raises(FileNotFoundError):
        list(lines(tmp_path / "none.txt"))

"""Parallel files: their lines, and what is wrong with them."""

import pytest

from keras_bert.translation import data


@pytest.fixture
def files(tmp_path):
    def write(*contents):
        paths = [tmp_path / name for name in ("a.de", "a.en")[: len(contents)]]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        return paths

    return write


def test_lines(files):
    """Line ends of any kind, a byte order mark, separators that are no line ends, and no line end at the end."""
    pairs = data.read(*files("\ufeffEins\r\nZwei\u2028drei\r\n".encode(), b"one\ntwo three"))
    assert (pairs.sources, pairs.targets, pairs.lines) == (["Eins", "Zwei\u2028drei"], ["one", "two three"], [1, 2])


def test_without_translations(files):
    pairs = data.read(*files(b"a\n\nb\n"))
    assert (pairs.sources, pairs.targets) == (["a", "", "b"], None)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ((b"a\nb\nc\n", b"x\ny\n"), "same number of lines. Received: .*a.de has 3, .*a.en has 2"),
        ((b"", b""), "a.de: the file is empty"),
        ((b"\n \n", b"x\ny\n"), "a.de: all lines are blank"),
        ((b"a\n\xff\n", b"x\ny\n"), "a.de:2: not UTF-8"),
    ],
)
def test_bad_files(files, contents, message):
    with pytest.raises(ValueError, match=message):
        data.read(*files(*contents))


def test_blank_sides_are_left_out_and_named(files, caplog):
    pairs = data.read(*files(b"a\n\nc\nd\ne\nf\n", b"x\ny\n \n\n\nz\n"))
    kept = data.without_blank(pairs)
    assert (kept.sources, kept.targets, kept.lines) == (["a", "f"], ["x", "z"], [1, 6])
    assert "left out 4 pair(s) with an empty side, line(s) 2, 3, 4, ..." in caplog.text
    with pytest.raises(ValueError, match="all 1 pair\\(s\\) are left out: with an empty side"):
        data.without_blank(pairs.select([1]))

"""Lines of files and pipes."""

import gzip
import os
import threading
import tracemalloc

import pytest

from keras_bert.data import text_files


@pytest.mark.parametrize(
    "content",
    [b"a\r\nb\n\n", b"\xef\xbb\xbfa\rb", gzip.compress(b"a\nb\n" * 9000, mtime=0)],
    ids=["lines", "carriage_returns", "gzip"],
)
def test_pipes_are_read_once(tmp_path, content):
    os.mkfifo(tmp_path / "pipe")
    for read in (text_files.read_lines, text_files.stream_lines):
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[content])
        writer.start()
        lines = list(read(tmp_path / "pipe"))
        writer.join()
        assert lines == list(enumerate(["a", "b"] * (9000 if len(content) > 20 else 1), 1))


def test_lines_end_as_in_the_file(tmp_path):
    """LF and CRLF, or CR if there is no LF; blank lines at the end are none, unless they are asked for."""
    path = tmp_path / "a.txt"
    for content, expected in (
        (b"a\r\n\r\nb\rc\n \r\n\n", ["a\r\n", "\r\n", "b\rc\n"]),
        (b"a\n\nb\r", ["a\n", "\n", "b\r"]),
        (b"a\nb\rc", ["a\n", "b\rc"]),
        (b"a\rb\r\r", ["a\r", "b\r"]),
        ("a\u2028b\x0bc\n".encode(), ["a\u2028b\x0bc\n"]),
        (b"", []),
        (b"\n\r\n", []),
    ):
        path.write_bytes(content)
        assert list(text_files.stream_text(path)) == expected
        assert "".join(text_files.stream_text(path, blank_end=True)).encode() == content


def test_a_file_that_is_not_there_has_a_similar_name_beside_it(tmp_path):
    (tmp_path / "reviews.csv").touch()
    with pytest.raises(ValueError, match=r"revews.csv: no such file. Did you mean .*reviews.csv\?$"):
        text_files.check_file(tmp_path / "revews.csv")
    for path in (tmp_path / "fehlt.csv", tmp_path / "none" / "reviews.csv"):
        assert text_files.no_such_file(path) == f"{path}: no such file"


def test_a_pipe_is_no_file_of_rows(tmp_path):
    os.mkfifo(tmp_path / "rows.csv")
    with pytest.raises(ValueError, match=r"rows.csv is a pipe or a device. Expected a file"):
        text_files.check_file(tmp_path / "rows.csv")


def test_a_text_that_begins_with_nul_is_no_utf_16(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\0\0one line\ntwo\n")
    assert text_files.decoded(path.read_bytes(), path.name) == "\0\0one line\ntwo\n"


def test_lines_across_blocks(tmp_path, monkeypatch):
    """Lines, places of errors and the end of the content do not depend on where the file is cut to be read."""
    path = tmp_path / "a.txt"
    content = "\ufeffé\r\n\n  \nüü a\n\n \n".encode()
    path.write_bytes(content)
    expected = ["é\r\n", "\n", "  \n", "üü a\n"]
    for size in range(1, len(content) + 1):
        monkeypatch.setattr(text_files, "BLOCK_BYTES", size)
        path.write_bytes(content)
        assert list(text_files.stream_text(path)) == expected
        path.write_bytes(content + b"a\xff\n")
        lines = text_files.stream_text(path)
        with pytest.raises(ValueError, match="a.txt:7: not UTF-8, byte 0xff at position 1"):
            list(lines)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.txt"])
def test_gzip_that_expands_without_end_takes_no_memory(tmp_path, monkeypatch, name):
    """The bound of a line and of a file is named; those below it are read."""
    monkeypatch.setattr(text_files, "LARGEST", 1 << 20)
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * (1 << 28) + b"]"))
    read = {"a.json": text_files.whole}.get(name, lambda path: list(text_files.stream_lines(path)))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"{name}.gz.* more than .* MiB") as error:
            read(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value)
    assert most < 1 << 26
    path.write_bytes(gzip.compress(b"[" + b" " * 1000 + b"]"))
    read(path)

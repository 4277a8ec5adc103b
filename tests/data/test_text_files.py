"""Lines of files and pipes."""

import gzip
import os
import threading

import pytest

from keras_bert.data import text_files


@pytest.mark.parametrize("content", [b"a\r\nb\n\n", b"\xef\xbb\xbfa\rb", gzip.compress(b"a\nb\n" * 9000)])
def test_pipes_are_read_once(tmp_path, content):
    os.mkfifo(tmp_path / "pipe")
    for read in (text_files.read_lines, text_files.stream_lines):
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[content])
        writer.start()
        lines = list(read(tmp_path / "pipe"))
        writer.join()
        assert lines == list(enumerate(["a", "b"] * (9000 if len(content) > 20 else 1), 1))

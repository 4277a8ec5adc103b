"""Parallel files: their lines, and what is wrong with them."""

import pytest

from keras_bert.translation import data, task
from keras_bert.translation.run import open_vocabulary


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


def test_bleu_of_texts_without_spaces():
    """Of eight characters, the last one is wrong: 7, 6, 5 and 4 of 8, 7, 6 and 5 n-grams are right."""
    score, signature = task.bleu(["一二三四五六七九"], ["一二三四五六七八"], "zh")
    assert score == pytest.approx(100 * (7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** 0.25)
    assert "tok:zh" in signature
    assert task.bleu(["一二三四五六七九"], ["一二三四五六七八"])[0] == 0


@pytest.mark.tensorflow
def test_a_vocabulary_is_learned_until_a_run_has_begun(tmp_path):
    for name, text in (("a", "one two\nthree\n"), ("b", "two one\nthree three\n")):
        (tmp_path / name).write_text(text)
    pairs = data.read(tmp_path / "a", tmp_path / "b")
    folder = tmp_path / "run"
    vocabulary = open_vocabulary(None, pairs, 280, folder)
    learned = (folder / "vocab.txt").read_text()
    (folder / "vocab.txt").write_text(f"{learned}more\n")  # Not learned anew, since nothing has changed.
    assert open_vocabulary(None, pairs, 280, folder).pieces == (*vocabulary.pieces, "more")
    assert open_vocabulary(folder / "vocab.txt", pairs, 1, tmp_path / "other").pieces[-1] == "more"
    assert open_vocabulary(None, pairs, 281, folder).pieces == vocabulary.pieces
    (folder / "runs").mkdir()
    message = "contains a run with another vocabulary: `vocab_size` was 281, is 282. Choose another `output_dir`"
    with pytest.raises(ValueError, match=message):
        open_vocabulary(None, pairs, 282, folder)

import gzip
import itertools
import random
from collections import Counter

import pytest
import tensorflow as tf

from keras_bert.corpus import word_counts
from keras_bert.corpus.word_counts import count_words

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def corpus(tmp_path):
    rng = random.Random(0)
    for name, lines in (("a.txt", 300), ("b.txt", 40), ("c.txt", 1)):
        text = "\n".join(" ".join(rng.choices(["low", "lower", "newest"], k=rng.randint(0, 9))) for _ in range(lines))
        (tmp_path / name).write_text(text)
    return tmp_path


def words_of(*files):
    return Counter(word for file in files for word in file.read_text().split())


def test_words_are_those_of_the_tokenizer(tmp_path):
    (tmp_path / "a.txt").write_text("\ufeffDon't!\r\nÉTÉ 中文\n\n  don \u2028 T", encoding="utf-8")
    counts, held_out = count_words([tmp_path / "a.txt"])
    assert counts == {"don": 2, "'": 1, "t": 2, "!": 1, "ete": 1, "中": 1, "文": 1}
    assert held_out == {}
    assert set(count_words([tmp_path / "a.txt"], strip_accents=False)[0]) - set(counts) == {"été"}
    assert set(count_words([tmp_path / "a.txt"], lowercase=False)[0]) - set(counts) == {"Don", "ÉTÉ", "T"}


def test_bytes_that_are_no_text_are_dropped(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\xff\xfe b\x00\xc3\n\xed\xa0\x80c \x80\x80\x80\x80\x80")
    assert count_words([tmp_path / "a.txt"])[0] == {"a": 1, "b": 1, "c": 1}


def test_a_glob_a_list_and_packed_files(corpus):
    files = sorted(corpus.glob("*.txt"))
    expected = words_of(*files)
    (corpus / "deep").mkdir()
    (corpus / "deep" / "d.txt").write_text("deep")
    assert count_words(str(corpus / "*.txt"))[0] == expected
    assert count_words(corpus / "*.txt")[0] == expected
    assert count_words(corpus / "**" / "*.txt")[0] == expected + Counter(["deep"])
    for file in files:
        (corpus / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    assert count_words(corpus / "*.gz")[0] == expected


@pytest.mark.parametrize("size", [1, 7, 100, 2000])
def test_parts_of_a_file_meet_at_line_ends(corpus, monkeypatch, size):
    monkeypatch.setattr(word_counts, "_PART", size)
    (corpus / "d.txt").write_text("low\n\n\nlower\n")
    files = [corpus / name for name in ("b.txt", "c.txt", "d.txt")]
    assert count_words(files)[0] == words_of(*files)


def test_two_processes_and_any_order_of_files_count_the_same(corpus, monkeypatch):
    monkeypatch.setattr(word_counts, "_PART", 1000)
    files = sorted(corpus.glob("*.txt"))
    lines = []
    one = count_words(files, held_out_every=10, progress=lines.append)
    two = count_words(files[::-1], held_out_every=10, processes=2)
    assert one == two
    assert sum(one, Counter()) == words_of(*files)
    assert lines[-1].endswith(f"of {len(lines)}: 3 distinct words")


def test_every_so_many_lines_are_held_out(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(map(str, range(1, 11))))
    counts, held_out = count_words([tmp_path / "a.txt"], held_out_every=3)
    assert set(held_out) == {"3", "6", "9"}
    assert set(counts) == {"1", "2", "4", "5", "7", "8", "10"}


@pytest.mark.parametrize("packed", [False, True])
def test_text_without_line_breaks_comes_in_short_pieces(tmp_path, monkeypatch, packed):
    batches = []

    def splitter(lines):
        batches.append([len(line) for line in lines.numpy()])
        return tf.strings.split(lines)

    monkeypatch.setattr(word_counts, "_splitter", lambda *_: splitter)
    monkeypatch.setattr(word_counts, "_PART", 1_000_000)
    words = [f"word{index % 1000}" for index in range(400_000)]
    text = " ".join(words).encode()
    path = tmp_path / ("a.gz" if packed else "a.txt")
    path.write_bytes(gzip.compress(text, 1) if packed else text)
    assert count_words([path])[0] == Counter(words)
    assert max(itertools.chain(*batches)) <= 1024
    assert max(map(sum, batches)) < 2**18 + 1024


def test_text_without_spaces_is_cut_between_characters(tmp_path):
    (tmp_path / "a.txt").write_text("中文" * 5000, encoding="utf-8")
    assert count_words([tmp_path / "a.txt"])[0] == {"中": 5000, "文": 5000}


def test_errors(corpus, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none/\*: no file matches"):
        count_words(tmp_path / "none" / "*")
    (corpus / "empty").write_text("")
    (corpus / "blank").write_text(" \n\n")
    for name in ("empty", "blank"):
        with pytest.raises(ValueError, match=f"{name}: there are no words"):
            count_words(corpus / name)
    with pytest.raises(FileNotFoundError, match="none"):
        count_words([tmp_path / "none"])
    whole = gzip.compress(b"low " * 100)
    broken = {"text.gz": b"no archive", "short.gz": whole[:-9], "bad.gz": whole[:12] + b"~~~~" + whole[16:]}
    for name, content in broken.items():
        (corpus / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name}: not a whole .gz file: "):
            count_words([corpus / name])
    with pytest.raises(ValueError, match="`held_out_every` must be at least 2. Received: held_out_every=1"):
        count_words([corpus / "a.txt"], held_out_every=1)
    with pytest.raises(ValueError, match="`processes` must be at least 1. Received: processes=0"):
        count_words([corpus / "a.txt"], processes=0)

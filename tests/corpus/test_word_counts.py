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
    for name, count in (("a.txt", 300), ("b.txt", 40), ("c.txt", 1)):
        lines = [" ".join(rng.choices(["low", "lower", "newest"], k=rng.randint(0, 9))) for _ in range(count)]
        (tmp_path / name).write_text("\n".join(lines))
    return tmp_path


def words_of(*files):
    counts = Counter()
    for file in files:
        counts.update(file.read_text().split())
    return counts


def test_words_match_the_tokenizer(tmp_path):
    (tmp_path / "a.txt").write_text("\ufeffDon't!\r\nÉTÉ 中文\n\n  don \u2028 T", encoding="utf-8")
    counts, held_out = count_words([tmp_path / "a.txt"])
    assert counts == {"don": 2, "'": 1, "t": 2, "!": 1, "ete": 1, "中": 1, "文": 1}
    assert held_out == {}
    with_accents, _ = count_words([tmp_path / "a.txt"], strip_accents=False)
    assert with_accents.keys() - counts.keys() == {"été"}
    with_capitals, _ = count_words([tmp_path / "a.txt"], lowercase=False)
    assert with_capitals.keys() - counts.keys() == {"Don", "ÉTÉ", "T"}


@pytest.mark.parametrize("size", [1, 7, 2000])
def test_files_are_split_at_line_ends(corpus, monkeypatch, size):
    monkeypatch.setattr(word_counts, "_PART", size)
    (corpus / "d.txt").write_text("low\n\n\nlower\n")
    (corpus / "e.txt.gz").write_bytes(gzip.compress(b"low\nnewest\n" * 50))  # Longer than its file.
    files = [corpus / name for name in ("b.txt", "c.txt", "d.txt")]
    assert count_words(corpus / "[bcde].*")[0] == words_of(*files) + Counter(["low", "newest"] * 50)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_counts_do_not_depend_on_file_order_or_processes(corpus, monkeypatch, processes):
    monkeypatch.setattr(word_counts, "_PART", 1000)
    files = sorted(corpus.glob("*.txt"))
    lines = []
    counts = count_words(files, held_out_every=10, progress=lines.append)
    assert counts == count_words(files[::-1], held_out_every=10, processes=processes)
    assert sum(counts, Counter()) == words_of(*files)
    assert lines[-1].endswith(f"of {len(lines)}: 3 distinct words")


def test_lines_that_are_held_out(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(map(str, range(1, 11))))
    counts, held_out = count_words([tmp_path / "a.txt"], held_out_every=3)
    assert set(held_out) == {"3", "6", "9"}
    assert set(counts) == {"1", "2", "4", "5", "7", "8", "10"}


def test_text_without_line_breaks_is_split(tmp_path, monkeypatch):
    batches = []

    def splitter(lines):
        batches.append([len(line) for line in lines.numpy()])
        return tf.strings.split(lines)

    monkeypatch.setattr(word_counts, "_splitter", lambda *_: splitter)
    words = [f"word{index % 1000}" for index in range(80_000)]
    (tmp_path / "a.txt").write_text(" ".join(words))
    assert count_words([tmp_path / "a.txt"])[0] == Counter(words)
    assert max(itertools.chain(*batches)) <= 1024
    assert max(map(sum, batches)) < 2**18 + 1024


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" \n\n", "coded: the files contain no words"),
        (b"Wein.\n\xdcbung.\n", "coded:2: not UTF-8"),
        (b"a\0", "coded: a binary or UTF-16 file"),
    ],
)
def test_files_that_are_refused(tmp_path, content, message):
    (tmp_path / "coded").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        count_words(tmp_path / "coded")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        count_words([tmp_path / "none"])


def test_numbers_that_are_refused():
    with pytest.raises(ValueError, match="held_out_every"):
        count_words([], held_out_every=1)
    with pytest.raises(ValueError, match="processes"):
        count_words([], processes=0)

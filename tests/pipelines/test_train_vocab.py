"""Tests of the command-line program."""

import resource
import shlex

import pytest

from keras_bert import Vocabulary
from tests.pipelines.programs import call, mistake

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.train_vocab"


def test_vocabulary_of_a_small_corpus(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # The 100th and the 200th of the 200 lines are held out.
    (tmp_path / "a.txt").write_text("Low low lower lowest.\n" * 200)
    files = ["--input=*.txt", "--output=deep/er/vocab.txt"]
    printed = call(PROGRAM, *files, "--vocab_size=15", "--unused=0")
    assert (tmp_path / "deep" / "er" / "vocab.txt").read_text().split() == [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        *(".", "l", "##e", "##o", "##r", "##s", "##t", "##w", "low", "lowest"),
    ]
    # A line has 5 words; only "lower" is split into several pieces: "low", "##e", "##r".
    report, command = printed.split("next:")
    assert report.splitlines() == [
        "deep/er/vocab.txt: 15 tokens",
        "learned from: 990 words, 1.4000 tokens per word, 0.000% unknown, 80.00% whole words",
        "held out: 10 words, 1.4000 tokens per word, 0.000% unknown, 80.00% whole words",
    ]
    flags = ["--input=*.txt", "--vocabulary=deep/er/vocab.txt", "--output_dir=data/128"]
    words = shlex.split(command.replace("\\\n", ""))
    assert words[-4:] == ["pipelines.create_pretraining_data", *flags]
    assert capsys.readouterr().err == ""


def test_cased_vocabulary_with_a_held_out_file(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("Low low\n" * 200)
    (tmp_path / "b.txt").write_text("low Low slow")
    files = ["--input=a.txt", "--held_out=b.txt", "--output=vocab.txt"]
    printed = call(PROGRAM, *files, "--nolowercase", "--vocab_size=9999")
    assert Vocabulary(tmp_path / "vocab.txt").pieces[-6:] == ("L", "l", "##o", "##w", "Low", "low")
    assert "the corpus gives a vocabulary of only 110 tokens instead of 9,999: 104 special" in caplog.text
    assert "\nheld out: 3 words, 1.0000 tokens per word, 33.333% unknown, 66.67% whole words\n" in printed
    assert "--nolowercase" in printed.partition("\nnext: ")[2]


def test_a_full_disk_keeps_the_old_vocabulary(tmp_path, monkeypatch):
    """The limit on the size of files stands in for a disk that is full."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("Low low lower lowest.\n" * 200)
    (tmp_path / "vocab.txt").write_text("old\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
    try:
        message = mistake(PROGRAM, "--input=a.txt", "--output=vocab.txt", "--vocab_size=120")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert message == f"[Errno 27] File too large, nothing was written: '{tmp_path}/vocab.txt'"
    assert (tmp_path / "vocab.txt").read_text() == "old\n"


def test_extended_vocabulary(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("Low low lower lowest.\n" * 200)
    special = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, ".", "l", "##e", "##o", "##r", "##s", "##t", "##w"]
    Vocabulary(pieces).save(tmp_path / "vocab.txt")
    flags = ["--input=a.txt", "--extend=vocab.txt", "--output=vocab.txt"]
    assert "vocab.txt: 15 tokens, 2 of them new\n" in call(PROGRAM, *flags, "--vocab_size=15")
    assert Vocabulary(tmp_path / "vocab.txt").pieces == ("[PAD]", "low", *pieces[2:], "lowest")

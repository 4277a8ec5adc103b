"""Complete runs: independence of shards and processes, resuming interrupted runs, and errors."""

import collections
import concurrent.futures
import gzip
import json
import os
import pathlib
import shutil

import numpy as np
import pytest

from keras_bert.corpus import processes
from keras_bert.pretraining import generation as module
from keras_bert.pretraining.example_builder import Settings
from keras_bert.pretraining.generation import generate
from keras_bert.pretraining.masking import Masking
from tests.pretraining import numbered
from tests.pretraining.numbered import FIRST, PAD, Numbered, random_documents

LENGTH = 24
SOURCE = Numbered(random_documents(4, documents=30, sentences=12, words=7))
SETTINGS = {
    "pairs": Settings(LENGTH),
    "static": Settings(LENGTH, static=True, duplicates=2),
    "rows": Settings(LENGTH, next_sentence=False, duplicates=2),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return numbered.write(tmp_path_factory.mktemp("corpus") / "a.txt", SOURCE.text)


@pytest.fixture(scope="module")
def wholes(corpus, tmp_path_factory):
    """Returns folders of uninterrupted runs, by settings."""
    folder = tmp_path_factory.mktemp("wholes")
    for name, settings in SETTINGS.items():
        generate(corpus, folder / name, SOURCE.pieces, settings, shards=5)
    return folder


def records(folder):
    return collections.Counter(numbered.records(folder))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def without_paths(manifest):
    paths = ("input", "content", "files", "shards", "compressed")
    return {name: value for name, value in manifest.items() if name not in paths}


@pytest.mark.parametrize(("name", "shards"), [("pairs", 40), ("static", 7)])
def test_examples_do_not_depend_on_shards(corpus, wholes, tmp_path, name, shards):
    manifest = generate(corpus, tmp_path, SOURCE.pieces, SETTINGS[name], shards=shards)
    assert records(tmp_path) == records(wholes / name)
    assert without_paths(manifest) == without_paths(json.loads((wholes / name / "manifest.json").read_text()))
    assert [file["name"] for file in manifest["files"]] == sorted(path.name for path in tmp_path.glob("examples-*"))
    assert len(manifest["files"]) == shards


def test_examples_do_not_depend_on_files_or_line_ends(wholes, tmp_path):
    parts = SOURCE.text.split("\n\n")
    numbered.write(tmp_path / "0.txt", "\n\n\n" + "\n \t\n\n".join(parts[:7]))
    numbered.write(tmp_path / "1.gz", "\n\n".join(parts[7:20]))
    numbered.write(tmp_path / "2.txt", "")
    numbered.write(tmp_path / "3.txt", "\r\n\r\n".join(part.replace("\n", " \r\n") for part in parts[20:]))
    generate(tmp_path / "*.*", tmp_path / "data", SOURCE.pieces, SETTINGS["pairs"], shards=3)
    assert records(tmp_path / "data") == records(wholes / "pairs")
    lines = [json.dumps({"body": part}) for part in parts]
    numbered.write(tmp_path / "a.jsonl", "\n".join(lines))
    settings = Settings(LENGTH, format="jsonl", field="body")
    generate([str(tmp_path / "a.jsonl")], tmp_path / "json", SOURCE.pieces, settings, compress=True)
    assert records(tmp_path / "json") == records(wholes / "pairs")


def test_rows_contain_all_text_once_per_pass(wholes):
    ids = numbered.arrays(wholes / "rows")["input_ids"]
    assert set(np.bincount(ids.ravel())[FIRST:]) == {2}
    assert len({tuple(row) for row in ids}) == len(ids)  # No row occurs in two passes.
    assert (ids == PAD).any(1).sum() <= 2 * 2 * 5  # Two rows of each shard and pass may be padded.


def test_passes_and_seeds_differ(corpus, wholes, tmp_path):
    generate(corpus, tmp_path / "two", SOURCE.pieces, Settings(LENGTH, duplicates=2), shards=1)
    generate(corpus, tmp_path / "seed", SOURCE.pieces, Settings(LENGTH, seed=2), shards=1)
    one, two, other = (records(folder) for folder in (wholes / "pairs", tmp_path / "two", tmp_path / "seed"))
    second = two - one
    assert second + one == two
    # Other passes and other seeds give different pairs, except for some short documents.
    for found in (second, other):
        assert 0.7 < found.total() / one.total() < 1.4
        assert (found & one).total() < 0.1 * one.total()


@pytest.mark.slow
def test_two_processes_write_identical_files(corpus, tmp_path, monkeypatch):
    class Workers(processes.Workers):
        """Waits for the other process, so that both run some of the jobs."""

        def run(self, job, items):
            concurrent.futures.wait(self.starting)
            return super().run(job, items)

    arguments = {"vocabulary": SOURCE.pieces, "settings": SETTINGS["static"], "shards": 20}
    generate(corpus, tmp_path / "one", **arguments)
    jobs = []
    builder = module.builder_of_process
    monkeypatch.setattr(module.processes, "Workers", Workers)
    monkeypatch.setattr(module, "builder_of_process", lambda *arguments: jobs.append(arguments) or builder(*arguments))
    generate(corpus, tmp_path / "two", **arguments, workers=2)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    assert 0 < len(jobs) < 40  # The others ran in the other process.


# Interrupted runs.


class Interrupted(Exception):
    pass


def stop_at(line):
    def progress(found):
        if found == line:
            raise Interrupted

    return progress


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("pairs", "tokenized 2 of 5 shards"),
        ("static", "wrote 2 of 5 shards"),
        ("pairs", "wrote 5 of 5 shards"),
    ],
)
def test_interrupted_runs_resume(corpus, wholes, tmp_path, name, line):
    arguments = {"vocabulary": SOURCE.pieces, "settings": SETTINGS[name], "shards": 5}
    with pytest.raises(Interrupted):
        generate(corpus, tmp_path, **arguments, progress=stop_at(line))
    assert not (tmp_path / "manifest.json").exists()
    kind, count = line.split()[:2]
    before = {path: path.stat() for path in tmp_path.rglob("*") if path.name.startswith(("examples", "tokens"))}
    assert sum(path.suffix == ".tfrecord" for path in before) == (int(count) if kind == "wrote" else 0)
    # Files left by an unfinished shard.
    for path in ("examples-00004-of-00005.tfrecord", "tokens-00004.ids", "tokens-00004.segments"):
        path = tmp_path / "unfinished" / path
        if path not in before:
            path.write_bytes(b"half of")
    lines = []
    now = {}

    def progress(found):
        lines.append(found)
        now.update({path: path.stat() for path in before})

    generate(corpus, tmp_path, **arguments, progress=progress)
    expected = [f"tokenized {number} of 3 shards" for number in (1, 2, 3)] if kind == "tokenized" else []
    left = 5 - int(count) if kind == "wrote" else 5
    assert lines == expected + [f"wrote {number} of {left} shards" for number in range(1, left + 1)]
    assert contents(tmp_path) == contents(wholes / name)
    # Finished files are not modified.
    for path, stat in now.items():
        assert (stat.st_mtime_ns, stat.st_ino) == (before[path].st_mtime_ns, before[path].st_ino)


def test_finished_folders_are_not_modified(corpus, tmp_path):
    lines = []
    arguments = {"vocabulary": SOURCE.pieces, "settings": SETTINGS["pairs"], "shards": 2}
    manifest = generate(corpus, tmp_path, **arguments, progress=lines.append)
    assert lines == [
        "tokenized 1 of 2 shards",
        "tokenized 2 of 2 shards",
        "wrote 1 of 2 shards",
        "wrote 2 of 2 shards",
    ]
    # Files left by a run that was interrupted before its last step.
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "settings.json").write_text("{}")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in tmp_path.glob("*.*")}
    assert generate(corpus, tmp_path, **arguments, progress=lines.append) == json.loads(json.dumps(manifest))
    assert len(lines) == 4
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("finished", [True, False])
def test_other_settings_and_changed_files_are_rejected(tmp_path, finished):
    corpus = numbered.write(tmp_path / "a.txt", SOURCE.text)
    arguments = {"vocabulary": SOURCE.pieces, "settings": SETTINGS["pairs"], "shards": 2}
    if finished:
        generate(corpus, tmp_path / "data", **arguments)
    else:
        with pytest.raises(Interrupted):
            generate(corpus, tmp_path / "data", **arguments, progress=stop_at("wrote 1 of 2 shards"))
    before = contents(tmp_path / "data") if finished else None
    changes = {
        "vocabulary": {"vocabulary": [*SOURCE.pieces, "more"]},
        "recipe": {"settings": Settings(LENGTH, seed=2)},
        "shards": {"shards": 3},
        "recipe, compressed": {"compress": True, "settings": Settings(LENGTH, masking=Masking(0.2))},
    }
    message = "data contains data from different settings or input files: {}. Expected the same ones to resume, or"
    for names, change in changes.items():
        with pytest.raises(ValueError, match=message.format(names)):
            generate(corpus, tmp_path / "data", **arguments | change)
    for text, names in ((SOURCE.text + "more", "input, content"), (SOURCE.text[:-2] + "?\n", "content")):
        corpus.write_text(text)
        with pytest.raises(ValueError, match=message.format(names)):
            generate(corpus, tmp_path / "data", **arguments)
    corpus.write_text(SOURCE.text)
    generate(corpus, tmp_path / "data", **arguments)
    assert before is None or contents(tmp_path / "data") == before


# Errors, and unusual texts.


def test_empty_corpora(tmp_path):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "marks.txt").write_text("\u200b\n\n\ufeff\n \n\r\n\t\n")
    (tmp_path / "empty.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "rows.jsonl").write_text('{"text": ""}\n{"text": " "}\n')
    pairs = SETTINGS["pairs"]
    rows = SETTINGS["rows"]
    jsonl = Settings(LENGTH, format="jsonl")
    for pattern, settings, kind, message in (
        ("none*", pairs, FileNotFoundError, "no file matches"),
        ("empty.txt", pairs, ValueError, "the corpus is empty"),
        ("*.[tg]*", pairs, ValueError, "the corpus contains no text"),
        ("marks.txt", rows, ValueError, "the corpus contains no text"),
        ("rows.jsonl", jsonl, ValueError, "rows.jsonl: the corpus contains no text"),
    ):
        with pytest.raises(kind, match=message):
            generate(tmp_path / pattern, tmp_path / "data", SOURCE.pieces, settings, shards=2)


def test_single_document(tmp_path):
    """The suggested fix can use the same folder."""
    path = numbered.write(tmp_path / "a.txt", SOURCE.text.replace("\n\n", "\n"))
    message = "a.txt: the corpus is one document, .* by blank lines, set `format` to jsonl, or turn off `next_sentence`"
    with pytest.raises(ValueError, match=message):
        generate(path, tmp_path / "data", SOURCE.pieces, SETTINGS["pairs"])
    manifest = generate(path, tmp_path / "data", SOURCE.pieces, Settings(LENGTH, next_sentence=False), shards=1)
    assert manifest["corpus"]["documents"] == 1
    assert manifest["tokens"] == len(SOURCE.pieces) - FIRST + 2 * manifest["examples"]


def test_errors_in_the_text_do_not_block_the_folder(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(SOURCE.text.encode() + "\nÜbung\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"a.txt:\d+: not UTF-8: b'\\xdcbung'"):
        generate(path, tmp_path / "data", SOURCE.pieces, SETTINGS["pairs"])
    path.write_text(SOURCE.text)
    generate(path, tmp_path / "data", SOURCE.pieces, SETTINGS["pairs"])
    assert not (tmp_path / "data" / "unfinished").exists()


def test_corpora_without_examples_or_predictions(tmp_path):
    message = r"the corpus has no token to predict: all are \[UNK\]. Expected a vocabulary"
    with pytest.raises(ValueError, match=message):
        module.summary(collections.Counter(examples=2, tokens=9, unknown=4), SETTINGS["static"])
    (tmp_path / "b.txt").write_text("a\n\nb\n")
    settings = Settings(LENGTH, seed=7)
    pieces = [*SOURCE.pieces[:FIRST], "a", "b"]  # With this seed no B is random.
    with pytest.raises(ValueError, match="^no examples in the corpus: its texts are single words. Expected longer"):
        generate(tmp_path / "b.txt", tmp_path / "data", pieces, settings, shards=2)


def test_disk_space_is_checked_first(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 2_000_000))
    text = numbered.write(tmp_path / "a.txt", SOURCE.text * 300)
    size = text.stat().st_size / 1e6
    message = rf"not enough disk space in {tmp_path}/data: {size * 2.5:,.0f} MB are needed, 2 MB are free"
    with pytest.raises(OSError, match=message):
        generate(text, tmp_path / "data", SOURCE.pieces, SETTINGS["static"])
    # The folder remains usable with other settings, and a small corpus fits.
    generate(corpus, tmp_path / "data", SOURCE.pieces, SETTINGS["pairs"], shards=1)


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("file", ["tokens-00003.ids", "examples-00003-of-00005.tfrecord"])
def test_full_disk(corpus, tmp_path, file):
    (tmp_path / "unfinished").mkdir()
    os.symlink("/dev/full", tmp_path / "unfinished" / file)
    with pytest.raises(OSError, match="the disk is full; run again to resume, finished shards are kept"):
        generate(corpus, tmp_path, SOURCE.pieces, SETTINGS["pairs"], shards=5)


def test_invalid_settings():
    for options, message in (
        ({"sequence_length": 7}, "`sequence_length` must be at least 8. Received: sequence_length=7"),
        ({"sequence_length": 128.0}, "`sequence_length` must be at least 8. Received: sequence_length=128.0"),
        ({"duplicates": 0}, "`duplicates` must be at least 1. Received: duplicates=0"),
        ({"seed": -1}, "`seed` must be at least 0. Received: seed=-1"),
        ({"short_seq_prob": 1.5}, "`short_seq_prob` must be from 0 to 1. Received: short_seq_prob=1.5"),
        ({"format": "lines"}, "`format` must be one of sentences, paragraphs, jsonl. Received: format='lines'"),
    ):
        with pytest.raises(ValueError, match=message):
            Settings(**options)


def test_invalid_arguments(corpus, tmp_path):
    for options, message in (
        ({"shards": -1}, "`shards` and `workers` must be at least 1. Received: shards=-1, workers="),
        ({"workers": -1}, "`shards` and `workers` must be at least 1. Received: shards=.*, workers=-1"),
        ({"vocabulary": SOURCE.pieces[:4] + SOURCE.pieces[5:]}, r"the vocabulary has no piece '\[MASK\]'"),
        ({"vocabulary": "none.txt"}, "none.txt: there is no such vocabulary file"),
        ({"output": __file__}, "test_generation.py"),
    ):
        arguments = {"output": tmp_path, "vocabulary": SOURCE.pieces, "settings": SETTINGS["pairs"], **options}
        with pytest.raises((ValueError, OSError), match=message):
            generate(corpus, **arguments)

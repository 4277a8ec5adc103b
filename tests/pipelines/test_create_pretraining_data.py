"""Tests of the command-line program."""

import json
import re

import pytest

from keras_bert import Vocabulary
from tests.pipelines.programs import call, flags_of, write_jsonl
from tests.pretraining.numbered import Numbered, random_documents

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.create_pretraining_data"
SOURCE = Numbered(random_documents(5, documents=20, sentences=12, words=7))


@pytest.fixture
def folder(tmp_path):
    """A folder with `vocab.txt` and `a.txt`."""
    Vocabulary(SOURCE.pieces).save(tmp_path / "vocab.txt")
    (tmp_path / "a.txt").write_text(SOURCE.text)
    return tmp_path


MASKING = {
    "masked_lm_prob": 0.2,
    "max_predictions": 5,
    "whole_word": True,
    "max_ngram": 2,
    "mask_share": 0.7,
    "random_share": 0.2,
}
RECIPE = {
    "sequence_length": 32,
    "next_sentence": True,
    "static": True,
    "duplicates": 2,
    "short_seq_prob": 0.3,
    "seed": 7,
    "field": "body",
    "lowercase": False,
    "strip_accents": True,
}


def test_all_flags(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    documents = SOURCE.text.split("\n\n")
    write_jsonl(folder / "a.jsonl", [{"body": document} for document in documents])
    files = {
        "input": "*.jsonl",
        "format": "jsonl",
        "vocabulary": "vocab.txt",
        "output_dir": "deep/er",
        "shards": 3,
        "processes": 1,
        "compress": True,
    }
    printed = call(PROGRAM, *flags_of(MASKING | RECIPE | files))
    output = folder / "deep" / "er"
    manifest = json.loads((output / "manifest.json").read_text())
    stored = {"masking": MASKING, "format": "jsonl", "special_tokens": True}
    assert manifest["recipe"] == RECIPE | stored
    assert sorted(path.name for path in output.iterdir()) == [
        "examples-00000-of-00003.tfrecord.gz",
        "examples-00001-of-00003.tfrecord.gz",
        "examples-00002-of-00003.tfrecord.gz",
        "manifest.json",
        "vocab.txt",
    ]
    facts = {"examples", "tokens", "corpus", "random_share", "mask_share", "padding_share"}
    assert facts <= set(manifest)
    told, place, command = printed.split("\n", 2)
    assert told.startswith(f"data:         deep/er: {manifest['examples']} examples of 20 documents, ")
    assert told.endswith(f" unknown; {manifest['padding_share']:.2%} padding")
    assert place == "statistics:   deep/er/manifest.json"
    # Long commands are printed on several lines.
    one_line = " ".join(command.replace("\\\n", "").split())
    assert re.match("next: .* -m pipelines.run_pretraining", one_line)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_defaults_and_inspection(folder, monkeypatch):
    monkeypatch.chdir(folder)
    flags = ["--input=*.txt", "--vocabulary=vocab.txt", "--output_dir=data", "--sequence_length=16"]
    printed = call(PROGRAM, *flags)
    manifest = json.loads((folder / "data" / "manifest.json").read_text())
    assert manifest["recipe"]["duplicates"] == 1
    assert manifest["shards"] == 16
    assert printed.startswith("data:         data: ")
    printed = call(PROGRAM, "--inspect=2", "--output_dir=data")
    assert printed.startswith("example 1: ")
    assert printed.count("\n  A: [CLS] ") == printed.count("\n  B: ") == 2

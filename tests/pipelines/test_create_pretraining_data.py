"""Tests of the command-line program."""

import json
import re

import pytest

from keras_bert import Vocabulary
from tests.pipelines.programs import call, flags_of
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


def test_all_flags(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    rows = "\n".join(json.dumps({"body": document}) for document in SOURCE.text.split("\n\n"))
    (folder / "a.jsonl").write_text(rows)
    masking = {"masked_lm_prob": 0.2, "max_predictions": 5, "whole_word": True, "max_ngram": 2}
    masking |= {"mask_share": 0.7, "random_share": 0.2}
    recipe = {"sequence_length": 32, "next_sentence": True, "static": True, "duplicates": 2, "short_seq_prob": 0.3}
    recipe |= {"seed": 7, "field": "body", "lowercase": False, "strip_accents": True}
    files = {"input": "*.jsonl", "format": "jsonl", "vocabulary": "vocab.txt", "output_dir": "deep/er", "shards": 3}
    printed = call(PROGRAM, *flags_of({**masking, **recipe, **files, "processes": 1, "compress": True}))
    manifest = json.loads((folder / "deep" / "er" / "manifest.json").read_text())
    assert manifest["recipe"] == {**recipe, "masking": masking, "format": "jsonl", "special_tokens": True}
    assert {path.name for path in (folder / "deep" / "er").iterdir()} == {
        *("manifest.json", "vocab.txt"),
        *(f"examples-0000{shard}-of-00003.tfrecord.gz" for shard in range(3)),
    }
    assert {"examples", "tokens", "corpus", "random_share", "mask_share", "padding_share"} <= set(manifest)
    told, place, command = printed.split("\n", 2)
    assert told.startswith(f"data:         deep/er: {manifest['examples']} examples of 20 documents, ")
    assert told.endswith(f" unknown; {manifest['padding_share']:.2%} padding")
    assert place == "statistics:   deep/er/manifest.json"
    # Long commands are printed on several lines.
    assert re.match("next: .* -m pipelines.run_pretraining", " ".join(command.replace("\\\n", "").split()))
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

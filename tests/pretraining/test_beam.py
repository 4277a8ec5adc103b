"""Apache Beam generates the same examples as one machine. Tests with Beam are slow: only `make slow` has it."""

import collections
import gzip
import json
import random
import sys

import pytest
import tensorflow as tf

from keras_bert.pretraining import token_store
from keras_bert.pretraining.beam import generate_with_beam
from keras_bert.pretraining.dataset import Records, find_damage
from keras_bert.pretraining.example_builder import Settings
from keras_bert.pretraining.generation import generate
from keras_bert.pretraining.masking import Masking
from tests.pipelines.programs import finish, start

# What DirectRunner falls back to if it cannot download another program.
RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
PROCESSES = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]  # They share only files.
PROGRAM = "pipelines.create_pretraining_data"
FLAGS = ["--vocabulary=vocab.txt", "--output_dir=out"]
SETTINGS = {
    "pairs with masks": (
        Settings(sequence_length=24, static=True, duplicates=3, masking=Masking(0.3, whole_word=True, max_ngram=2)),
        {"shards": 5},
    ),
    "one shard": (Settings(sequence_length=32, short_seq_prob=0.5, duplicates=2), {"shards": 1}),
    "packed rows with masks": (
        Settings(sequence_length=16, next_sentence=False, static=True, duplicates=2),
        {"shards": 3, "compress": True},
    ),
}


@pytest.fixture(scope="module")
def beam():
    return pytest.importorskip("apache_beam", reason="needs Apache Beam, see `make beam`")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Writes 60 documents of random words to three files, and returns a glob pattern."""
    folder = tmp_path_factory.mktemp("text")
    rng = random.Random(1)

    def word():
        return "".join(rng.choices("abcdefgh", k=rng.randint(1, 4)))

    def sentence():
        return " ".join(word() for _ in range(rng.randint(1, 12)))

    def document():
        return "".join(f"{sentence()}\n" for _ in range(rng.randint(1, 9)))

    documents = [document() for _ in range(60)]
    (folder / "a.txt").write_text("\n".join(documents[:30]))
    (folder / "b.txt").write_text("\n\n" + "\n\n".join(documents[30:50]))
    (folder / "c.txt.gz").write_bytes(gzip.compress("\n".join(documents[50:]).encode()))
    return str(folder / "*")


def count_records(folder, manifest):
    """Counts how often each record occurs in a folder."""
    records = collections.Counter()
    for file in manifest["files"]:
        path = folder / file["name"]
        compression = "GZIP" if path.suffix == ".gz" else ""
        found = list(tf.data.TFRecordDataset(str(path), compression).as_numpy_iterator())
        assert len(found) == file["examples"]
        assert path.stat().st_size == file["bytes"]
        records.update(found)
    return records


def check_same(folder, other):
    """Checks that two folders differ at most in the distribution of records over files, and returns the manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    expected = json.loads((other / "manifest.json").read_text())
    assert manifest | {"files": None} == expected | {"files": None}
    assert [file["name"] for file in manifest["files"]] == [file["name"] for file in expected["files"]]
    assert count_records(folder, manifest) == count_records(other, expected)
    assert (folder / "vocab.txt").read_bytes() == (other / "vocab.txt").read_bytes()
    return manifest


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_examples_equal_those_of_one_machine(beam, text, pieces, tmp_path, monkeypatch, name):
    monkeypatch.setattr(token_store, "BLOCK", 200)  # So that shards have several plans and long documents are split.
    settings, options = SETTINGS[name]
    generate(text, tmp_path / "local", pieces, settings, workers=1, **options)
    generate_with_beam(text, tmp_path / "beam", pieces, settings, runner=RUNNER, **options)
    manifest = check_same(tmp_path / "beam", tmp_path / "local")
    assert manifest["examples"] > 50
    records = Records(tmp_path / "beam", batch_size=8)
    weights = [weights.numpy().sum() for _, _, weights in records.dataset()]
    assert records.static == settings.static
    assert sum(weights) == manifest["examples"]
    assert find_damage(tmp_path / "beam") is None
    left = {path.name for path in (tmp_path / "beam").iterdir()}
    assert left == {"manifest.json", "vocab.txt", *(file["name"] for file in manifest["files"])}


@pytest.mark.slow
def test_finished_run_is_kept_and_rejects_other_settings(beam, text, pieces, tmp_path):
    manifest = generate_with_beam(text, tmp_path, pieces, Settings(), runner=RUNNER, shards=2)
    # The runner is not used.
    assert generate_with_beam(text, tmp_path, pieces, Settings(), runner="no runner", shards=2) == manifest
    assert generate(text, tmp_path, pieces, Settings(), shards=2) == manifest
    with pytest.raises(ValueError, match="recipe, shards"):
        generate_with_beam(text, tmp_path, pieces, Settings(seed=2), runner=RUNNER, shards=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "next_sentence", "message"),
    [
        (b" \n\n \n", False, "the corpus contains no text$"),
        (b"a b\n\nc \xff\n\nd e\n", True, "a.txt:3: .*`iconv -f latin1 -t utf-8`$"),
        (b"a\n\nb\n", True, "^no examples in the corpus"),
    ],
)
def test_invalid_corpora(beam, pieces, tmp_path, content, next_sentence, message):
    (tmp_path / "a.txt").write_bytes(content)
    settings = Settings(next_sentence=next_sentence, seed=7)  # With this seed no B is random.
    with pytest.raises(ValueError, match=message):
        generate_with_beam(tmp_path / "a.txt", tmp_path / "out", pieces, settings, runner=RUNNER, shards=2)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.slow
def test_errors_of_other_processes(beam, pieces, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a b\nc d\n")
    with pytest.raises(ValueError, match="a.txt: .*`next_sentence`$"):
        generate_with_beam(
            tmp_path / "a.txt",
            tmp_path / "out",
            pieces,
            Settings(),
            runner=RUNNER,
            pipeline_options=PROCESSES[:1],
            shards=2,
        )


def test_missing_beam(text, pieces, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(ValueError, match="pip install apache-beam"):
        generate_with_beam(text, tmp_path, pieces, Settings())


@pytest.mark.slow
def test_command_with_two_processes(beam, text, pieces, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    options = [
        f"--runner={RUNNER}",
        f"--beam_options={','.join(PROCESSES)}",
        "--static",
        "--duplicates=1",
        "--shards=4",
    ]
    stdout, _ = finish(start(PROGRAM, f"--input={text}", *FLAGS, *options, cwd=tmp_path))
    assert "\nstatistics:   out/manifest.json\n" in stdout
    generate(text, tmp_path / "local", pieces, Settings(static=True), shards=4)
    check_same(tmp_path / "out", tmp_path / "local")

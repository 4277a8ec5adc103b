"""The text of a study."""

import pytest

pytest.importorskip("tensorflow")

from research.studies.corpus import Corpus, StudyData
from research.studies.definitions import Recipe
from research.studies.scales import SCALES
from tests.pipelines.programs import read_json

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def folder(tmp_path):
    """A folder with three files of text."""
    for name in ("b.txt", "a.txt", "c.txt"):
        (tmp_path / name).write_text("low low lower.\nlow lowest.\n\nlower low.\nlow.\n")
    (tmp_path / "folder.txt").mkdir()
    return tmp_path


def test_the_last_file_is_held_out(folder):
    train, held_out = Corpus(f"{folder}/*.txt").files()
    assert [path.name for path in train] == ["a.txt", "b.txt"]
    assert [path.name for path in held_out] == ["c.txt"]


def test_held_out_text_of_other_files(folder):
    train, held_out = Corpus(f"{folder}/a.txt", f"{folder}/[bc].txt").files()
    assert [path.name for path in train] == ["a.txt"]
    assert [path.name for path in held_out] == ["b.txt", "c.txt"]


def test_a_single_file(folder):
    with pytest.raises(ValueError, match="--data=.*a.txt: a single file. .* or --eval_data"):
        Corpus(f"{folder}/a.txt").files()


def test_no_file(folder):
    with pytest.raises(FileNotFoundError, match="none.*: no file matches"):
        Corpus(f"{folder}/none*").files()


@pytest.mark.parametrize(("special_tokens", "suffix"), [(True, ""), (False, "_plain")])
def test_folders_of_records(folder, special_tokens, suffix):
    data = StudyData(Corpus("*.txt"), SCALES["demo"], folder)
    assert data.records(128, special_tokens) == folder / "data" / f"128{suffix}"
    assert data.records("held_out", special_tokens) == folder / "data" / f"held_out{suffix}"


def test_the_vocabulary_that_is_given(folder):
    data = StudyData(Corpus("*.txt", vocabulary="v.txt"), SCALES["demo"], folder)
    assert data.vocabulary == "v.txt"


def test_what_recipes_need_is_written(folder):
    """A vocabulary, and records of the length of the scale with special tokens and without them."""
    data = StudyData(Corpus(f"{folder}/*.txt"), SCALES["demo"], folder / "out")
    data.prepare([Recipe(), Recipe(next_sentence=False, causal=True, special_tokens=False)])
    assert "low" in data.vocabulary.read_text().splitlines()
    for name in (32, "held_out"):
        for special_tokens in (True, False):
            manifest = read_json(data.records(name, special_tokens) / "manifest.json")
            assert manifest["recipe"]["sequence_length"] == 32
            assert manifest["recipe"]["special_tokens"] == special_tokens
            assert manifest["recipe"]["next_sentence"] == special_tokens

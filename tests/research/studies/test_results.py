"""The files with the results of a study."""

import dataclasses

import pytest

pytest.importorskip("tensorflow")

from keras_bert.files import write_json
from research.studies.results import write_results
from research.studies.runner import StudyRunner
from research.studies.scales import SCALES
from tests.pipelines.programs import read_json
from tests.research.studies.small_study import COLUMNS, DEFINITION, score

pytestmark = pytest.mark.tensorflow

SETTING = {"learning_rate": 3e-4, "epochs": 3}
FIRST_LINE = "Models: L-4_H-128. Pre-training: 50 steps of 32 x 32 tokens."


@pytest.fixture
def runner(tmp_path):
    """The runner of a study with the scores of two rows on one task."""
    mrpc, _ = COLUMNS
    for row, mean in (("bert", 0.8), ("no_nsp", 0.7)):
        content = score(mean) | {"heading": dataclasses.asdict(mrpc), "setting": SETTING}
        write_json(tmp_path / "finetuning" / row / "mrpc" / "scores.json", content)
    return StudyRunner(DEFINITION, SCALES["demo"], [], None, tmp_path)


def test_the_text(runner, tmp_path):
    """A table, and a list of what it was made with, of differences and of notes."""
    text = write_results(runner, tmp_path)
    assert (tmp_path / "results.md").read_text() == f"{text}\n"
    assert text.startswith("# A study\n")
    assert "| No NSP | 70.0 |" in text
    assert "| BERT, published | 86.7 |" in text
    assert f"- {FIRST_LINE}\n" in text
    assert "- No NSP against BERT: MRPC -10.0." in text


def test_the_scores(runner, tmp_path):
    write_results(runner, tmp_path)
    results = read_json(tmp_path / "results.json")
    assert results["study"] == "A study"
    assert results["scores"]["bert"]["mrpc"]["mean"] == 0.8
    assert results["perplexities"] == {}


def test_the_note_of_a_study_stands_below_published_scores(tmp_path, runner):
    definition = dataclasses.replace(DEFINITION, note="Published on test.")
    noted = StudyRunner(definition, SCALES["demo"], [], None, tmp_path)
    assert "Published on test." in write_results(noted, tmp_path)
    assert "Published on test." not in write_results(runner, tmp_path)


def test_the_report_has_the_settings_of_each_row(runner, tmp_path):
    write_results(runner, tmp_path, seconds=60)
    page = (tmp_path / "report.html").read_text()
    assert "<title>A study" in page
    assert "learning_rate=0.0003, epochs=3" in page
    assert "learning rate of pre-training" in page

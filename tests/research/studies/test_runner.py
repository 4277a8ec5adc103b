"""The runner of a study: what is left to run, and the scores in its folder."""

import dataclasses

import pytest

pytest.importorskip("tensorflow")

from keras_bert.files import write_json
from research.studies.columns import Heading
from research.studies.definitions import Row
from research.studies.runner import StudyRunner
from research.studies.scales import SCALES
from tests.research.studies.small_study import COLUMNS, DEFINITION, score

pytestmark = pytest.mark.tensorflow


def write_scores(folder, row, column, mean):
    """Writes finished scores of a row and a task."""
    content = score(mean) | {"heading": dataclasses.asdict(column)}
    write_json(folder / "finetuning" / row / column.name / "scores.json", content)


def runner(folder, definition=DEFINITION, **options):
    return StudyRunner(definition, SCALES["demo"], [], None, folder, **options)


def test_scores_of_other_tasks_and_rows_are_kept(tmp_path):
    mrpc, squad = COLUMNS
    write_scores(tmp_path, "bert", mrpc, 0.8)
    write_scores(tmp_path, "no_nsp", squad, 0.5)
    ltr = runner(tmp_path, rows=["ltr"])
    scores = ltr.scores()
    assert scores.keys() == {"bert", "no_nsp"}
    assert list(scores["bert"]) == ["mrpc"]
    assert scores["no_nsp"]["squad"]["mean"] == 0.5
    assert ltr.headings(scores) == COLUMNS
    assert ltr.shown == {"bert", "no_nsp", "ltr"}


def test_headings_have_the_order_of_the_study(tmp_path):
    mrpc, squad = COLUMNS
    scores = {"bert": {}}
    for column in (squad, Heading("rte", "RTE", "accuracy", None, None), mrpc):
        scores["bert"][column.name] = {"heading": dataclasses.asdict(column)}
    names = [heading.name for heading in runner(tmp_path).headings(scores)]
    assert names == ["mrpc", "squad", "rte"]


def test_unfinished_recipes(tmp_path):
    """Rows with equal recipes share one; a row that is only published has none."""
    published = Row("human", "Human", None, {"squad": 91.2})
    definition = dataclasses.replace(DEFINITION, rows=(*DEFINITION.rows, published))
    recipes, pairs = runner(tmp_path, definition).unfinished()
    assert recipes == [DEFINITION.rows[0].recipe]
    assert pairs == []


def test_no_perplexities_before_a_pre_training_is_finished(tmp_path):
    assert runner(tmp_path).perplexities() == {}

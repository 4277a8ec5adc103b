"""Studies as data, and their tables."""

import dataclasses

import pytest

pytest.importorskip("tensorflow")

from keras_bert.config import named_config
from keras_bert.files import write_json
from research.studies import tables
from research.studies.columns import Heading
from research.studies.definitions import STUDIES, TASKS, Recipe, Row, StudyDefinition, define
from research.studies.runner import StudyRunner
from research.studies.scales import SCALES

pytestmark = pytest.mark.tensorflow

COLUMNS = [Heading("mrpc", "MRPC", "accuracy", None, None), Heading("squad", "SQuAD", "f1", 2000, None)]
DEFINITION = StudyDefinition(
    "A study",
    (Row("bert", "BERT", published={"mrpc": 86.7}), Row("no_nsp", "No NSP"), Row("ltr", "LTR")),
    ("mrpc", "squad"),
    ("mrpc",),
)


def found(mean, deviation, runs, majority=None):
    return {"mean": mean, "deviation": deviation, "runs": runs, "majority": majority}


SCORES = {
    "bert": {"mrpc": found(0.80, 0.03, 9), "squad": found(0.5, 0, 1)},
    "no_nsp": {"mrpc": found(0.788, 0.04, 16, 0.6838), "squad": found(float("nan"), 0, 1)},
}


def test_scores_beside_the_published_ones():
    perplexities = {"bert": 20.5, "no_nsp": 21.0}
    ours = tables.score_rows(DEFINITION, COLUMNS, SCORES, perplexities)
    published = tables.published_rows(DEFINITION, COLUMNS, perplexities)
    assert tables.markdown(tables.heads(COLUMNS, perplexities), [*ours, *published]).splitlines() == [
        "| row | perplexity | MRPC (accuracy) | SQuAD (f1) |",
        "|---|---|---|---|",
        "| BERT | 20.50 | 80.0 ± 3.0 | 50.0 |",
        "| No NSP | 21.00 | 78.8 ± 4.0 | diverged |",
        "| majority baseline |  | 68.4 |  |",
        "| BERT, published |  | 86.7 |  |",
    ]
    notes = " ".join(tables.notes(COLUMNS, SCORES, perplexities))
    assert "over 1 to 16 seeds" in notes
    assert "SQuAD: at most 2,000 training examples." in notes


def test_differences_and_their_standard_errors():
    # The squared errors of the means are 0.03 ** 2 / 9 = 0.01 ** 2 and 0.04 ** 2 / 16 = 0.01 ** 2.
    assert tables.differences(DEFINITION, COLUMNS, SCORES) == ["No NSP against BERT: MRPC -1.2 ± 1.4."]
    one = {key: {"mrpc": found(mean, 0, 1)} for key, mean in (("bert", 0.5), ("no_nsp", 0.625))}
    assert tables.differences(DEFINITION, COLUMNS, one) == ["No NSP against BERT: MRPC +12.5."]
    assert tables.differences(DEFINITION, COLUMNS, {"ltr": one["bert"]}) == []


def test_scores_of_other_tasks_and_rows_are_kept(tmp_path):
    for row, task, score in (("bert", "mrpc", 0.8), ("no_nsp", "squad", 0.5)):
        heading = next(dataclasses.asdict(column) for column in COLUMNS if column.name == task)
        write_json(tmp_path / "finetuning" / row / task / "scores.json", {**found(score, 0, 1), "heading": heading})
    runner = StudyRunner(DEFINITION, SCALES["demo"], [], None, tmp_path, rows=["ltr"])
    scores = runner.scores()
    assert {row: list(tasks) for row, tasks in scores.items()} == {"bert": ["mrpc"], "no_nsp": ["squad"]}
    assert runner.headings(scores) == COLUMNS


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("paper_scale", [True, False])
def test_definitions_are_complete(study, paper_scale):
    definition = define(study, paper_scale)
    assert len({row.key for row in definition.rows}) == len(definition.rows)
    recipes = {row.recipe for row in definition.rows} - {None}
    assert len({recipe.folder for recipe in recipes}) == len(recipes)
    assert set(definition.tasks) <= set(TASKS)
    for recipe in recipes:
        if recipe.size:
            assert named_config(recipe.size).hidden_size
    for scale in SCALES.values():
        assert named_config(scale.config)
        assert all(scale.recipe(task).epochs for task in definition.tasks)


def test_folders_of_recipes():
    for folder, changes in (
        ("bert", {}),
        ("ltr", {"next_sentence": False, "causal": True}),
        ("mask-80-20-0", {"mask_share": 0.8, "random_share": 0.0}),
        ("none_tiny", {"positions": "none", "size": "tiny"}),
    ):
        assert Recipe(**changes).folder == folder

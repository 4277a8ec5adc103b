"""Studies as data."""

import pytest

pytest.importorskip("tensorflow")

from keras_bert.config import named_config
from research.studies.definitions import STUDIES, TASKS, Recipe, Row, StudyDefinition, define

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("paper_scale", [True, False])
def test_definitions_are_complete(study, paper_scale):
    """Keys and folders differ; tasks and sizes are known."""
    definition = define(study, paper_scale)
    keys = [row.key for row in definition.rows]
    assert len(set(keys)) == len(keys)
    folders = [recipe.folder for recipe in definition.recipes]
    assert len(set(folders)) == len(folders)
    assert set(definition.tasks) <= set(TASKS)
    for recipe in definition.recipes:
        if recipe.size:
            assert named_config(recipe.size).hidden_size


@pytest.mark.parametrize(
    ("folder", "changes"),
    [
        ("bert", {}),
        ("bilm", {"bilm": True, "next_sentence": False}),
        ("ltr", {"next_sentence": False, "causal": True}),
        ("ltr_plain", {"next_sentence": False, "causal": True, "special_tokens": False}),
        ("no_nsp", {"next_sentence": False}),
        ("mask-80-20-0", {"mask_share": 0.8, "random_share": 0.0}),
        ("none_tiny", {"positions": "none", "size": "tiny"}),
    ],
)
def test_folders_of_recipes(folder, changes):
    assert Recipe(**changes).folder == folder


@pytest.mark.parametrize(
    ("row", "is_built"),
    [
        (Row("a", "A"), True),
        (Row("a", "A", None), False),
        (Row("a", "A", None, recurrent=True), True),
    ],
    ids=["pre-trained", "published", "recurrent"],
)
def test_rows_that_are_built(row, is_built):
    assert row.is_built == is_built


def test_recipes_have_the_shares_of_the_steps_of_their_rows():
    causal = Recipe(next_sentence=False, causal=True)
    rows = (
        Row("all", "All"),
        Row("half", "Half", share=0.5),
        Row("ltr", "LTR", causal),
        Row("published", "Published", None),
    )
    definition = StudyDefinition("A study", rows, (), ())
    assert definition.recipes == {Recipe(): {1.0, 0.5}, causal: {1.0}}
    assert list(definition.recipes) == [Recipe(), causal]


def test_small_scales_have_other_sizes_and_tasks():
    """Google's miniatures in place of the models of the paper."""
    definition = define("model_size", paper_scale=False)
    assert [row.key for row in definition.rows][:2] == ["L-2_H-128", "L-4_H-128"]
    assert definition.tasks == ("mrpc", "sst2")

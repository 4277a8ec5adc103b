"""Published scores beside ours."""

import types

import pytest

pytest.importorskip("tensorflow")

import keras_bert
from keras_bert.reports.comparisons import compared
from keras_bert.tasks.classification import leaderboard
from keras_bert.tasks.tagging.task import TaggingTask
from research import published

pytestmark = pytest.mark.tensorflow


SCORES = {"mrpc": {"f1": 0.5}, "wnli": {"accuracy": 0.5}}
BASE_ENTRY = "mrpc: 88.9%"


@pytest.mark.parametrize(
    ("config", "names", "entry"),
    [
        (keras_bert.BERT_BASE, ["BERT BASE"], BASE_ENTRY),
        (keras_bert.BERT_TINY, ["BERT Tiny"], "mrpc: 81.1%, wnli: 62.3%"),
        (keras_bert.named_config("L-6_H-768"), ["BERT BASE", "BERT LARGE"], BASE_ENTRY),
        (
            types.SimpleNamespace(num_hidden_layers=2, hidden_size=128),
            ["BERT BASE", "BERT LARGE"],
            BASE_ENTRY,
        ),
    ],
    ids=["base", "tiny", "another size", "another model"],
)
def test_the_row_of_the_same_size(config, names, entry):
    facts, (table,) = published.glue(SCORES, config)
    assert list(facts) == [f"{name}, test" for name in names]
    assert facts[f"{names[0]}, test"] == entry
    assert table.count("\n") == 3 + len(names)


def test_a_task_without_published_scores():
    assert published.glue({"mine": {"f1": 0.5}}, keras_bert.BERT_BASE) == ({}, [])


def last_cells(scores, config):
    """Returns the cells of the last row of the table of GLUE, without its name."""
    _, (table,) = published.glue(scores, config)
    return table.splitlines()[-1].removesuffix(" |").split(" | ")[1:]


def test_the_average_of_the_paper():
    scores = {}
    for name, task in leaderboard.TASKS.items():
        if name != "ax":
            scores[name] = {task.main_metric: 0.5}
    assert last_cells(scores, keras_bert.BERT_BASE) == [
        *("52.1", "93.5", "88.9", "85.8", "71.2", "84.6", "83.4", "90.5", "66.4", ""),
        "79.6",
    ]
    assert last_cells(scores, keras_bert.BERT_LARGE)[-1] == "82.1"


def test_squad():
    table = published.squad({"exact_match": 80.04, "f1": 88.06}).splitlines()
    assert table[0] == "| SQuAD 1.1 | exact match | F1 |"
    assert table[2:4] == ["| ours, dev | 80.0 | 88.1 |", "| BERT BASE, dev | 80.8 | 88.5 |"]
    assert table[-2] == "| BERT LARGE, TriviaQA first, ensemble of 7, dev | 86.2 | 92.2 |"
    table = published.squad({"exact": 1, "f1": 2}).splitlines()
    assert table[2:4] == ["| ours, dev | 1.0 | 2.0 |", "| BERT LARGE, dev | 78.7 | 81.9 |"]


def tagging_task(words, *kinds):
    """Returns a task with entities of these kinds, and this number of words in dev and in test."""
    examples = types.SimpleNamespace(words=[["a"] * words])
    part = types.SimpleNamespace(examples=examples)
    task = TaggingTask.__new__(TaggingTask)
    labels = ["O", *(f"B-{kind}" for kind in kinds)]
    vars(task).update(labels=labels, splits={"dev": [part], "test": [part]})
    return task


KINDS = ("LOC", "MISC", "ORG", "PER")


def test_named_entities_of_conll_2003():
    """The test file has another number of words."""
    facts, (table,) = compared(tagging_task(51_362, *KINDS), {"f1": 0.951}, {"f1": 0.5})
    assert facts == {}
    assert table.splitlines()[2:4] == ["| ours | 95.1 |  |", "| ELMo | 95.7 | 92.2 |"]


@pytest.mark.parametrize(("words", "kinds"), [(51_362, ["LOC"]), (9, KINDS)])
def test_other_named_entities(words, kinds):
    assert compared(tagging_task(words, *kinds), {"f1": 0.951}) == ({}, [])

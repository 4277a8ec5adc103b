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


def test_the_row_of_the_same_size():
    scores = {"mrpc": {"f1": 0.5}, "wnli": {"accuracy": 0.5}}
    for config, names, entry in (
        (keras_bert.BERT_BASE, ["BERT BASE"], "mrpc: 88.9%"),
        (keras_bert.BERT_TINY, ["BERT Tiny"], "mrpc: 81.1%, wnli: 62.3%"),
        (keras_bert.named_config("L-6_H-768"), ["BERT BASE", "BERT LARGE"], "mrpc: 88.9%"),
        (types.SimpleNamespace(num_hidden_layers=2, hidden_size=128), ["BERT BASE", "BERT LARGE"], "mrpc: 88.9%"),
    ):
        facts, (table,) = published.glue(scores, config)
        assert list(facts) == [f"{name}, test" for name in names]
        assert facts[f"{names[0]}, test"] == entry
        assert table.count("\n") == 3 + len(names)
    assert published.glue({"mine": {"f1": 0.5}}, keras_bert.BERT_BASE) == ({}, [])


def test_the_average_of_the_paper():
    scores = {name: {task.main_metric: 0.5} for name, task in leaderboard.TASKS.items() if name != "ax"}
    base = published.glue(scores, keras_bert.BERT_BASE)[1][0].splitlines()[-1]
    paper = ["52.1", "93.5", "88.9", "85.8", "71.2", "84.6", "83.4", "90.5", "66.4", "", "79.6 |"]
    assert base.split(" | ")[1:] == paper
    assert published.glue(scores, keras_bert.BERT_LARGE)[1][0].splitlines()[-1].endswith(" | 82.1 |")


def test_squad():
    table = published.squad({"exact_match": 80.04, "f1": 88.06}).splitlines()
    assert table[0] == "| SQuAD 1.1 | exact match | F1 |"
    assert table[2:4] == ["| ours, dev | 80.0 | 88.1 |", "| BERT BASE, dev | 80.8 | 88.5 |"]
    assert table[-2] == "| BERT LARGE, TriviaQA first, ensemble of 7, dev | 86.2 | 92.2 |"
    table = published.squad({"exact": 1, "f1": 2}).splitlines()
    assert table[2:4] == ["| ours, dev | 1.0 | 2.0 |", "| BERT LARGE, dev | 78.7 | 81.9 |"]


def test_named_entities_of_conll_2003():
    def task(words, *types_):
        part = types.SimpleNamespace(examples=types.SimpleNamespace(words=[["a"] * words]))
        found = TaggingTask.__new__(TaggingTask)
        vars(found).update(labels=["O", *(f"B-{name}" for name in types_)], splits={"dev": [part], "test": [part]})
        return found

    kinds = ("LOC", "MISC", "ORG", "PER")
    facts, (table,) = compared(task(51_362, *kinds), {"f1": 0.951}, {"f1": 0.5})
    assert facts == {}
    assert table.splitlines()[2:4] == ["| ours | 95.1 |  |", "| ELMo | 95.7 | 92.2 |"]  # The test file is another one.
    for other in (task(51_362, "LOC"), task(9, *kinds)):
        assert compared(other, {"f1": 0.951}) == ({}, [])

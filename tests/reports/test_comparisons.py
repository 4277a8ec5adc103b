"""Functions that compare the scores of a run with those of other systems."""

import pytest

from keras_bert.reports import comparisons


@pytest.fixture(autouse=True)
def _no_functions(monkeypatch):
    monkeypatch.setattr(comparisons, "COMPARISONS", [])


def test_without_functions_nothing_is_compared():
    assert comparisons.compared("task", {"f1": 0.5}) == ({}, [])


def test_entries_and_tables_of_all_functions_are_joined():
    @comparisons.register_comparison
    def with_paper(task, scores, test_scores):
        return {"paper": f"{task}: {scores['f1'] - 0.5}"}, ["| a |"]

    @comparisons.register_comparison
    def with_test(task, scores, test_scores):
        return {"test": str(test_scores)}, ["| b |", "| c |"]

    facts, tables = comparisons.compared("tags", {"f1": 0.75}, {"f1": 0.25})

    assert facts == {"paper": "tags: 0.25", "test": "{'f1': 0.25}"}
    assert tables == ["| a |", "| b |", "| c |"]


def test_a_definition_that_runs_again_replaces_the_earlier_one():
    for text in ("old", "new"):

        @comparisons.register_comparison
        def compare(task, scores, test_scores, text=text):
            return {"title": text}, [text]

    assert comparisons.compared("task", {}) == ({"title": "new"}, ["new"])

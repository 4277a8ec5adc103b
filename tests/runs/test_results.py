"""What is said of finished runs, with stand-ins of the runs."""

import types

import pytest

from keras_bert.runs.results import ResultsWriter, indented

FIRST = {"setting": {"seed": 1, "epochs": 3}, "scores": {"f1": 0.5}, "epoch": 2}
SECOND = {"setting": {"seed": 2, "epochs": 3}, "scores": {"f1": 0.25}, "epoch": 3}


def writer(results, best, keeps_best_epoch=True):
    """Returns the writer of finished runs, given all results and the best ones."""
    grid_runs = types.SimpleNamespace(results=results, best=lambda: best)
    finetuning = types.SimpleNamespace(
        task=None,
        grid_runs=grid_runs,
        output=None,
        hyperparameters=types.SimpleNamespace(best=keeps_best_epoch),
    )
    return ResultsWriter(finetuning)


def test_facts_about_a_single_run():
    facts = writer([FIRST], [FIRST]).best_facts("f1 50.00%")
    assert facts == {"settings": "seed=1, epochs=3", "scores on dev": "f1 50.00%; best epoch 2 of 3"}


def test_facts_about_the_best_of_several_runs():
    facts = writer([FIRST, SECOND], [FIRST], keeps_best_epoch=False).best_facts("f1 50.00%")
    assert facts == {"best run": "seed=1, epochs=3; epoch 2 of 3", "scores on dev": "f1 50.00%"}


def test_facts_about_an_ensemble():
    facts = writer([FIRST, SECOND], [FIRST, SECOND]).best_facts("f1 50.00%")
    assert facts["scores on dev"] == "f1 50.00% (ensemble of the 2 best runs)"


def test_scores_before_training_are_beside_those_after_it():
    compared = FIRST | {"before": {"f1": 0.125}}
    facts = writer([compared], [compared]).best_facts("f1 50.00%")
    assert list(facts) == ["settings", "scores before training", "scores on dev"]
    assert "12.50%" in facts["scores before training"]


def test_a_run_without_epochs_names_none():
    solved = {"setting": {"seed": 1}, "scores": {"f1": 0.5}}
    assert writer([solved], [solved]).best_facts("f1 50.00%")["scores on dev"] == "f1 50.00%"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a", ["  a"]),
        (f"{'a' * 60} {'b-c' * 20}", ["  " + "a" * 60, "    " + "b-c" * 20]),  # Names with hyphens stay whole.
    ],
)
def test_what_belongs_to_a_title_is_indented(text, lines):
    assert indented(text).splitlines() == lines

"""Folds of every task: groups stay together, and what is predicted of each row equals a plain loop over the folds."""

import csv

import numpy as np
import pytest
from scipy.special import log_softmax

pytest.importorskip("tensorflow")
from sklearn.model_selection import PredefinedSplit

import keras_bert
from keras_bert.data.splits import Folds, balance_groups
from keras_bert.data.task_data import Rows
from keras_bert.runs import cross_validation
from keras_bert.tasks.registry import TASKS
from tests.runs.fold_data import DATA, OPTIONS, TEXTS, WORDS

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


OFTEN = ("classification", "tagging")


NAMES = [
    pytest.param(task.name, marks=[] if task.name in OFTEN else pytest.mark.slow) for task in TASKS if task.name in DATA
]


@pytest.mark.parametrize("name", NAMES)
def test_folds_equal_a_plain_loop(name, checkpoint, tmp_path, monkeypatch):
    texts, targets = DATA[name]
    bert = keras_bert.load(checkpoint)
    finished = []
    run = cross_validation.CrossValidation.run

    def noted(self):
        finished.append(self)
        run(self)

    monkeypatch.setattr(cross_validation.CrossValidation, "run", noted)
    trained = bert.fit(texts, targets, task=name, folds=3, output_dir=tmp_path, **OPTIONS)
    (runs,) = finished
    fold_of_row = runs.grid_runs.assigned(1)
    assert sorted(set(fold_of_row.tolist())) == [1, 2, 3]
    assert trained.results["evaluated_on"] == "3-fold cross-validation"
    together = runs.grid_runs.logits("dev")
    sizes = runs.task.report.entries()
    starts = np.cumsum(sizes) - sizes
    scores = []
    for train, dev in PredefinedSplit(fold_of_row).split():
        # The same model without folds, in one process with other runs: nothing of them may be left.
        parts = []
        for rows in (train, dev):
            for values in (texts, targets):
                parts.append([values[row] for row in rows] if values else None)
        validation = parts[2] if targets is None else tuple(parts[2:])
        other = bert.fit(*parts[:2], task=name, validation=validation, **OPTIONS)
        scores.append(other.results["scores"][runs.task.report.metric])
        if name in ("classification", "regression", "multi_label", "multiple_choice"):
            logits = [answer["logits"] for answer in answers(other, parts[2], name)]
            for row, expected in zip(dev, logits, strict=True):
                found = together[key(name)][row][: len(expected)]
                if name == "multiple_choice":
                    found = log_softmax(found)
                np.testing.assert_allclose(found, expected, atol=2e-5)
        else:
            assert all(sizes[row] for row in dev)
    (best,) = {trained.results["scores"][runs.task.report.metric]}
    assert best == pytest.approx(np.mean(scores), abs=1e-6) or name in ("multi_label", "tagging", "embedding")
    assert len(next(iter(together.values()))) == sum(sizes) == starts[-1] + sizes[-1]
    table = (tmp_path / "out_of_fold.tsv").read_text()
    rows = list(csv.DictReader(table.splitlines(), dialect="excel-tab"))
    assert [int(row["fold"]) for row in rows] == fold_of_row.tolist()
    assert len({row["row"] for row in rows}) == len(texts)
    if name == "questions":
        assert [row["context"] for row in rows] == TEXTS
        assert [row["gold answers"] for row in rows] == targets
    if name == "multiple_choice":
        assert [row["text"] for row in rows] == TEXTS
    if name == "tagging":
        assert [row["text"] for row in rows] == TEXTS
        golds = []
        for words in WORDS:
            golds.append("; ".join(f"K: {word}" for word in words if word in "aeg"))
        assert [row["true"] for row in rows] == golds


def key(name):
    return "dev" if name == "multiple_choice" else name


def answers(bert, texts, name):
    if name != "multiple_choice":
        return bert.predict(texts, logits=True)
    probabilities = [np.array(answer["scores"]) for answer in bert.predict(texts)]
    return [{"logits": np.log(shares)} for shares in probabilities]


def test_a_document_is_in_one_fold():
    """Also with groups of the user."""
    rng = np.random.default_rng(3)
    documents = rng.integers(9, size=60).tolist()
    classes = rng.integers(3, size=60).tolist()

    class Documents(Rows):
        content = ("documents",)

        def strata(self):
            return classes

    rows = Documents()
    rows.documents = documents
    for folds in (Folds(3), Folds(3, documents), Folds(4, [str(number) for number in documents])):
        found = folds.assign(rows, 1)
        assert all(len(set(found[np.array(documents) == document])) == 1 for document in set(documents))
    sizes = np.bincount(balance_groups(documents, classes, 3, 1))[1:]
    assert sizes.max() - sizes.min() <= np.bincount(documents).max()
    assert balance_groups(documents, None, 3, 1).tolist() == balance_groups(documents, [0] * 60, 3, 1).tolist()


def test_numbers_of_numpy_are_folds():
    assert type(Folds(np.int64(3)).count) is int

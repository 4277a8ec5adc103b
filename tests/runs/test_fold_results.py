"""Files of a cross-validation."""

import csv
import types

import numpy as np
import pytest

pytest.importorskip("tensorflow")
import keras_bert
from keras_bert.runs.fold_results import FoldResultsWriter
from keras_bert.tasks.reporting import Findings
from tests.runs.fold_data import DATA, OPTIONS

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


def rows_of_authors():
    """Returns twelve rows, three of each author."""
    rows = []
    for row, (text, label) in enumerate(zip(*DATA["classification"], strict=True)):
        rows.append({"text": text, "label": label, "author": row // 3})
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("by_column", [True, False])
def test_an_author_is_in_one_fold(by_column, checkpoint, tmp_path):
    rows = [rows_of_authors()] if by_column else DATA["classification"]
    groups = "author" if by_column else [row // 3 for row in range(12)]
    keras_bert.load(checkpoint).fit(*rows, folds=2, groups=groups, output_dir=tmp_path, **OPTIONS)
    lines = (tmp_path / "out_of_fold.tsv").read_text().splitlines()
    folds = [line["fold"] for line in csv.DictReader(lines, dialect="excel-tab")]
    assert all(len(set(folds[first : first + 3])) == 1 for first in range(0, 12, 3))


class FoldsWithoutPredictions:
    """Finished runs of three rows in two folds, whose labels cannot be ranked."""

    def __init__(self, output):
        summary = Findings(measured={"f1": 0.5}, sections=["a section"], errors=[])
        report = types.SimpleNamespace(
            conclude=lambda dev, test, folder: summary,
            with_confidence=lambda findings, dev: findings,
            judge=lambda dev: None,
        )
        self.output = output
        self.task = types.SimpleNamespace(report=report)
        self.plan = types.SimpleNamespace(teacher=None, source=None)
        self.grid_runs = types.SimpleNamespace(
            logits=lambda split: {},
            chosen=lambda: {"seed": 7},
            assigned=lambda seed: np.array([2, 1, 2]) if seed == 7 else None,
        )

    def label_checks(self):
        raise ValueError("its loss has no value for each row")


def test_labels_that_cannot_be_ranked_are_a_fact_and_rows_have_their_fold(tmp_path):
    findings = FoldResultsWriter(FoldsWithoutPredictions(tmp_path)).find()
    assert findings.facts["rows to check"] == "none: its loss has no value for each row"
    assert findings.sections == ["a section"]
    lines = (tmp_path / "out_of_fold.tsv").read_text().splitlines()
    assert lines == ['"row"\t"fold"', "1\t2", "2\t1", "3\t2"]

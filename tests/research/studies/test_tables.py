"""The tables of studies."""

import pytest

pytest.importorskip("tensorflow")

from research.studies import tables
from tests.research.studies.small_study import COLUMNS, DEFINITION, score

pytestmark = pytest.mark.tensorflow

SCORES = {
    "bert": {"mrpc": score(0.80, 0.03, 9), "squad": score(0.5)},
    "no_nsp": {"mrpc": score(0.788, 0.04, 16, 0.6838), "squad": score(float("nan"))},
}
PERPLEXITIES = {"bert": 20.5, "no_nsp": 21.0}


def test_scores_beside_the_published_ones():
    ours = tables.score_rows(DEFINITION, COLUMNS, SCORES, PERPLEXITIES)
    published = tables.published_rows(DEFINITION, COLUMNS, PERPLEXITIES)
    heads = tables.heads(COLUMNS, PERPLEXITIES)
    assert tables.markdown(heads, [*ours, *published]).splitlines() == [
        "| row | perplexity | MRPC (accuracy) | SQuAD (f1) |",
        "|---|---|---|---|",
        "| BERT | 20.50 | 80.0 ± 3.0 | 50.0 |",
        "| No NSP | 21.00 | 78.8 ± 4.0 | diverged |",
        "| majority baseline |  | 68.4 |  |",
        "| BERT, published |  | 86.7 |  |",
    ]


def test_notes():
    notes = " ".join(tables.notes(COLUMNS, SCORES, PERPLEXITIES))
    assert "over 1 to 16 seeds" in notes
    assert "SQuAD: at most 2,000 training examples." in notes


def differences(scores):
    return tables.differences(DEFINITION, COLUMNS, scores)


def test_differences_and_their_standard_errors():
    """The squared errors of the means are 0.03 ** 2 / 9 = 0.01 ** 2 and 0.04 ** 2 / 16 = 0.01 ** 2."""
    assert differences(SCORES) == ["No NSP against BERT: MRPC -1.2 ± 1.4."]


def test_differences_of_single_runs():
    scores = {"bert": {"mrpc": score(0.5)}, "no_nsp": {"mrpc": score(0.625)}}
    assert differences(scores) == ["No NSP against BERT: MRPC +12.5."]


def test_no_differences_without_the_first_row():
    assert differences({"ltr": {"mrpc": score(0.5)}}) == []

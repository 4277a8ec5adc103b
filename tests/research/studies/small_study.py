"""A study of three rows and two tasks, and its scores."""

from research.studies.columns import Heading
from research.studies.definitions import Row, StudyDefinition

COLUMNS = [
    Heading("mrpc", "MRPC", "accuracy", None, None),
    Heading("squad", "SQuAD", "f1", 2000, None),
]
DEFINITION = StudyDefinition(
    "A study",
    (Row("bert", "BERT", published={"mrpc": 86.7}), Row("no_nsp", "No NSP"), Row("ltr", "LTR")),
    ("mrpc", "squad"),
    ("mrpc",),
)


def score(mean, deviation=0.0, runs=1, majority=None):
    """Returns the scores of a row and a task, as they are stored."""
    return {"mean": mean, "deviation": deviation, "runs": runs, "majority": majority}

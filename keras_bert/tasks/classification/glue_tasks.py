"""GLUE's tasks (Wang et al., 2019).

Label ids match TensorFlow Datasets and Hugging Face, so that models trained elsewhere are compatible.
"""

import dataclasses

from keras_bert.tasks.classification.data import Task
from keras_bert.training.metrics import accuracy, f1, matthews_correlation, pearson, spearman

LEARNING_RATES = (5e-5, 4e-5, 3e-5, 2e-5)  # The best on dev is selected (Devlin et al., 2019, section 4.1).


@dataclasses.dataclass(frozen=True)
class GlueTask(Task):
    """A GLUE task as defined by the server; `title` is also the name of the official folder.

    `tfds` and `tfds_columns` are the name and the text columns in TensorFlow Datasets, if different.
    """

    strings: tuple  # The labels in the official files; empty for regression.
    test_rows: int  # Number of rows of the test file.
    server_file: str  # Name of the submission file.
    majority: float  # The most frequent class id of the training data, or the mean for regression.
    header: tuple | None = None  # Columns of train and dev, if the files have no header.
    suffix: str = ""  # Of the names of the dev and test files.
    tfds: str | None = None
    tfds_columns: tuple | None = None
    learning_rates: tuple = dataclasses.field(default=LEARNING_RATES, kw_only=True)

    official = True

    @property
    def files(self):
        """The possible file names of each split, most common first."""
        if self.name == "ax":
            return {"test": ("diagnostic.tsv", "AX.tsv")}
        return {"train": ("train.tsv",), "dev": (f"dev{self.suffix}.tsv",), "test": (f"test{self.suffix}.tsv",)}


_01 = ("0", "1")
_TWO = ("entailment", "not_entailment")
_THREE = ("entailment", "neutral", "contradiction")
# fmt: off
_MNLI = GlueTask(
    "mnli", "MNLI", "sentence1", "sentence2", "gold_label", _THREE, (accuracy,),
    _THREE, 9796, "MNLI-m.tsv", 2,
    suffix="_matched", tfds="mnli", tfds_columns=("premise", "hypothesis"),
)
_TASKS = (
    GlueTask(
        "cola", "CoLA", "sentence", None, "label", ("unacceptable", "acceptable"), (matthews_correlation,),
        _01, 1063, "CoLA.tsv", 1,
        header=("source", "label", "star", "sentence"),
    ),
    GlueTask(
        "sst2", "SST-2", "sentence", None, "label", ("negative", "positive"), (accuracy,),
        _01, 1821, "SST-2.tsv", 1,
    ),
    GlueTask(
        "mrpc", "MRPC", "#1 String", "#2 String", "Quality", ("not_equivalent", "equivalent"), (f1, accuracy),
        _01, 1725, "MRPC.tsv", 1,
        tfds_columns=("sentence1", "sentence2"),
    ),
    GlueTask(
        "stsb", "STS-B", "sentence1", "sentence2", "score", (), (spearman, pearson),
        (), 1379, "STS-B.tsv", 2.701,
    ),
    GlueTask(
        "qqp", "QQP", "question1", "question2", "is_duplicate", ("not_duplicate", "duplicate"), (f1, accuracy),
        _01, 390965, "QQP.tsv", 0,
    ),
    _MNLI,
    # Other genres for the same model: only dev and test differ.
    dataclasses.replace(
        _MNLI, name="mnli_mismatched", suffix="_mismatched", test_rows=9847, server_file="MNLI-mm.tsv",
    ),
    GlueTask(
        "qnli", "QNLI", "question", "sentence", "label", _TWO, (accuracy,),
        _TWO, 5463, "QNLI.tsv", 1,
    ),
    GlueTask(
        "rte", "RTE", "sentence1", "sentence2", "label", _TWO, (accuracy,),
        _TWO, 3000, "RTE.tsv", 0,
    ),
    GlueTask(
        "wnli", "WNLI", "sentence1", "sentence2", "label", ("not_entailment", "entailment"), (accuracy,),
        _01, 146, "WNLI.tsv", 0,
    ),
    # The diagnostic set tests models trained on MNLI, so it has MNLI's majority class.
    dataclasses.replace(
        _MNLI, name="ax", title="diagnostic", metrics=(matthews_correlation,), test_rows=1104, server_file="AX.tsv",
        suffix="", tfds="ax",
    ),
)
# fmt: on
TASKS = {task.name: task for task in _TASKS}

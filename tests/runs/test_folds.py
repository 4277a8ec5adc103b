"""Folds of every task: groups stay together, and what is predicted of each row equals a plain loop over the folds."""

import csv
import json

import numpy as np
import pytest
from scipy.special import log_softmax

pytest.importorskip("tensorflow")
from sklearn.model_selection import PredefinedSplit

import keras_bert
from keras_bert.data.in_memory import column_names
from keras_bert.data.splits import Folds, balance_groups
from keras_bert.data.task_data import Rows
from keras_bert.runs import cross_validation, fit_data
from keras_bert.tasks.registry import TASKS

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
LETTERS = "abcdefghij"
TEXTS = [" ".join([*LETTERS[row % 5 : row % 5 + 3], LETTERS[(row * row) % 10], LETTERS[row % 7]]) for row in range(12)]
WORDS = [text.split() for text in TEXTS]
CHOICES = [{"text": text, "choices": ["k", "l m", "n"][: 2 + row % 2]} for row, text in enumerate(TEXTS)]
DATA = {
    "classification": (TEXTS, ["x", "y", "y"] * 4),
    "regression": (TEXTS, [row / 7 for row in range(12)]),
    "multi_label": (TEXTS, [["x"], ["x", "y"], [], ["y"]] * 3),
    "tagging": (WORDS, [["B-K" if word in "aeg" else "O" for word in words] for words in WORDS]),
    "questions": ([{"question": "a", "context": text} for text in TEXTS], [words[1] for words in WORDS]),
    "multiple_choice": (CHOICES, [row % 2 for row in range(12)]),
    "embedding": ([(text, f"{text} k {row}") for row, text in enumerate(TEXTS)], None),
}
OPTIONS = {"epochs": 1, "batch_size": 4, "learning_rate": 1e-3, "verbose": False}


OFTEN = ("classification", "tagging")
NAMES = [
    pytest.param(task.name, marks=[] if task.name in OFTEN else pytest.mark.slow) for task in TASKS if task.name in DATA
]


@pytest.mark.parametrize("name", NAMES)
def test_folds_equal_a_plain_loop(name, checkpoint, tmp_path, monkeypatch):
    texts, targets = DATA[name]
    bert, finished = keras_bert.load(checkpoint), []
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
            parts += [[values[row] for row in rows] if values else None for values in (texts, targets)]
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
        golds = ["; ".join(f"K: {word}" for word in words if word in "aeg") for words in WORDS]
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


def test_groups_that_cannot_be(checkpoint):
    bert = keras_bert.load(checkpoint)
    for options, message in (
        ({"groups": "author"}, "`groups` are those of a cross-validation. Expected `folds`, too, such as folds=5"),
        (
            {"folds": 2, "groups": "writer"},
            "`groups` must be a column of `texts`, or a list. Received: groups='writer'",
        ),
        ({"folds": 2, "groups": [1, 2]}, "`groups` must have a value for each of 12 rows. Received: 2 values"),
        ({"folds": 13}, "`folds` must be from 2 to the number of different texts, 12: expected fewer"),
        ({"folds": 2, "validation_split": 0.5}, "`folds` and `validation` exclude each other. Received: both"),
    ):
        with pytest.raises(ValueError) as error:
            bert.fit(rows_of_authors(), **options, **OPTIONS)
        assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "classes",
    [["x", "z"], *(pytest.param(names, marks=pytest.mark.slow) for names in (["x", "y"], ["a", "b", "c"]))],
    ids="-".join,
)
def test_folds_of_models_that_learn_other_rows_before(classes, checkpoint, tmp_path):
    """Each fold does; a head with other classes does not go on."""
    texts, targets = DATA["classification"]
    before = [f"{text} k" for text in texts], [classes[row % len(classes)] for row in range(len(texts))]
    bert = keras_bert.load(checkpoint).fit(texts, targets, folds=2, intermediate=before, output_dir=tmp_path, **OPTIONS)
    assert len([*tmp_path.rglob("before_1")]) == 3  # Of two folds, and of the model to keep.
    assert bert.labels == ["x", "y"]


def test_folds_are_checked_before_the_first_one(checkpoint, tmp_path):
    tags = [["B-K", *["O"] * (len(words) - 1)] if not row else ["O"] * len(words) for row, words in enumerate(WORDS)]
    with pytest.raises(ValueError, match=r"fold \d of 2: .*nothing to learn.*Expected fewer folds, or more rows"):
        keras_bert.load(checkpoint).fit(WORDS, tags, folds=2, output_dir=tmp_path, **OPTIONS)
    assert not [*tmp_path.rglob("metrics.jsonl")]


NLI = {"premise": ["a", "a", "b", "b"], "hypothesis": ["c", "d", "e", "f"], "label": ["x", "y", "x", "y"]}
AUTHORS = {"text": ["a", "b", "c", "d"], "author": [1, 1, 2, 2], "label": ["x", "y", "x", "y"]}
CONTEXTS = {"question": ["a", "b"], "context": ["c d", "c d"], "answers": ["c", "d"]}


@pytest.mark.parametrize("kind", ["frame", "table", "dicts"])
@pytest.mark.parametrize(
    ("columns", "targets", "groups", "kept"),
    [
        (NLI, "label", "premise", {"premise", "hypothesis", "label"}),
        (AUTHORS, "label", "author", {"text", "label"}),
        (AUTHORS, "label", "text", {"text", "author", "label"}),
        (AUTHORS, "label", "label", {"text", "author", "label"}),
        (CONTEXTS, None, "context", {"question", "context", "answers"}),
        ({"review": ["a", "b"], "label": ["x", "y"]}, "label", "review", {"review", "label"}),
        ({"text": ["a", "b"], "score": [1, 2], "label": ["x", "y"]}, "label", "score", {"text", "label"}),
    ],
)
def test_columns_of_groups_stay_texts_by_their_names(kind, columns, targets, groups, kept):
    """Others are left out."""
    if kind == "frame":
        texts = pytest.importorskip("pandas").DataFrame(columns)
    elif kind == "table":
        texts = pytest.importorskip("pyarrow").table(columns)
    else:
        texts = iter([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
    found, values = fit_data.without_groups(texts, groups, targets)
    assert set(column_names(found)) == kept
    assert values == columns[groups]
    if groups == "premise":
        data = fit_data.read_data(found, targets, None, None, None, 1)
        assert {len(row) for _, row in data.train.values} == {3}
        assert data.task.name == "classification"


def as_series(values, **options):
    pandas = pytest.importorskip("pandas")
    return pandas.Series(values, **options)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: list(np.array([1, 1, 2])), [1, 1, 2]),
        (lambda: (name for name in "aab"), ["a", "a", "b"]),
        (lambda: np.array([b"a", b"b"]), ["a", "b"]),
        (lambda: [True, 2.5, ("a", 1), "\ud800"], [True, "2.5", "('a', 1)", "?"]),
        (lambda: np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), ["2020-01-01", "2020-01-02"]),
        (lambda: as_series(["2020-01-01"], dtype="datetime64[ns]"), ["2020-01-01 00:00:00"]),
        (lambda: as_series([1, 2], dtype="Int64", index=[7, 3]), [1, 2]),
        (lambda: as_series([3, None], dtype="Int64"), "`groups[1]` is missing. Expected a group for each text"),
        (lambda: ["a", "b", "c", float("nan")], "`groups[3]` is missing. Expected a group for each text"),
        (lambda: [None], "`groups[0]` is missing."),
        (lambda: np.array(["NaT"], "datetime64[D]"), "`groups[0]` is missing."),
        (lambda: [[1], [2]], "`groups[0]` must be one value, such as a string or an integer. Received: [1]"),
        (lambda: [1, {"a": 1}], "`groups[1]` must be one value, such as a string or an integer. Received: {'a': 1}"),
        (lambda: np.ones([2, 2]), "`groups` must be a list with a value for each text, or the name of a column of"),
        (lambda: np.array(1), "`groups` must be a list with a value for each text, or the name of a column of"),
        (lambda: 3, "`groups` must be a list with a value for each text, or the name of a column of `texts`. Rec"),
        (lambda: {"a"}, "`groups` must be a list with a value for each text, or the name of a column of `texts`. Rec"),
        (lambda: {"a": 1}, "`groups` must be a list with a value for each text, or the name of a column of `texts`. R"),
    ],
)
def test_values_of_groups(make, expected):
    """They are those that the settings of a run keep as JSON."""
    if isinstance(expected, list):
        _, found = fit_data.without_groups([], make())
        assert (found, list(map(type, found))) == (expected, list(map(type, expected)))
        assert json.loads(json.dumps(found)) == expected
        return
    with pytest.raises(ValueError) as error:
        fit_data.without_groups([], make())
    assert str(error.value).startswith(expected)


def test_numbers_of_numpy_are_folds():
    assert type(Folds(np.int64(3)).count) is int

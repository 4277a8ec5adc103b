"""Texts and targets of all forms, the tasks that follow from them, and what is refused."""

import types
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from keras_bert.answering.input_rows import read_rows
from keras_bert.data import in_memory
from keras_bert.data import squad as questions
from keras_bert.data.sources import PythonRows
from keras_bert.runs import fit_data
from keras_bert.runs.fit_data import task_rows
from keras_bert.runs.task_choice import infer
from keras_bert.tasks import registry

tf = pytest.importorskip("tensorflow")
NAMES = {task.name for task in registry.TASKS}
TEXTS = ["a", "b c"]
PAIRS = [("a", "d"), ("b c", "e")]
WORDS = [["a"], ["b", "c"], ["d"]]
TAGS = [["O"], ["O", "B-X"], ["O"]]
ROWS_OF_TEXTS = [{"text": "a"}, {"text": "b c"}]


@pytest.fixture(params=["pandas", "polars"])
def frame(request):
    """The class of data frames."""
    return pytest.importorskip(request.param).DataFrame


@pytest.mark.parametrize(
    ("read", "task", "rows", "targets"),
    [
        (lambda frame: (frame["text"], frame["kind"]), "classification", TEXTS, ["x", "y"]),
        (lambda frame: (frame[["text", "kind"]], "kind"), "classification", TEXTS, ["x", "y"]),
        (lambda frame: (frame[["text", "pair"]], frame["stars"]), "classification", PAIRS, [1, 3]),
        (lambda frame: (frame[["text", "pair", "share"]], "share"), "regression", PAIRS, [0.5, 0.25]),
        (lambda frame: (frame["text"], frame[["some", "none"]]), "multi_label", TEXTS, [["some"], []]),
        (lambda frame: (frame[["text"]], frame[["stars"]]), "classification", TEXTS, [1, 3]),
        (lambda frame: (frame["text"], frame["lists"]), "multi_label", TEXTS, [["x"], ["x", "y"]]),
        (lambda frame: (frame[["text", "pair"]],), "embedding", PAIRS, None),
    ],
)
def test_frames(frame, read, task, rows, targets):
    columns = {
        "text": TEXTS,
        "pair": ["d", "e"],
        "kind": ["x", "y"],
        "stars": [1, 3],
        "share": [0.5, 0.25],
        "some": [True, False],
        "none": [0, 0],
        "lists": [["x"], ["x", "y"]],
    }
    found = in_memory.read(*read(frame(columns)))
    assert found == (rows, targets)
    assert task not in NAMES or infer(*found).name == task


def test_frames_without_the_name_of_the_targets(frame):
    numbers = frame({"text": TEXTS, "number": [1, 0]})
    with pytest.raises(ValueError, match="two columns of texts. Received: 'number' with values such as 1. Choose"):
        in_memory.read(numbers)
    with pytest.raises(ValueError, match="column of `texts`, .* Received: 'stars' for a data frame with"):
        in_memory.read(numbers, "stars")
    with pytest.raises(ValueError, match="has a column 'label'. Name the column of the targets"):
        in_memory.read(frame({"text": TEXTS, "label": ["x", "y"]}))


def test_frames_of_pandas():
    """Missing values of all kinds are `None`; columns may have numbers as names."""
    pandas = pytest.importorskip("pandas")
    for missing in (pandas.array([1, None], "Int64"), pandas.array([True, pandas.NA], "boolean")):
        assert in_memory.read(TEXTS, pandas.Series(missing)) == (TEXTS, [1, None])
    assert in_memory.read(pandas.DataFrame({0: TEXTS, 1: [3, 4]}), 1) == (TEXTS, [3, 4])


@pytest.mark.parametrize(
    ("texts", "targets", "rows", "found"),
    [
        (np.array(TEXTS), np.array([1, 0]), TEXTS, [1, 0]),
        (np.array(PAIRS), np.float32([0.5, 0.25]), PAIRS, [0.5, 0.25]),
        ((text for text in TEXTS), (True, np.bool_(False)), TEXTS, [True, False]),
        ([np.str_("a"), b"b c"], [{"y", "x"}, ()], TEXTS, [["x", "y"], ()]),
        (TEXTS, np.array([[0, 1, 1], [0, 0, 0]]), TEXTS, [["1", "2"], []]),
        (TEXTS, np.array([[0], [2]]), TEXTS, [0, 2]),
        (TEXTS, np.array([["x"], ["y"]]), TEXTS, [["x"], ["y"]]),
        ([["a"], np.array(["b", "c"])], [["O"], ["O", "O"]], [["a"], ["b", "c"]], [["O"], ["O", "O"]]),
        (tf.constant(TEXTS), tf.constant([3, 4]), TEXTS, [3, 4]),
        (*map(tf.ragged.constant, (WORDS, TAGS)), WORDS, TAGS),
    ],
)
def test_lists_arrays_and_tensors(texts, targets, rows, found):
    assert in_memory.read(texts, targets) == (rows, found)


def test_frames_of_predict(frame):
    pairs = frame({"text": TEXTS, "pair": ["d", "e"]})
    assert read_rows(pairs) == ([{"text": "a", "pair": "d"}, {"text": "b c", "pair": "e"}], False)
    assert read_rows(pairs["text"]) == (ROWS_OF_TEXTS, False)


def test_words_of_predict():
    rows, _ = read_rows([["b", "c d"], "a"], words=True)
    assert rows == [{"words": "b c\td", "text": "b c d"}, {"text": "a"}]


def test_tensors_and_datasets_of_predict():
    assert read_rows(tf.constant(TEXTS)) == (ROWS_OF_TEXTS, False)
    assert read_rows(tf.constant([["a", "b"]])) == ([{"text": "a", "pair": "b"}], False)
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS)
    assert read_rows(dataset.batch(2)) == (ROWS_OF_TEXTS, False)
    with pytest.raises(ValueError, match="must be a text or a list of texts, .* Received: texts=<tf.Tensor"):
        read_rows(tf.constant("a"))
    with pytest.raises(ValueError, match="a dataset with targets. Expected texts alone"):
        read_rows(tf.data.Dataset.zip(dataset, dataset))


def test_values_that_no_file_has():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="of labels must be 0 and 1, or true and false. Received: 2"):
        in_memory.read(TEXTS, pandas.DataFrame({"x": [1, 2], "y": [0, 1]}))
    _, missing = in_memory.read(TEXTS, pandas.Series(["x", pandas.NA]))
    assert missing == in_memory.read(TEXTS, ["x", np.nan])[1]


def test_dates_are_no_classes():
    pandas = pytest.importorskip("pandas")
    dates = [pandas.Timestamp("2020-01-01")] * 2
    rows = PythonRows("texts", task_rows(registry.task_named("classification"), "texts", TEXTS, dates))
    with pytest.raises(ValueError, match=r"must be strings, numbers, .* Received: Timestamp\("):
        list(rows.values)


slices = tf.data.Dataset.from_tensor_slices


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (slices((TEXTS, [3, 4])), (TEXTS, [3, 4])),
        (slices(((["a", "b c"], ["d", "e"]), [3, 4])), (PAIRS, [3, 4])),
        (slices((TEXTS, [[1, 0], [1, 1]])), (TEXTS, [["0"], ["0", "1"]])),
        (slices((PAIRS, [3, 4])), (PAIRS, [3, 4])),
    ],
    ids=["texts", "pairs", "labels", "arrays of pairs"],
)
def test_datasets(dataset, expected, batched):
    if batched:
        dataset = dataset.batch(2)
    assert in_memory.read(dataset) == expected


def test_datasets_of_words():
    """Batches have one size, but for the last one; sentences do not."""
    dataset = slices((tf.ragged.constant(WORDS), tf.ragged.constant(TAGS)))
    assert in_memory.read(dataset) == (WORDS, TAGS)
    assert in_memory.read(dataset.ragged_batch(2)) == (WORDS, TAGS)


def test_datasets_whose_rows_may_be_batches():
    sentences = slices(([["a", "b"], ["c", "d"]], [["O", "B-X"], ["O", "O"]]))
    with pytest.raises(ValueError, match="may be words with tags, or batches of words with classes. Expected lists"):
        in_memory.read(sentences)
    assert in_memory.read(sentences.unbatch()) == (["a", "b", "c", "d"], ["O", "B-X", "O", "O"])


def test_datasets_whose_last_batch_is_smaller():
    texts = slices((["a b", "c", "d"], ["x", "y", "x"]))
    assert in_memory.read(texts) == (["a b", "c", "d"], ["x", "y", "x"])
    assert in_memory.read(texts.batch(2)) == (["a b", "c", "d"], ["x", "y", "x"])


def test_empty_texts_of_predict(caplog):
    assert read_rows(["a", " ", ("b", "")])[0] == [{"text": "a"}, {"text": " "}, {"text": "b", "pair": ""}]
    assert caplog.messages == ["`texts`: 2 of 3 are empty, the first at index 1"]
    assert read_rows("") == ([{"text": ""}], True)
    assert len(caplog.messages) == 2


@pytest.mark.parametrize(
    ("row", "target", "task"),
    [
        ("a", 1, "classification"),
        ("a", True, "classification"),
        ("a", 0.5, "regression"),
        ("a", ["x", "y"], "multi_label"),
        ("a", [(0, 1, "K")], "tagging"),
        ("a", [{"start": 0, "end": 1, "label": "K"}], "tagging"),
        (["a"], ["O"], "tagging"),
        ({"question": "a", "context": "b"}, "b", "questions"),
        ({"text": "a", "choices": ["b", "c"]}, 0, "multiple_choice"),
    ],
)
def test_the_task_follows_from_the_first_target(row, target, task):
    if task not in NAMES:
        pytest.skip("no such task")
    assert infer([row, row], [target, target]).name == task


@pytest.mark.parametrize(
    ("first", "target", "task"),
    [
        (1, 0.5, "regression"),
        ([], ["x", "y"], "multi_label"),
        ([], [(0, 1, "K")], "tagging"),
        ([], [{"start": 0, "end": 1, "label": "K"}], "tagging"),
    ],
)
def test_a_first_target_that_decides_nothing(first, target, task):
    """One that is empty, or a whole number among floats."""
    if task not in NAMES:
        pytest.skip("no such task")
    assert infer(["a", "a"], [first, target]).name == task


def test_answers():
    """Answers without a position are at their first occurrence; those of the hub and of SQuAD have one."""
    start = {"text": "d", "answer_start": 4}
    rows = []
    for answers in ("d", ["é", "d"], start, [start], {"text": ["d"], "answer_start": [4]}, None, []):
        rows.append({"question": "a", "context": "d é d", "answers": answers})
    asked = questions.read(PythonRows("texts", rows))
    assert asked.golds == [["d"], ["é", "d"], ["d"], ["d"], ["d"], [], []]
    assert asked.spans == [[(0, 1)], [(2, 4), (0, 1)], [(5, 6)], [(5, 6)], [(5, 6)], [], []]
    assert asked.version_2


@pytest.mark.parametrize(
    ("texts", "targets", "message"),
    [
        ("abc", None, "`texts` must be a list, .* Received: 'abc'$"),
        (
            "a.csv",
            "label",
            r"Received: 'a.csv'. Read the file, such as with pandas, and name its columns: fit\(frame\[\[",
        ),
        ([], None, "`texts` is empty"),
        (["a"], [1, 2], "`texts` has 1 rows, but there are 2 targets"),
        (["a"], "label", "the name of a column of `texts`, a data frame or rows. Received: 'label' for list$"),
        (["a"], 1, "Received: 1 for list"),
        (
            [{"tokens": ["a"], "pos_tags": ["N"]}],
            "pos_tag",
            "Received: 'pos_tag' for rows with the columns 'tokens', 'pos_tags'. Did you mean 'pos_tags'.$",
        ),
        (["a", "b"], [[1.0, 0.0], [0.0, 1.0]], r"lists of floats, as one-hot vectors are.*argmax\(-1\)"),
        (["a"], None, "does not follow from the data. Received: texts such as 'a' with no targets"),
        ([1, 2], [0, 1], "does not follow"),
        (tf.data.Dataset.from_tensors("a").repeat(), None, "a dataset without an end"),
        ([b"\xff"], ["x"], "invalid start byte"),
        (["a"], np.array([[1, 2]]), r"targets\[0\]: the column '1' of labels must be 0 and 1"),
        (["a", "b"], [1.0, 0.0], "whole numbers as floats. Expected task='regression', or"),
        (["a", "b", "c"], [0.0, np.nan, 1.0], r"^targets\[1\] is missing. Expected a target for each text"),
        ([np.nan, "b"], [0, 1], r"^`texts\[0\]` is missing. Expected a text"),
        (["a", "b"], ["pos", 1], "are strings and numbers, 'pos' and 1. Expected one type"),
    ],
)
def test_mistakes(texts, targets, message):
    with pytest.raises(ValueError, match=message):
        infer(*in_memory.read(texts, targets))


def test_rows_with_targets_of_their_own():
    """A task may name the columns of its rows; other dicts are texts."""
    rows = [{"first": "a", "second": "b", "in_order": True}]
    assert in_memory.data_set_rows(rows) is None
    assert in_memory.data_set_rows(rows, columns=[{"first", "in_order"}]) == rows
    assert in_memory.data_set_rows(rows, [1], columns=[{"first", "in_order"}]) == rows


class DataSet(list):
    """A list of rows with the attributes of a `datasets.Dataset`."""

    column_names = ()
    features = types.SimpleNamespace(to_dict=dict)


class Named(NamedTuple):
    """Rows with a column of targets that no layout of the task knows, beside one that it takes for the targets."""

    task: str
    columns: dict
    target: str  # The named column.
    read: Callable  # What is read of the rows of the task.
    expected: object


def tagged_spans(rows):
    spans = []
    for row in rows.entities:
        spans.append([(span.type, span.start) for span in row])
    return spans


NAMED = {
    "tagging": Named(
        "tagging",
        {
            "id": ["1", "2"],
            "tokens": [["a", "b"], ["c"]],
            "ner_tags": [["B-X", "O"], ["O"]],
            "word_classes": [["N", "V"], ["N"]],
        },
        "word_classes",
        lambda rows: rows.tags,
        [["N", "V"], ["N"]],
    ),
    "spans": Named(
        "tagging",
        {"text": ["a b", "c"], "entities": [[(0, 1, "X")], [(0, 1, "X")]], "marks": [[(2, 3, "Y")], []]},
        "marks",
        tagged_spans,
        [[("Y", 2)], []],
    ),
    "questions": Named(
        "questions",
        {"question": ["q", "r"], "context": ["a b a", "c d"], "answers": ["a", "c"], "long": ["a b", "d"]},
        "long",
        lambda rows: rows.golds,
        [["a b"], ["d"]],
    ),
    "scores": Named(
        "embedding",
        {"query": ["a", "b"], "passage": ["c", "d"], "id": [0, 1], "score": [0.0, 0.5], "likeness": [1.0, 0.25]},
        "likeness",
        lambda rows: rows.scores,
        [1.0, 0.25],
    ),
    "inference": Named(
        "embedding",
        {
            "query": ["a", "b"],
            "passage": ["c", "d"],
            "id": [0, 1],
            "label": ["contradiction", "contradiction"],
            "relation": ["entailment", "entailment"],
        },
        "relation",
        lambda rows: (rows.kind, rows.queries),
        ("pairs", ["a", "b"]),
    ),
    "choices": Named(
        "multiple_choice",
        {"question": ["q", "r"], "choices": [["a", "b"], ["c", "d"]], "label": ["A", "A"], "gold": ["B", "A"]},
        "gold",
        lambda rows: rows.labels,
        [1, 0],
    ),
    "classes": Named(
        "classification",
        {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": ["x", "y"], "kind": ["v", "u"]},
        "kind",
        lambda rows: (rows.text, rows.labels),
        (["a", "b"], [1, 0]),
    ),
}
NAMED = {name: case for name, case in NAMED.items() if case.task in NAMES}


def dicts_of(columns):
    """Returns rows as dicts, given their columns."""
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def check_named(case, texts, targets):
    """Asserts that the targets of a case are read, whatever the form of the texts."""
    task = "embedding" if case.task == "embedding" else None
    data = fit_data.read_data(texts, targets, task, None, None, 1)
    cls = registry.task_named(case.task)
    assert data.task is cls
    found = cls.rows.read(data.train, data.dev, cls.Settings())
    train = found.train
    if isinstance(train, list):
        train = train[0]
    assert case.read(train) == case.expected


@pytest.mark.parametrize("form", [list, iter, DataSet])
@pytest.mark.parametrize("name", NAMED)
def test_named_targets_of_rows(name, form):
    case = NAMED[name]
    check_named(case, form(dicts_of(case.columns)), case.target)


@pytest.mark.parametrize("name", [name for name in NAMED if name != "spans"])
def test_named_targets_of_frames(name, frame):
    """Frames have no lists of strings and numbers."""
    case = NAMED[name]
    check_named(case, frame(case.columns), case.target)


@pytest.mark.parametrize("name", [name for name in NAMED if name != "spans"])
def test_named_targets_of_arrow(name):
    arrow = pytest.importorskip("pyarrow")
    case = NAMED[name]
    check_named(case, arrow.Table.from_pydict(case.columns), case.target)


@pytest.mark.parametrize("name", NAMED)
def test_targets_as_a_list(name):
    """Beside rows that have them, too, and beside rows without."""
    case = NAMED[name]
    targets = case.columns[case.target]
    check_named(case, dicts_of(case.columns), targets)
    others = {column: values for column, values in case.columns.items() if column != case.target}
    check_named(case, dicts_of(others), targets)


def test_rows_and_a_list_of_targets_of_another_length():
    with pytest.raises(ValueError, match="`texts` has 1 rows, but there are 2 targets"):
        fit_data.read_data(DataSet([{"text": "a", "label": "x"}]), ["x", "y"], None, None, None, 1)


@pytest.mark.parametrize("names", [("premise", "hypothesis"), ("question", "sentence"), ("query", "passage")])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_names_win_over_the_order_of_columns(frame, names, is_reversed):
    """Frames have the pairs that rows with the same columns have."""
    columns = {names[0]: ["a", "b"], names[1]: ["c", "d"]}
    if is_reversed:
        columns = dict(reversed(columns.items()))
    pairs = frame(columns)
    assert in_memory.read(pairs)[0] == [("a", "c"), ("b", "d")]
    assert read_rows(pairs)[0][1] == {"text": "b", "pair": "d"}
    labeled = frame(columns | {"kind": ["x", "y"]})
    data = fit_data.read_data(labeled, "kind", "classification", None, None, 1)
    _, row = next(iter(data.train.values))
    assert row == {"text": "a", "pair": "c", "label": "x"}


def test_unknown_names_stay_in_their_order(frame):
    unknown = frame({"b": ["c", "d"], "a": ["a", "b"]})
    assert in_memory.read(unknown)[0] == [("c", "a"), ("d", "b")]


def test_columns_that_a_model_was_trained_on():
    """Of frames and dicts; inputs by their own names, and data without the columns, stay as they are."""
    pandas = pytest.importorskip("pandas")
    rows = [{"id": 1, "title": "c", "review": "a b"}, {"id": 2, "title": "d", "review": "e"}]
    known = {"text": "review", "pair": "title"}
    frame = in_memory.with_known_columns(pandas.DataFrame(rows), known)
    assert list(frame.columns) == ["review", "title"]
    assert in_memory.read(frame)[0] == [("a b", "c"), ("e", "d")]
    expected = [{"text": "a b", "pair": "c"}, {"text": "e", "pair": "d"}]
    assert in_memory.with_known_columns(rows, known) == expected
    assert in_memory.with_known_columns(rows[0], known) == expected[0]
    for columns in (None, {}, {"text": "body"}):
        assert in_memory.with_known_columns(rows, columns) is rows
    pair = [{"text": "a", "pair": "b"}]
    assert in_memory.with_known_columns(pair, {"text": "text"}) is pair
    assert in_memory.with_known_columns(["a"], known) == ["a"]

"""Texts and targets of all forms, the tasks that follow from them, and what is refused."""

import types

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
TEXTS, PAIRS = ["a", "b c"], [("a", "d"), ("b c", "e")]
WORDS, TAGS = [["a"], ["b", "c"], ["d"]], [["O"], ["O", "B-X"], ["O"]]


def frames():
    """The classes of data frames."""
    return [pytest.importorskip("pandas").DataFrame, pytest.importorskip("polars").DataFrame]


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
def test_frames(read, task, rows, targets):
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
    for make in frames():
        found = in_memory.read(*read(make(columns)))
        assert found == (rows, targets)
        assert task not in NAMES or infer(*found).name == task


def test_frames_without_the_name_of_the_targets():
    for make in frames():
        frame = make({"text": TEXTS, "number": [1, 0]})
        with pytest.raises(ValueError, match="two columns of texts. Received: 'number' with values such as 1. Choose"):
            in_memory.read(frame)
        with pytest.raises(
            ValueError, match="column of `texts`, a data frame or rows. Received: 'stars' for a data frame with"
        ):
            in_memory.read(frame, "stars")
        with pytest.raises(ValueError, match="has a column 'label'. Name the column of the targets"):
            in_memory.read(make({"text": TEXTS, "label": ["x", "y"]}))


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


def test_frames_and_datasets_of_predict():
    for make in frames():
        pairs = make({"text": TEXTS, "pair": ["d", "e"]})
        assert read_rows(pairs) == ([{"text": "a", "pair": "d"}, {"text": "b c", "pair": "e"}], False)
        assert read_rows(pairs["text"]) == ([{"text": "a"}, {"text": "b c"}], False)
    assert read_rows([["b", "c d"], "a"], words=True) == ([{"words": "b c\td", "text": "b c d"}, {"text": "a"}], False)
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS)
    assert read_rows(dataset.batch(2)) == ([{"text": "a"}, {"text": "b c"}], False)
    for texts, rows in ((TEXTS, [{"text": "a"}, {"text": "b c"}]), ([["a", "b"]], [{"text": "a", "pair": "b"}])):
        assert read_rows(tf.constant(texts)) == (rows, False)
    with pytest.raises(ValueError, match="must be a text or a list of texts, .* Received: texts=<tf.Tensor"):
        read_rows(tf.constant("a"))
    with pytest.raises(ValueError, match="a dataset with targets. Expected texts alone"):
        read_rows(tf.data.Dataset.zip(dataset, dataset))


def test_values_that_no_file_has():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="of labels must be 0 and 1, or true and false. Received: 2"):
        in_memory.read(TEXTS, pandas.DataFrame({"x": [1, 2], "y": [0, 1]}))
    assert in_memory.read(TEXTS, pandas.Series(["x", pandas.NA]))[1] == in_memory.read(TEXTS, ["x", np.nan])[1]
    with pytest.raises(ValueError, match=r"must be strings, numbers, .* Received: Timestamp\("):
        _ = PythonRows(
            "texts",
            task_rows(registry.task_named("classification"), "texts", TEXTS, [pandas.Timestamp("2020-01-01")] * 2),
        ).values


@pytest.mark.parametrize("batched", [False, True])
def test_datasets(batched):
    for texts, rows in ((TEXTS, TEXTS), (tuple(zip(*PAIRS, strict=True)), PAIRS)):
        dataset = tf.data.Dataset.from_tensor_slices((tuple(map(list, texts)) if texts is not TEXTS else texts, [3, 4]))
        assert in_memory.read(dataset.batch(2) if batched else dataset) == (rows, [3, 4])
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, [[1, 0], [1, 1]]))
    assert in_memory.read(dataset.batch(2) if batched else dataset) == (TEXTS, [["0"], ["0", "1"]])


def test_datasets_of_words_and_of_arrays_of_pairs():
    """Batches have one size, but for the last one; sentences do not."""
    slices = tf.data.Dataset.from_tensor_slices
    dataset = slices((tf.ragged.constant(WORDS), tf.ragged.constant(TAGS)))
    assert in_memory.read(dataset) == in_memory.read(dataset.ragged_batch(2)) == (WORDS, TAGS)
    pairs = slices((PAIRS, [3, 4]))
    assert in_memory.read(pairs) == in_memory.read(pairs.batch(2)) == (PAIRS, [3, 4])
    sentences = slices(([["a", "b"], ["c", "d"]], [["O", "B-X"], ["O", "O"]]))
    with pytest.raises(ValueError, match="may be words with tags, or batches of words with classes. Expected lists"):
        in_memory.read(sentences)
    assert in_memory.read(sentences.unbatch()) == (["a", "b", "c", "d"], ["O", "B-X", "O", "O"])
    texts = slices((["a b", "c", "d"], ["x", "y", "x"]))
    assert in_memory.read(texts.batch(2)) == in_memory.read(texts) == (["a b", "c", "d"], ["x", "y", "x"])


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
    # A first target that is empty, or a whole number among floats, decides nothing.
    first = [] if isinstance(target, list) and isinstance(row, str) else 1 if isinstance(target, float) else target
    assert infer([row, row], [target, target]).name == infer([row, row], [first, target]).name == task


def test_answers():
    """Answers without a position are at their first occurrence; those of the hub and of SQuAD have one."""
    row = {"question": "a", "context": "d é d"}
    start = {"text": "d", "answer_start": 4}
    targets = ["d", ["é", "d"], start, [start], {"text": ["d"], "answer_start": [4]}, None, []]
    asked = questions.read(PythonRows("texts", [{**row, "answers": target} for target in targets]))
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
        (["a"], 1, "the name of a column of `texts`, a data frame or rows. Received: 1 for list"),
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


# For each task: rows, whose layout finds other targets; the named column, which no layout knows; what is read of it.
WORDS_OF = {"id": ["1", "2"], "tokens": [["a", "b"], ["c"]]}
PASSAGES_OF = {"query": ["a", "b"], "passage": ["c", "d"]}
NAMED = {
    "tagging": (
        {**WORDS_OF, "ner_tags": [["B-X", "O"], ["O"]], "word_classes": [["N", "V"], ["N"]]},
        "word_classes",
        lambda read: read.tags,
        [["N", "V"], ["N"]],
    ),
    "spans": (
        {"text": ["a b", "c"], "entities": [[(0, 1, "X")], [(0, 1, "X")]], "marks": [[(2, 3, "Y")], []]},
        "marks",
        lambda read: [[(span.type, span.start) for span in row] for row in read.entities],
        [[("Y", 2)], []],
    ),
    "questions": (
        {"question": ["q", "r"], "context": ["a b a", "c d"], "answers": ["a", "c"], "long": ["a b", "d"]},
        "long",
        lambda read: read.golds,
        [["a b"], ["d"]],
    ),
    "scores": (
        {**PASSAGES_OF, "id": [0, 1], "score": [0.0, 0.5], "likeness": [1.0, 0.25]},
        "likeness",
        lambda read: read.scores,
        [1.0, 0.25],
    ),
    "inference": (
        {**PASSAGES_OF, "id": [0, 1], "label": ["contradiction"] * 2, "relation": ["entailment"] * 2},
        "relation",
        lambda read: (read.kind, read.queries),
        ("pairs", ["a", "b"]),
    ),
    "choices": (
        {"question": ["q", "r"], "choices": [["a", "b"], ["c", "d"]], "label": ["A", "A"], "gold": ["B", "A"]},
        "gold",
        lambda read: read.labels,
        [1, 0],
    ),
    "classes": (
        {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": ["x", "y"], "kind": ["v", "u"]},
        "kind",
        lambda read: (read.text, read.labels),
        (["a", "b"], [1, 0]),
    ),
}
TASKS_OF = {"spans": "tagging", "scores": "embedding", "inference": "embedding", "choices": "multiple_choice"}
TASKS_OF |= {"tagging": "tagging", "questions": "questions", "classes": "classification"}
NAMED = {name: case for name, case in NAMED.items() if TASKS_OF[name] in NAMES}


@pytest.mark.parametrize("name", NAMED)
def test_named_targets_are_read_in_every_form(name):
    """Also beside a column that the layout of the task takes for the targets, and as a list."""
    arrow = pytest.importorskip("pyarrow")
    columns, target, read, expected = NAMED[name]
    cls = registry.task_named(TASKS_OF[name])
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    forms = [rows, iter(rows), DataSet(rows)]
    if name != "spans":  # Arrow has no lists of strings and numbers.
        forms.append(arrow.Table.from_pydict(columns))
        forms += [make(columns) for make in frames()]
    without = [{column: value for column, value in row.items() if column != target} for row in rows]
    for form, targets in [*((form, target) for form in forms), (rows, columns[target]), (without, columns[target])]:
        data = fit_data.read_data(form, targets, None if cls.name != "embedding" else "embedding", None, None, 1)
        assert data.task is cls, type(form)
        found = cls.rows.read(data.train, data.dev, cls.Settings())
        train = found.train[0] if isinstance(found.train, list) else found.train
        assert read(train) == expected, type(form)


def test_rows_and_a_list_of_targets_of_another_length():
    with pytest.raises(ValueError, match="`texts` has 1 rows, but there are 2 targets"):
        fit_data.read_data(DataSet([{"text": "a", "label": "x"}]), ["x", "y"], None, None, None, 1)


@pytest.mark.parametrize("names", [("premise", "hypothesis"), ("question", "sentence"), ("query", "passage")])
def test_names_win_over_the_order_of_columns(names):
    """Frames have the pairs that rows with the same columns have; unknown names stay in their order."""
    values = {names[0]: ["a", "b"], names[1]: ["c", "d"]}
    for make in frames():
        for order in (names, names[::-1]):
            frame = make({name: values[name] for name in order})
            assert in_memory.read(frame)[0] == [("a", "c"), ("b", "d")]
            assert read_rows(frame)[0][1] == {"text": "b", "pair": "d"}
            labelled = make({**{name: values[name] for name in order}, "kind": ["x", "y"]})
            data = fit_data.read_data(labelled, "kind", "classification", None, None, 1)
            assert next(row for _, row in data.train.values) == {"text": "a", "pair": "c", "label": "x"}
        unknown = make({"b": ["c", "d"], "a": ["a", "b"]})
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

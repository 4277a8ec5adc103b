"""Files of questions with choices: layouts, labels, mistakes with their lines, the summary, predictions."""

import json
import logging

import numpy as np
import pytest

from keras_bert.data.choice_layouts import TARGETS
from keras_bert.data.choices import with_columns
from keras_bert.runs import fit_data
from keras_bert.tasks.multiple_choice import data as choices
from keras_bert.tasks.multiple_choice import task
from tests.tasks.files import write as write_file

pytestmark = pytest.mark.tensorflow


def write(tmp_path, name, *lines):
    lines = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return write_file(tmp_path / name, "\n".join(lines) + "\n")


def test_official_rows_of_swag(data):
    read = choices.read(data / "swag" / "val_official_rows_11.csv")
    assert (len(read), read.swag, read.first_key) == (11, True, "0")
    assert read.labels == [2, 2, 2, 2, 2, 0, 0, 2, 1, 0, 2]
    assert read.text[0] == "Students lower their eyes nervously."
    assert read.choices[0][1] == "She turns with two students."
    assert read.lines[:2] == [2, 3]


def test_real_tables_without_column_names(data, caplog):
    caplog.set_level(logging.INFO, "keras_bert")
    path = data / "swag" / "stand_in_arc" / "arc_easy_a.csv"
    with pytest.raises(ValueError, match=r"arc_easy_a.csv:5: expected at least 2 choices, got 0$"):
        choices.read(path)
    read = choices.read(path, skip_bad_rows=104)
    assert (len(read), read.swag, read.labels[:5]) == (2147, False, [1, 1, 3, 0, 2])
    assert read.choices[0][1] == "a bacterial population in the bloodstream"
    assert {count: read.counts().count(count) for count in (3, 4)} == {3: 5, 4: 2142}
    assert "no column names; read as text, 4 choices and label" in caplog.text


def record(**values):
    return {"text": "q", "choices": ["x", "y", "", "z"], "label": "A", **values}


LAYOUTS = [
    ("a.csv", ["question,A,B,C,D,key", "q,x,y,,z,D", "r,u, v ,,,b"]),
    ("a.tsv", ["id\ttext\tchoice1\tchoice2\tchoice3\tchoice4\tanswer", "7\tq\tx\ty\t\tz\t4", "8\tr\tu\tv\t\t\t2"]),
    ("a.csv", ["text,option_a,option_b,option_c,option_d,label", "q,x,y,,z,3", "r,u,v,,,0001"]),
    ("a.csv", ["q,x,y,,z,D", "r,u,v,,,B"]),
    ("a.csv", ["D,C,B,A,question,answer", "z,,y,x,q,d", ",,v,u,r,b"]),
    ("a.csv", ["option4,option1,text,option3,option2,label", "z,x,q,,y,4", ",u,r,,v,2"]),
    ("a.jsonl", [record(label=3), record(text="r", choices=["u", "v"], label="0001")]),
    ("a.jsonl", [record(label="D", choices=["x", "y", None, "z"]), record(text="r", choices=["u", "v"], label="b")]),
]


@pytest.mark.parametrize(("name", "lines"), LAYOUTS)
def test_layouts(tmp_path, name, lines):
    first = 0 if "0001" in str(lines) else None
    read = choices.read(write(tmp_path, name, *lines), first_label=first)
    assert (read.text, read.labels, read.counts()) == (["q", "r"], [3, 1], [3, 2])
    assert list(filter(None, read.choices[0])) == ["x", "y", "z"]
    assert list(filter(None, read.choices[1])) == ["u", "v"]
    assert len(read.choices) == 2
    assert read.choices[0] == ["x", "y", "", "z"]


# Rows as the data sets of the hub have them, or as their own files do: the text, the choices, the right one.
HUB = {
    "Social IQa": (
        {"context": "Ann ran.", "question": "Why?", "answerA": "a", "answerB": "b", "answerC": "c", "label": "3"},
        ("Ann ran.", ["Why? a", "Why? b", "Why? c"], 2),
    ),
    "CosmosQA": (
        {"id": "1", "context": "A b.", "question": "Q?", **{f"answer{n}": f"x{n}" for n in range(4)}, "label": 0},
        ("A b.", ["Q? x0", "Q? x1", "Q? x2", "Q? x3"], 0),
    ),
    "COPA": (
        {"premise": "It rained.", "choice1": "a.", "choice2": "b.", "question": "effect", "idx": 3, "label": 0},
        ("It rained.", ["What happened as a result? a.", "What happened as a result? b."], 0),
    ),
    "RACE": (
        {"example_id": "h1.txt", "article": "A b.", "question": "Q _ .", "options": ["x", "y"], "answer": "B"},
        ("A b.", ["Q _ . x", "Q _ . y"], 1),
    ),
    "ARC": (
        {"id": "1", "question": "Q?", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answerKey": "2"},
        ("Q?", ["x", "y"], 1),
    ),
    "CommonsenseQA": (
        {
            "answerKey": "E",
            "question": {"stem": "Q?", "choices": [{"label": "C", "text": "x"}, {"label": "E", "text": "y"}]},
        },
        ("Q?", ["x", "y"], 1),
    ),
    "OpenBookQA": (
        {"question_stem": "Q is", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "A"},
        ("Q is", ["x", "y"], 0),
    ),
    "HellaSwag": (
        {
            "ctx_a": "A b.",
            "ctx_b": "he",
            "ctx": "A b. he",
            "activity_label": "Some act",
            "endings": ["x", "y"],
            "label": "0",
        },
        ("A b. he", ["x", "y"], 0),
    ),
    "PIQA": ({"goal": "G h", "sol1": "x", "sol2": "y z", "label": 0}, ("G h", ["x", "y z"], 0)),
    "WinoGrande": ({"sentence": "A _ b.", "option1": "x", "option2": "y", "answer": "2"}, ("A _ b.", ["x", "y"], 1)),
    "a table": ({"question": "Q?", "A": "x", "B": "y", "key": "B"}, ("Q?", ["x", "y"], 1)),
    "ReClor": (
        {"context": "A b.", "question": "Q?", "answers": ["x", "y"], "label": 0},
        ("A b.", ["Q? x", "Q? y"], 0),
    ),
}


@pytest.mark.parametrize("name", HUB)
def test_rows_of_data_sets_are_answered(name):
    """A model takes the rows that it was trained on, with or without their labels, and frames of them."""
    pandas = pytest.importorskip("pandas")
    row, (text, options, _) = HUB[name]
    expected = {"text": text, "choices": options}
    without_label = {column: value for column, value in row.items() if column not in TARGETS}
    for given in (row, without_label):
        assert with_columns(given) == expected
        assert with_columns([given, given]) == [expected, expected]
        assert with_columns(pandas.DataFrame([given, given])) == [expected, expected]


def test_columns_that_a_model_was_trained_on():
    """Rows without them are read by a layout; other texts stay as they are."""
    known = {"text": "body", "choices": ["first", "second"]}
    expected = {"text": "a", "choices": ["b", "c"]}
    assert with_columns([{"body": "a", "second": "c", "first": "b", "id": 1}], known) == [expected]
    assert with_columns({"body": "a", "both": ["b", "c"]}, {"text": "body", "choices": ["both"]}) == expected
    assert with_columns({"question": "a", "A": "b", "B": "c"}, known) == expected
    for texts in ([expected], {"body": "a", "both": ["b", "c"]}, [{"text": "a"}], ["a"], [], ("a", "b"), [("a", "b")]):
        assert with_columns(texts, known) is texts
    with pytest.raises(ValueError, match=r"texts\[1\]: `A` must be a string. Received: 7"):
        with_columns([{"question": "a", "A": "b", "B": "c"}, {"question": "a", "A": 7, "B": "c"}])


@pytest.mark.parametrize("name", HUB)
def test_layouts_of_data_sets_are_read_whole(tmp_path, name, caplog):
    """From lines of JSON, rows in Python without a word about the task, and tables, if they have no lists."""
    row, (text, options, label) = HUB[name]
    sources = [write(tmp_path, "a.jsonl", row)]
    if not any(isinstance(value, list | dict) for value in row.values()):
        cells = [str(value) for value in row.values()]
        sources += [write(tmp_path, "a.csv", ",".join(row), ",".join(cells))]
        sources += [write(tmp_path, "a.tsv", "\t".join(row), "\t".join(cells))]
    if name != "ReClor":  # Its columns could be those of a question about a context.
        data = fit_data.read_data([row], None, None, None, None, 1)
        assert data.task is task.MultipleChoiceTask
        sources.append(data.train)
    for source in sources:
        read = choices.read_all(source, source).train
        assert (read.text, read.choices, read.labels) == ([text], [options], [label])
    assert caplog.messages == []


def test_other_texts_are_told_once(tmp_path, caplog):
    rows = [{"question": "Q?", "choices": ["a", "b"], "label": "A", "support": "A b c.", "id": "a1"}] * 2
    path = write(tmp_path, "a.jsonl", *rows)
    choices.read_all(path, path, path)
    expected = f"{path}: `support` not read, name the column of the text with `text_column`"
    assert caplog.messages == [expected]
    assert choices.read(path, text="support").choices[0] == ["a", "b"]


def test_numbers_of_rows_in_python_are_judged_as_those_of_files(tmp_path):
    """A list of targets has indices; a column of rows says itself where it starts, or `first_label` does."""
    named = [{"question": "q", "choices": list("xyz"), "label": number} for number in (1, 3, 2)]
    for given, first in ((named, None), (named, 1), (named[::2], "1")):
        data = fit_data.read_data(given, None, None, None, None, 1)
        settings = choices.ChoiceSettings(first_label=first)
        expected = [row["label"] - 1 for row in given]
        assert data.task.rows.read(data.train, data.dev, settings).train.labels == expected
    data = fit_data.read_data(named[::2], "label", None, None, None, 1)
    with pytest.raises(ValueError, match=r"texts\[0\]: `label` has neither 0 nor the .* `first_label=0` or 1"):
        data.task.rows.read(data.train, data.dev, choices.ChoiceSettings())
    with pytest.raises(ValueError, match="`first_label` must be 0 or 1. Received: first_label=2"):
        data.task.rows.read(data.train, data.dev, choices.ChoiceSettings(first_label=2))
    texts = [{"text": "q", "choices": list("xyz")}] * 2
    for targets, first, expected in (([1, "y"], None, [1, 1]), ([1, 1], 1, [0, 0])):
        data = fit_data.read_data(texts, targets, None, None, None, 1)
        assert (
            data.task.rows.read(data.train, data.dev, choices.ChoiceSettings(first_label=first)).train.labels
            == expected
        )
    data = fit_data.read_data(texts, [1, 3], None, None, None, 1)
    with pytest.raises(
        ValueError, match=r"texts\[1\]: `index of the right choice` must be A to C or 0 to 2. Received: 3"
    ):
        data.task.rows.read(data.train, data.dev, choices.ChoiceSettings())


def test_choices_of_swag_in_another_order(tmp_path):
    path = write(tmp_path, "a.csv", "sent1,sent2,ending2,ending1,ending0,label", "A man sits.,He,flies.,eats.,,2")
    assert choices.read(path).choices == [["", "He eats.", "He flies."]]


FIRST_ROWS = ["Which is a vowel?,a,b,c,d,A", "What opens a lock?,a door,a key,key,a nose,C", "One and one?,1,2,3,4,2"]


@pytest.mark.parametrize("first", FIRST_ROWS)
def test_first_rows_that_resemble_column_names(tmp_path, first):
    read = choices.read(write(tmp_path, "a.csv", first, "q,x,y,z,,B"), first_label=1)
    assert (read.choices[0], len(read)) == (first.split(",")[1:-1], 2)


def test_named_columns_and_files_without_labels(tmp_path):
    path = write(tmp_path, "a.csv", "stem;good;bad;truth", "q;x;y;2", "r;u;v;1")
    read = choices.read(path, "stem", ["good", "bad"], "truth")
    assert (read.choices, read.labels) == ([["x", "y"], ["u", "v"]], [1, 0])
    path = write(tmp_path, "test.csv", "sent1,sent2,ending0,ending1", "A man sits.,He,eats.,flies.")
    read = choices.read(path, labeled=False)
    assert (read.labels, read.choices) == (None, [["He eats.", "He flies."]])
    path = write(tmp_path, "test.csv", "question,A,B,key", "q,x,y,", "r,u,v,-1")
    assert choices.read(path, choices=["B", "A"], labeled=False).choices == [["x", "y"], ["u", "v"]]
    assert choices.read(path, labeled=False).labels is None
    with pytest.raises(ValueError, match="`choice_columns` contains duplicates. Received: A,A"):
        choices.read(path, choices=["A", "A"])
    path = write(tmp_path, "a.csv", "question,A,B,C,key", "q,x,y,z,B")
    with pytest.raises(ValueError, match="a.csv:1: labels cannot name the columns 'B', 'C' by their letters or num"):
        choices.read(path, choices=["B", "C"])


def rows(*labels, count=3):
    return [
        {"text": f"q{index}", "choices": list("xyzuv"[:count]), "label": label} for index, label in enumerate(labels)
    ]


NUMBERS = [((0, 2), [0, 2], "0"), ((1, 3), [0, 2], "1"), (("C", "1", 3), [2, 0, 2], "A"), (("a", "B"), [0, 1], "A")]


@pytest.mark.parametrize(("given", "labels", "first_key"), NUMBERS)
def test_numbers_and_letters(tmp_path, given, labels, first_key):
    read = choices.read(write(tmp_path, "a.jsonl", *rows(*given)))
    assert (read.labels, read.first_key) == (labels, first_key)


def test_all_files_are_numbered_like_the_training_data(tmp_path):
    train = write(tmp_path, "train.jsonl", *rows(0, 1))
    dev = write(tmp_path, "dev.jsonl", *rows(1, 1, count=4))
    read = choices.read_all(train, dev, dev)
    assert (read.dev.labels, read.test.labels, read.keys) == ([1, 1], [1, 1], ["0", "1", "2", "3"])
    train = write(tmp_path, "train.jsonl", *rows("A", "3"))
    with pytest.raises(ValueError, match=r"dev.jsonl:2: column `label` must be A to C or 1 to 3. Received: 0"):
        choices.read_all(train, write(tmp_path, "dev.jsonl", *rows(2, 0)))


def test_numbers_of_absent_choices_and_unreadable_rows(tmp_path):
    """The last choice with text shows the numbering, unreadable rows do not take part in it."""
    lines = ["question,A,B,C,key", "q,x,y,,2", "r,u,v,w,1", "s,,,,0"]
    read = choices.read(write(tmp_path, "a.csv", *lines), skip_bad_rows=1)
    assert (read.labels, read.first_label) == ([1, 0], 1)


MISTAKES = [
    ("a.jsonl", rows(1, 2), r"a.jsonl:1: column `label` has neither 0 nor the .* `first_label=0` or 1"),
    ("a.jsonl", rows(0, 3), r"a.jsonl:2: column `label` is numbered from 1 here, .* but from 0 in line 1. Give"),
    ("a.jsonl", rows(0, 7), r"a.jsonl:2: column `label` must be A to C or 0 to 2. Received: 7"),
    ("a.jsonl", rows("A", "D"), r"a.jsonl:2: column `label` must be A to C, 0 to 2 or 1 to 3. Received: 'D'"),
    ("a.jsonl", rows("A", True), r"a.jsonl:2: column `label` must be A to C, 0 to 2 or 1 to 3. Received: True"),
    ("a.jsonl", [record(), record(choices="x")], r"a.jsonl:2: column `choices` must be a list of strings"),
    ("a.jsonl", [record(), record(choices=["x", 1])], r"a.jsonl:2: column `choices\[1\]` must be a string"),
    ("a.jsonl", [record(), record(choices=["x", ""])], r"a.jsonl:2: expected at least 2 choices, got 1"),
    ("a.csv", ["question,A,B,C,key", "q,x,y,,C"], r"a.csv:2: column `key` names an empty choice. Received: 'C'"),
    ("a.csv", ["question,A,B", "q,x,y"], r"a.csv:1: no column `label`. It has: .*Name another one with `label_column`"),
    ("a.csv", ["question,first,second,key", "q,x,y,A"], r"a.csv:1: no columns .* with `choice_columns`"),
    (
        "a.csv",
        ["stem,A,B,C", "q,x,y,z"],
        r"a.csv:1: no columns `question` and `label`. It has: 'stem', .* `text_column` and `label_column`$",
    ),
    (
        "a.csv",
        ["x,question,A,B,key", "1,q,x,y,A"],
        r"a.csv:1: the columns 'x', 'A', 'B' are not a .*with `choice_columns`",
    ),
    ("a.csv", ["q,x,y,A", "r,x,y,1 "], r"a.csv:2: the last column has neither 0 nor"),
    ("a.csv", ["q 1,x 1,y,A", "q,x,y,z,A"], r"a.csv:2: expected 4 columns, got 5"),
]


@pytest.mark.parametrize(("name", "lines", "message"), MISTAKES)
def test_mistakes(tmp_path, name, lines, message):
    with pytest.raises(ValueError, match=message):
        choices.read(write(tmp_path, name, *lines))


def test_summary(tmp_path):
    # The second question is the first one in another order, the third contradicts both.
    lines = ["One?,x,y,z,A", "one? ,Y,X,z,B", "One?,x,y,z,C", "Two?,x,y,,A"]
    train = write(tmp_path, "train.csv", "question,A,B,C,key", *lines)
    dev = write(tmp_path, "dev.csv", "question,A,B,C,key", "two?,y,x,,A", "Three?,x,y,z,B")
    summary = task.summarize(choices.read_all(train, dev), np.array([5, 5, 5, 9]), 8, 16)
    expected = {"unit": "rows", "train": 4, "dev": {"dev.csv": 2}, "test": {}, "overlap": {"dev": 1}}
    expected |= {"positions": {"A": 2, "B": 1, "C": 1}, "choices": {"2": 1, "3": 3}}
    expected |= {"repeated": 1, "alike": 0, "contradictory": 3, "baseline": "always A", "majority": {"accuracy": 0.5}}
    truncated = {"rows": 1, "share": 0.25, "sequence_length": 8, "longest": 9, "enough": 16, "held": 1.0}
    expected |= {"truncated": truncated, "chance": pytest.approx((1 / 2 + 1 / 3) / 2)}
    assert summary.to_json() == expected
    facts = task.summary_facts(summary)
    assert facts["rows by number of choices"] == "2: 1, 3: 3"
    assert facts["chance"] == "accuracy 41.67% (a random choice, on dev)"


def test_choices_that_look_like_the_right_one(tmp_path):
    lines = ["question,A,B,C,key", "1?,1,01,z,A", "2?,x,X\u200b,z,C", "3?,,x y,x  y,B", "4?,x,y,,B"]
    path = write(tmp_path, "a.csv", *lines)
    summary = task.summarize(choices.read_all(path, path), np.array([5] * 4), 8, 16)
    assert summary.more["alike"] == 2


def test_predictions():
    logits = np.log([[1, 3, 4], [1, 1, 2]])
    logits[1, 0] = -1e9  # An absent choice.
    assert task.predictions_table(logits, [["x", "y", "z"], ["", "y", "z"]], ["A", "B", "C", "D"]) == [
        "label\tA\tB\tC",
        "C\t0.1250\t0.3750\t0.5000",
        "C\t\t0.3333\t0.6667",
    ]
    assert task.score([2, 1], logits) == {"accuracy": 0.5}
    with pytest.raises(FloatingPointError, match="the training has diverged"):
        task.score([0], [[np.nan, 1.0]])

"""Questions to train and evaluate on: from files and rows, their parts, and scores of a SavedModel."""

import json

import pytest

from keras_bert.data.sources import PythonRows
from keras_bert.tasks.question_answering.data import QuestionRows, QuestionSettings, read_all

ROWS = QuestionRows()
CONTEXT = "a b c d e"


def write(path, count, version="1.1"):
    """Writes a file of so many questions about one context, with the ids `name 0`, `name 1` and so on."""
    questions = []
    for number in range(count):
        answer = {"text": "b", "answer_start": 2}
        questions.append({"id": f"{path.stem} {number}", "question": "x", "answers": [answer]})
    paragraphs = [{"context": CONTEXT, "qas": questions}]
    path.write_text(json.dumps({"version": version, "data": [{"paragraphs": paragraphs}]}))
    return path


@pytest.fixture
def data(tmp_path):
    """Two files to train on, of three and of four questions, and one of dev."""
    files = [write(tmp_path / "a.json", 3), write(tmp_path / "b.json", 4)]
    return read_all(files, write(tmp_path / "dev.json", 2))


def test_settings_read_one_file_or_several(tmp_path):
    train = write(tmp_path / "a.json", 3)
    dev = write(tmp_path / "dev.json", 2)
    settings = QuestionSettings()
    assert [part.ids for part in settings.read(train, dev).train] == [["a 0", "a 1", "a 2"]]
    data = settings.read([train, dev], dev, test=train)
    assert [len(part) for part in data.train] == [3, 2]
    assert data.test.ids == ["a 0", "a 1", "a 2"]
    assert data.files == {"train": [str(train), str(dev)], "dev": str(dev), "test": str(train)}


def test_the_first_questions(data, tmp_path):
    parts = data.first(2).train
    assert [part.ids for part in parts] == [["a 0", "a 1"], ["b 0", "b 1"]]
    assert [len(part) for part in data.first(None).train] == [3, 4]
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    limited = read_all(files, tmp_path / "dev.json", max_train_examples=1, max_dev_examples=1)
    assert [len(part) for part in limited.train] == [1, 1]
    assert limited.dev.ids == ["dev 0"]


def test_folds_divide_the_last_file(data):
    assert data.divided.ids == ["b 0", "b 1", "b 2", "b 3"]
    fold = data.parted([0, 2], [1, 3])
    assert [part.ids for part in fold.train] == [["a 0", "a 1", "a 2"], ["b 0", "b 2"]]
    assert fold.dev.ids == ["b 1", "b 3"]


def test_a_share_is_held_out(tmp_path):
    path = write(tmp_path / "a.json", 8)
    data = read_all([path], path).split(0.25, seed=1)
    (train,) = data.train
    assert len(data.dev) == 2
    assert sorted([*train.ids, *data.dev.ids]) == [f"a {number}" for number in range(8)]


def test_dev_may_be_what_is_trained_on(data, tmp_path):
    found = data.on_train()
    assert found.dev is data.train[-1]
    assert found.files["dev"] == str(tmp_path / "b.json")


def test_rows_without_validation_are_read_once():
    rows = PythonRows("texts", [{"question": "x", "context": CONTEXT, "answers": ["b"]}])
    data = ROWS.read(rows, rows, QuestionSettings())
    assert data.dev is data.train[0]
    assert data.train[0].contexts == [CONTEXT]


@pytest.mark.parametrize(
    ("text", "is_question"),
    [
        ({"question": "x", "context": "a"}, True),
        ({"question": "x", "context": "a", "id": 1}, True),
        ({"question": "x"}, False),
        ("x", False),
    ],
)
def test_rows_that_are_questions(text, is_question):
    assert ROWS.recognizes(text, None) == is_question


def test_a_row_of_python():
    asked = {"question": "x", "context": "a b", "answers": ["a"]}
    assert ROWS.row("texts[0]", asked, "b") == {"question": "x", "context": "a b", "answers": "b"}
    with pytest.raises(ValueError, match=r"texts\[3\] must be a dict with `question` and `context`"):
        ROWS.row("texts[3]", {"question": "x"}, "b")


def test_answers_in_a_column_that_the_user_names():
    """The start of another answer is not that of the answer."""
    row = {"question": "x", "context": "a b", "mine": "b", "answers": "a", "answer_start": 0}
    found = ROWS.with_named_target(row, "mine")
    assert found == {"question": "x", "context": "a b", "answers": "b"}


@pytest.mark.parametrize(("version", "exact"), [("1.1", "exact_match"), ("v2.0", "exact")])
def test_scores_of_a_saved_model(tmp_path, version, exact):
    path = write(tmp_path / "a.json", 2, version)
    labeled = ROWS.labeled("questions", "model/1", {}, path)
    assert labeled.inputs == {"question": ["x", "x"], "context": [CONTEXT, CONTEXT]}
    assert labeled.predictions({"answer": [b"b", "é".encode()]}) == ["b", "é"]
    assert labeled.score(["b", "é"]) == {"f1": 50.0, exact: 50.0}

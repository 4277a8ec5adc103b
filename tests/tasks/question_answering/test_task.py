"""The SQuAD fine-tuning task, without training; the summary of questions, against counts by hand."""

import dataclasses
import json
import pathlib

import pytest

import keras_bert
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Start
from keras_bert.tasks.question_answering.data import QuestionSettings, read, read_all
from keras_bert.tasks.question_answering.features import QuestionWindows
from keras_bert.tasks.question_answering.task import QuestionAnsweringTask, summarize, summary_facts
from keras_bert.text.preprocessor import TextPreprocessor

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
SETTINGS = QuestionSettings(version_2=True, sequence_length=16, doc_stride=6)


def question(name, answers, **more):
    answers = [{"text": text, "answer_start": place} for text, place in answers]
    return {"id": name, "question": "y x", "answers": answers, **more}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A file with three questions about a context of three windows."""
    file = tmp_path_factory.mktemp("questions") / "file.json"
    questions = [question("right", [("k", 20)]), question("none", []), question("wrong", [("k", 21)])]
    paragraph = {"context": "a b c d e f g h i j k l m n o p q r", "qas": questions}
    file.write_text(json.dumps({"version": "v2.0", "data": [{"paragraphs": [paragraph]}]}))
    return str(file)


def build(checkpoint, file):
    start = Start(str(checkpoint), keras_bert.load(checkpoint))
    return QuestionAnsweringTask(read_all([file, file], file, None, True, 2), start, SETTINGS)


def test_training_stages_settings_and_warnings(checkpoint, file, caplog):
    task = build(checkpoint, file)
    stages = [stage.examples() for stage in task.training.stages({})]  # 2 questions of 3 windows each, twice.
    assert [len(targets["start"]) for _, targets in stages] == [6, 6]
    content = task.run_settings.pop("content")
    assert (len(content), content[0]) == (3, content[1])  # The two training files are the same.
    files = {"train": [[file, 2], [file, 2]], "dev": [file, 3], "test": [None, 0]}
    options = dataclasses.asdict(SETTINGS)
    del options["n_best"], options["null_threshold"]
    assert task.run_settings == {"model": str(checkpoint), **files, **options}
    assert "1 answer(s) are not at the given position: wrong" in caplog.text
    assert "1 question(s) have an answer that cannot be located; they are not trained on: wrong" in caplog.text


def test_a_training_file_without_a_located_answer_is_refused(checkpoint, file, tmp_path):
    content = json.loads(pathlib.Path(file).read_text())
    del content["data"][0]["paragraphs"][0]["qas"][:2]
    (tmp_path / "wrong.json").write_text(json.dumps(content))
    data = read_all([str(tmp_path / "wrong.json")], file, version_2=True)
    with pytest.raises(ValueError, match=r"wrong.json: no answer can be located"):
        QuestionAnsweringTask(data, Start(str(checkpoint), keras_bert.load(checkpoint)), SETTINGS)


@pytest.fixture(scope="module")
def preprocessor(pieces):
    return TextPreprocessor(pieces, 10)


def windows(path, preprocessor, *questions, version="v2.0"):
    """Writes a file of `(question, context, answer or None)` and returns its windows."""
    paragraphs = []
    for number, (asked, context, answer) in enumerate(questions):
        answers = []
        if answer is not None:
            answers.append({"text": answer, "answer_start": context.index(answer)})
        entry = {"id": str(number), "question": asked, "answers": answers}
        paragraphs.append({"context": context, "qas": [entry]})
    path.write_text(json.dumps({"version": version, "data": [{"paragraphs": paragraphs}]}))
    return QuestionWindows(read(path), preprocessor, doc_stride=3, max_question_length=2)


def test_the_summary_of_questions(tmp_path, preprocessor):
    train = windows(
        tmp_path / "train.json",
        preprocessor,
        ("y", "a b c d e f g h", "c"),  # In three windows: 6 of its 8 tokens fit.
        ("y x z", "a b", None),
        ("x", "c", "c"),
    )
    dev = windows(
        tmp_path / "dev.json",
        preprocessor,
        (" Y", "A b  c d e f g h", None),  # That of train.
        ("z", "a b", "b"),
        ("z", "b c", None),
        ("z", "d", None),
    )
    settings = QuestionSettings(max_question_length=2)
    summary = summarize([train], dev, None, {"dev": tmp_path / "dev.json"}, settings)
    assert summary.to_json() == {
        "unit": "questions",
        "train": 3,
        "dev": {"dev.json": 4},
        "test": {},
        "windows": 4,
        "overlap": {"dev": 1},
        "answers": {"with an answer": 2, "without an answer": 1},
        "several_windows": pytest.approx(1 / 3),
        "truncated": {"rows": 1, "share": pytest.approx(1 / 3), "sequence_length": 2},
        "baseline": "always no answer",
        "majority": {"exact": 0.75, "f1": 0.75},
    }
    assert summary_facts(summary) == {
        "training windows": "4; 33.3% of the contexts need more than one",
        "answers": "with an answer: 2 (66.7%), without an answer: 1 (33.3%)",
    }
    assert data_summary.facts(summary) == {
        "truncated": "33.3% of the training questions are longer than 2 tokens",
        "majority baseline": "exact 75.00%, f1 75.00% (always no answer)",
    }


def test_version_1_has_no_baseline(tmp_path, preprocessor):
    part = windows(tmp_path / "1.json", preprocessor, ("x", "a b", "a"), version="1.1")
    files = {"dev": "dev.json", "test": "more/test.json"}
    summary = summarize([part], part, part, files, QuestionSettings(max_question_length=2))
    assert summary.majority == {}
    assert summary.test == {"test.json": 1}
    assert "answers" not in summary.more
    assert "majority baseline" not in data_summary.facts(summary)

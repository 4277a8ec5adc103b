"""The summary of questions before training, against counts by hand."""

import json

import pytest

from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.question_answering import data, features
from keras_bert.tasks.question_answering.task import QuestionSettings, summarize, summary_facts
from keras_bert.text.preprocessor import TextPreprocessor

pytestmark = pytest.mark.tensorflow
SETTINGS = QuestionSettings(max_question_length=2)


@pytest.fixture(scope="module")
def preprocessor(pieces):
    return TextPreprocessor(pieces, 10)


def windows(path, preprocessor, version, *questions):
    """Writes a file of `(question, context, answer or None)` and returns its windows."""
    paragraphs = []
    for number, (question, context, answer) in enumerate(questions):
        answers = [{"text": answer, "answer_start": context.index(answer)}] if answer else []
        paragraphs.append({"context": context, "qas": [{"id": str(number), "question": question, "answers": answers}]})
    path.write_text(json.dumps({"version": version, "data": [{"paragraphs": paragraphs}]}))
    return features.QuestionWindows(data.read(path), preprocessor, doc_stride=3, max_question_length=2)


def test_questions(tmp_path, preprocessor):
    shared = ("y", "a b c d e f g h", "c")  # In three windows: 6 of its 8 tokens fit.
    train = windows(tmp_path / "train.json", preprocessor, "v2.0", shared, ("y x z", "a b", None), ("x", "c", "c"))
    same = (" Y", "A b  c d e f g h", None)
    others = ("z", "a b", "b"), ("z", "b c", None), ("z", "d", None)
    dev = windows(tmp_path / "dev.json", preprocessor, "v2.0", same, *others)
    summary = summarize([train], dev, None, {"dev": tmp_path / "dev.json"}, SETTINGS)
    expected = {
        "unit": "questions",
        "train": 3,
        "dev": {"dev.json": 4},
        "test": {},
        "windows": 4,
        "overlap": {"dev": 1},
    }
    expected |= {"answers": {"with an answer": 2, "without an answer": 1}, "several_windows": pytest.approx(1 / 3)}
    expected |= {"truncated": {"rows": 1, "share": pytest.approx(1 / 3), "sequence_length": 2}}
    assert summary.to_json() == expected | {"baseline": "always no answer", "majority": {"exact": 0.75, "f1": 0.75}}
    assert {**summary_facts(summary), **data_summary.facts(summary)} == {
        "training windows": "4; 33.3% of the contexts need more than one",
        "answers": "with an answer: 2 (66.7%), without an answer: 1 (33.3%)",
        "truncated": "33.3% of the training questions are longer than 2 tokens",
        "majority baseline": "exact 75.00%, f1 75.00% (always no answer)",
    }


def test_version_1_has_no_baseline(tmp_path, preprocessor):
    part = windows(tmp_path / "1.json", preprocessor, "1.1", ("x", "a b", "a"))
    summary = summarize([part], part, part, {"dev": "dev.json", "test": "more/test.json"}, SETTINGS)
    assert (summary.majority, summary.test, "answers" in summary.more) == ({}, {"test.json": 1}, False)
    assert "majority baseline" not in data_summary.facts(summary)

"""The SQuAD fine-tuning task, without training."""

import dataclasses
import json
import pathlib

import pytest

import keras_bert
from keras_bert.tasks.base import Start
from keras_bert.tasks.question_answering.data import QuestionSettings, read_all
from keras_bert.tasks.question_answering.task import QuestionAnsweringTask

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
    options = {
        name: value for name, value in dataclasses.asdict(SETTINGS).items() if name not in ("n_best", "null_threshold")
    }
    assert task.run_settings == {"model": str(checkpoint), **files, **options}
    assert "1 answer(s) are not at the given position: wrong" in caplog.text
    assert "1 question(s) have an answer that cannot be located; they are not trained on: wrong" in caplog.text


def test_a_training_file_without_a_located_answer_is_refused(checkpoint, file, tmp_path):
    content = json.loads(pathlib.Path(file).read_text())
    del content["data"][0]["paragraphs"][0]["qas"][:2]
    (tmp_path / "wrong.json").write_text(json.dumps(content))
    data = read_all([str(tmp_path / "wrong.json")], file, version_2=True)
    with pytest.raises(ValueError, match=r"wrong.json: no answer can be located in its context. Expected at least one"):
        QuestionAnsweringTask(data, Start(str(checkpoint), keras_bert.load(checkpoint)), SETTINGS)

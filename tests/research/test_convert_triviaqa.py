"""Tests of the command-line program."""

import json

from keras_bert.tasks.questions import data as squad
from tests.pipelines.programs import call

PROGRAM = "research.convert_triviaqa"


def write(folder):
    """Writes two questions about three documents; one document is missing, one does not mention Köln."""
    (folder / "evidence/wikipedia").mkdir(parents=True)
    (folder / "evidence/wikipedia/Rhine.txt").write_text("Köln lies on the Rhine.", encoding="utf-8")
    (folder / "evidence/wikipedia/Bonn.txt").write_text("Bonn too.", encoding="utf-8")
    pages = [{"Title": name, "Filename": f"{name}.txt"} for name in ("Rhine", "Elbe", "Bonn")]
    answers = {"tc_1": "Köln", "tc_2": "The Rhine"}
    entries = [
        {"QuestionId": name, "Question": "Which?", "Answer": {"Value": text, "Aliases": [text]}, "EntityPages": pages}
        for name, text in answers.items()
    ]
    (folder / "train.json").write_text(json.dumps({"Data": entries, "Domain": "Wikipedia"}))


def test_printed_counts_and_converted_file(tmp_path, monkeypatch):
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    printed = call(PROGRAM, "--qa=train.json", "--evidence=evidence", "--output=out/triviaqa.json")
    assert printed.splitlines() == [
        "2 questions, 6 question-document pairs:",
        "2 without an answer in the first 400 words",
        "2 with a missing document, the first is evidence/wikipedia/Elbe.txt",
        "2 kept, of 2 questions, in 1 contexts: out/triviaqa.json",
    ]
    questions = squad.read(tmp_path / "out/triviaqa.json")
    assert questions.contexts == ["Köln lies on the Rhine."]
    assert questions.ids == ["tc_1--Rhine.txt", "tc_2--Rhine.txt"]
    assert (questions.golds, questions.wrong) == ([["Köln"], ["Rhine"]], [])
    assert questions.spans == [[(0, 5)], [(18, 23)]]  # In bytes; ö has two.

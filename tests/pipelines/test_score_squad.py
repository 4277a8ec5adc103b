"""Tests of the command-line program."""

import json

from tests.pipelines.programs import call

PROGRAM = "pipelines.score_squad"

CONTEXT = "Köln lies on the river Rhine."
QUESTIONS = {"q1": ["Köln"], "q2": [], "q3": ["the river Rhine"], "q4": []}


def entry(name):
    """Returns a question with its answers in `CONTEXT`."""
    answers = []
    for text in QUESTIONS[name]:
        answers.append({"text": text, "answer_start": CONTEXT.index(text)})
    return {"id": name, "question": "Which?", "answers": answers}


def write(path, content):
    """Writes JSON with a byte order mark, as on Windows."""
    path.write_text(json.dumps(content), "utf-8-sig")


def test_version_2_with_odds(tmp_path, monkeypatch, capsys):
    """tests/tasks/question_answering/test_metrics.py has the scores."""
    monkeypatch.chdir(tmp_path)
    paragraph = {"context": CONTEXT, "qas": [entry(name) for name in QUESTIONS]}
    write(tmp_path / "dev.json", {"version": "v2.0", "data": [{"paragraphs": [paragraph]}]})
    answers = {"q1": "KÖLN.", "q2": "Rhine", "q3": "Rhine", "x2": "", "x1": ""}
    write(tmp_path / "answers.json", answers)
    write(tmp_path / "odds.json", {"q1": 0, "q2": 0.7, "q3": 0.25, "q4": 2})
    files = ["--dev_file=dev.json", "--predictions=answers.json", "--na_prob=odds.json"]
    scores = json.loads(call(PROGRAM, *files, "--na_prob_thresh=0.5"))
    # q1 is correct, q2 becomes no answer by its odds, q3 has one of two words, q4 has no prediction.
    expected = {
        "exact": 50,
        "f1": 66.67,
        "HasAns_f1": 83.33,
        "NoAns_f1": 50,
        "best_f1_thresh": 0.25,
        "total": 4,
    }
    assert {name: round(scores[name], 2) for name in expected} == expected
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "question" in line] == [
        "1 question(s) have no prediction and count as 0, the first is q4",
        "2 prediction(s) match no question in the file, the first is x1",
    ]

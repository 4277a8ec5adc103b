"""Tests of the command-line program."""

import json

from tests.pipelines.programs import call

PROGRAM = "pipelines.score_squad"

CONTEXT = "Köln lies on the river Rhine."
QUESTIONS = {"q1": ["Köln"], "q2": [], "q3": ["the river Rhine"], "q4": []}


def test_version_2_with_odds(tmp_path, monkeypatch, capsys):
    """tests/tasks/question_answering/test_metrics.py has the scores. Files have a byte order mark, as on Windows."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "id": name,
            "question": "Which?",
            "answers": [{"text": text, "answer_start": CONTEXT.index(text)} for text in texts],
        }
        for name, texts in QUESTIONS.items()
    ]
    for name, content in {
        "dev": {"version": "v2.0", "data": [{"paragraphs": [{"context": CONTEXT, "qas": rows}]}]},
        "answers": {"q1": "KÖLN.", "q2": "Rhine", "q3": "Rhine", "x2": "", "x1": ""},
        "odds": {"q1": 0, "q2": 0.7, "q3": 0.25, "q4": 2},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content), "utf-8-sig")
    flags = ["--dev_file=dev.json", "--predictions=answers.json", "--na_prob=odds.json", "--na_prob_thresh=0.5"]
    scores = json.loads(call(PROGRAM, *flags))
    # q1 is correct, q2 becomes no answer by its odds, q3 has one of two words, q4 has no prediction.
    expected = {"exact": 50, "f1": 66.67, "HasAns_f1": 83.33, "NoAns_f1": 50, "best_f1_thresh": 0.25, "total": 4}
    assert {name: round(scores[name], 2) for name in expected} == expected
    assert [line for line in capsys.readouterr().err.splitlines() if "question" in line] == [
        "1 question(s) have no prediction and count as 0, the first is q4",
        "2 prediction(s) match no question in the file, the first is x1",
    ]

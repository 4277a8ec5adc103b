"""Tests of the command-line program."""

import json

from tests.pipelines.programs import call, mistake

PROGRAM = "pipelines.score_squad"

QUESTIONS = {"q1": ["Köln"], "q2": [], "q3": ["the river Rhine"], "q4": []}


def questions(**rest):
    """Returns the contents of a file with questions about one context."""
    context = "Köln lies on the river Rhine."
    entries = [
        {
            "id": name,
            "question": "Which?",
            "answers": [{"text": text, "answer_start": context.index(text)} for text in texts],
        }
        for name, texts in QUESTIONS.items()
        if texts or rest
    ]
    return {"data": [{"paragraphs": [{"context": context, "qas": entries}]}], **rest}


def write(folder, **files):
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text, "utf-8-sig")  # With a byte order mark, as on Windows.


def test_version_2_with_odds(tmp_path, monkeypatch, capsys):
    """tests/tasks/questions/test_metrics.py has the scores."""
    monkeypatch.chdir(tmp_path)
    answers = {"q1": "KÖLN.", "q2": "Rhine", "q3": "Rhine", "x2": "", "x1": ""}
    write(tmp_path, dev=questions(version="v2.0"), answers=answers, odds={"q1": 0, "q2": 0.7, "q3": 0.25, "q4": 2})
    flags = ["--dev_file=dev.json", "--predictions=answers.json", "--na_prob=odds.json", "--na_prob_thresh=0.5"]
    scores = json.loads(call(PROGRAM, *flags))
    # q1 is correct, q2 becomes no answer by its odds, q3 has one of two words, q4 has no prediction.
    expected = {"exact": 50, "f1": 66.67, "HasAns_f1": 83.33, "NoAns_f1": 50, "best_f1_thresh": 0.25, "total": 4}
    assert {name: round(scores[name], 2) for name in expected} == expected
    assert [line for line in capsys.readouterr().err.splitlines() if "question" in line] == [
        "1 question(s) have no prediction and count as 0, the first is q4",
        "2 prediction(s) match no question in the file, the first is x1",
    ]


def test_user_errors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    odd = {"list": ["Köln"], "null": {"q1": "Köln", "q2": None}, "text": {"q1": 0.5, "q2": "0.5"}}
    write(tmp_path, old=questions(), new=questions(version="v2.0"), answers={"q1": "Köln"}, odds={"q1": 1}, **odd)
    cases = {
        "none.json": ["none", "answers"],
        "list.json: expected an object with a string for each id. Received: ['Köln']": ["old", "list"],
        "null.json: expected an object with a string for each id. Received: {'q2': None}": ["old", "null"],
        "text.json: expected an object with a number for each id. Received: {'q2': '0.5'}": ["new", "answers", "text"],
        "`no_answer` is for SQuAD 2.0": ["old", "answers", "odds"],
    }
    flags = ("--dev_file={}.json", "--predictions={}.json", "--na_prob={}.json")
    for message, files in cases.items():
        arguments = (flag.format(name) for flag, name in zip(flags, files, strict=False))
        assert message in mistake(PROGRAM, *arguments)

"""Report sections about questions, compared with hand-computed numbers."""

import csv
import dataclasses
import itertools
import math

import pytest

from keras_bert.tasks.question_answering.predictions import AnsweredQuestion
from keras_bert.tasks.question_answering.report import judge_answers
from tests.runs.parsed import having, page_of, rows_of, text_of

# Markup in all texts: a report that does not escape it fails every test.
CONTEXT = "Ada Lovelace wrote the <first> program & in 1843, in London."


def at(context, text):
    first = len(context[: context.index(text)].encode())
    return first, first + len(text.encode())


def row(question="Who wrote <it>?", golds=("Ada Lovelace",), prediction="London", context=CONTEXT, **changes):
    """A wrongly answered question; answers found in the context have the span of their first occurrence."""
    spans = [at(context, gold) for gold in golds if gold in context]
    made = AnsweredQuestion(
        id="q1",
        question=question,
        context=context,
        golds=list(golds),
        gold_spans=spans,
        prediction=prediction,
        place=at(context, prediction) if prediction and prediction in context else None,
        probability=0.5,
        exact=0.0,
        f1=0.0,
    )
    return dataclasses.replace(made, **changes)


@pytest.fixture
def write(tmp_path):
    return lambda rows, version_2=False: page_of(tmp_path, judge_answers(rows, version_2))


def items(page):
    return page.hard("Hardest questions of dev")


def excerpts(item):
    return having(item, "second", "p")


def marks(item, style):
    """Returns the text marked with a style, over all excerpts."""
    return "".join(text_of(mark) for mark in having(item, style, "mark"))


def body_of(table):
    """Returns the texts of the cells below the head of a table."""
    lines = []
    for line in table.find("tbody"):
        lines.append([text_of(cell) for cell in line])
    return lines


def test_sections_of_both_versions(write):
    names = ["Scores on dev", "Learning curves", "Kinds of questions", "Calibration"]
    names += ["Scores by length of the context", "Hardest questions of dev", "All errors"]
    report = write([row()])
    assert list(report.sections) == names
    # One answer with a probability of 50%, which is wrong.
    filled = [line for line in rows_of(report.sections["Calibration"], "list") if line[1] != "0"]
    assert filled == [["40 to 50%", "1", "50.00%", "0.00%"]]
    assert "ECE 50.00%; overconfident by 50.00%" in report.text("Calibration")
    report = write([row()], version_2=True)
    assert list(report.sections) == [*names[:2], "Answer or no answer", *names[2:]]


def test_answer_or_no_answer(write):
    rows = [
        *[row(exact=1.0, f1=1.0)] * 3,
        row(f1=0.5),
        row(prediction=""),
        row(golds=(), prediction="London"),
        *[row(golds=(), prediction="", exact=1.0, f1=1.0)] * 2,
    ]
    section = write(rows, version_2=True).sections["Answer or no answer"]
    (matrix,) = having(section, "heat", "table")
    assert body_of(matrix) == [["answer", "480.0%", "120.0%"], ["no answer", "133.3%", "266.7%"]]
    assert "6 of 8 decisions are correct, 75.00%." in text_of(section)
    assert rows_of(section, "list") == [
        ["HasAns", "5", "60.0%", "70.0%"],  # (3 + 0.5) / 5
        ["NoAns", "3", "66.7%", "66.7%"],
        ["all", "8", "62.5%", "68.8%"],  # 5 / 8 and 5.5 / 8
    ]


def tables(section):
    return list(map(body_of, having(section, "list", "table")))


KINDS = {
    "who": ["Who wrote it?", "Who's there?"],
    "other": ["Whatever and somehow, whereas.", "\u4f55\u6642\uff1f", "who\u017fe"],  # The last has a long s.
    **{"whom": ["To WHOM was it sent?"], "whose": ["Whose program?"], "what": ["In what year, and where?"]},
    **{"when": ["When?"], "where": ["He lived where?"], "which": ["Of which kind"], "why": ["Why?"]},
    **{"how many": ["About how  many?"], "how much": ["How much is it?"], "how": ["How did many come?"]},
}


def test_kinds_of_questions(write):
    rows = list(map(row, itertools.chain.from_iterable(KINDS.values())))
    found, _ = tables(write(rows).sections["Kinds of questions"])
    expected = {name: str(len(questions)) for name, questions in KINDS.items()}
    assert dict(line[:2] for line in found) == expected | {"all": str(len(rows))}


def test_scores_by_kind_and_length(write):
    rows = [
        row("Name it.", ("one",)),
        row("Tell it.", ("one",)),
        row("Say it.", ("one two",), exact=1.0, f1=1.0),
        row("What?", ("one  two\nthree",), exact=1.0, f1=1.0),
        row("What?", ("1 2 3 4", "1"), f1=0.5),
        row("When?", ("1 2 3 4 5",), f1=0.25),
        row("Where?", ("1 2 3 4 5 6 7 8 9",), exact=1.0, f1=1.0),
        row("Where?", (), prediction="", exact=1.0, f1=1.0),
    ]
    kinds, lengths = tables(write(rows).sections["Kinds of questions"])
    assert kinds[0] == ["what", "2", "50.0%", "75.0%"]
    assert kinds[2:] == [
        ["when", "1", "0.0%", "25.0%"],
        ["other", "3", "33.3%", "33.3%"],
        ["all", "8", "50.0%", "59.4%"],  # 4.75 / 8
    ]
    assert [line[0] for line in lengths] == ["1", "2", "3 to 4", "5 to 8", "9 or more", "none", "all"]
    assert lengths[2:4] == [["3 to 4", "2", "50.0%", "75.0%"], ["5 to 8", "1", "0.0%", "25.0%"]]


def test_hardest_questions_are_sorted_by_f1_then_confidence(write):
    rows = [row(id=f"half {n}", f1=0.5, probability=n / 10) for n in range(4)]
    rows += [row(id=f"wrong {n}", probability=n / 100) for n in range(18)]
    rows += [row(id="unsure", probability=None), row(id="nan", probability=math.nan)]
    rows += [row(id="right", exact=1.0, f1=1.0, probability=1.0)]
    rows = [dataclasses.replace(each, context=f"{CONTEXT} {number}") for number, each in enumerate(rows)]
    report = write(rows)
    heads = [text_of(item.find("p")) for item in items(report)]
    names = [head.split(" · ")[0] for head in heads]
    assert names == [*(f"wrong {n}" for n in range(17, -1, -1)), "unsure", "nan"]
    assert heads[0] == "wrong 17 · gold Ada Lovelace · predicted London with 17.0% · F1 0.0%"
    assert heads[-1] == "nan · gold Ada Lovelace · predicted London · F1 0.0%"
    text = report.text("Hardest questions of dev")
    assert "below 100%: 24 of 25." in text
    assert "The 20 with the lowest" in text


def test_contexts_are_not_repeated_and_all_errors_are_in_a_table(write, tmp_path):
    odd = 'Say\t"it"\nnow'
    rows = [row(odd, id="a", probability=0.5), row(id="b", probability=0.9), row(id="c", context="x", f1=0.25)]
    rows += [row(id="d", exact=1.0, f1=1.0), row(id="e", golds=["1", "2", "1"], prediction="", probability=None)]
    report = write(rows)
    assert [text_of(item.find("p")).split(" · ")[0] for item in items(report)] == ["b", "c"]
    assert "errors.tsv, 4 rows" in report.text("All errors")
    with open(tmp_path / "errors.tsv", newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file, "excel-tab")
    assert header == ["id", "question", "gold answers", "prediction", "probability", "exact match", "F1", "context"]
    assert [line[0] for line in lines] == ["b", "a", "e", "c"]
    assert lines[1] == ["a", odd, "Ada Lovelace", "London", "0.5000", "0.0000", "0.0000", CONTEXT]
    assert lines[2][2:5] == ["1 | 2", "", ""]


def test_heads_without_an_answer(write):
    missed = row(prediction="", probability=0.875)
    invented = row(golds=())
    many = row(golds=["a", "b", "a", "c", "d"], probability=None, prediction="")
    heads = [text_of(items(write([one], version_2=True))[0].find("p")) for one in (missed, invented, many)]
    assert heads == [
        "q1 · gold Ada Lovelace · predicted no answer, the best would have 87.5% · F1 0.0%",
        "q1 · unanswerable · predicted London with 50.0% · F1 0.0%",
        "q1 · gold a, b, c, … · predicted no answer · F1 0.0%",
    ]


def styled(element):
    return [(mark.get("class"), text_of(mark)) for mark in element.iter("mark")]


def test_gold_and_prediction_are_highlighted(write):
    (merged,) = excerpts(items(write([row(golds=["Ada", "Ada Lovelace", "Lovelace wrote"])]))[0])
    assert styled(merged) == [("gold", "Ada Lovelace wrote"), ("said", "London")]
    report = write([row()])
    _, question, excerpt = items(report)[0].findall("p")
    assert (text_of(question), text_of(excerpt)) == ("Who wrote <it>?", CONTEXT)
    assert question.get("dir") == excerpt.get("dir") == "auto"
    assert styled(excerpt) == [("gold", "Ada Lovelace"), ("said", "London")]
    (key,) = having(report.sections["Hardest questions of dev"], "key")
    assert styled(key) == [("gold", "gold answer"), ("said", "prediction"), ("gold said", "both")]


def test_distant_excerpts_are_separate(write):
    context = "start " + "longer words " * 60 + "gold " + "of several " * 60 + "said " + "letters each " * 60 + "end"
    near = context.replace("of several " * 60, "of several " * 14)
    far_apart = row(golds=["gold"], prediction="said", context=context)
    # Of several gold answers, the one nearest to the prediction is shown.
    together = [row(golds=golds, prediction="said", context=near) for golds in (["gold"], ["start", "gold"])]
    shown, *joined = [excerpts(item) for item in items(write([far_apart, *together]))]
    for excerpt, word in zip(shown, ("gold", "said"), strict=True):
        text = text_of(excerpt)
        assert (text[:2], text[-2:]) == ("… ", " …")
        assert 200 < len(text) < 300
        assert text[2:-2] in context
        assert set(text.split()) <= {"…", *context.split()}  # Whole words.
        assert [text_of(mark) for mark in excerpt] == [word]
    for (excerpt,) in joined:
        assert [text_of(mark) for mark in excerpt] == ["gold", "said"]


def test_answers_missing_from_the_context(write):
    (item,) = items(write([row(golds=["nowhere"], prediction="", context="word " * 200)]))
    (excerpt,) = excerpts(item)
    text = text_of(excerpt)
    assert (text[:9], text[-6:], list(excerpt)) == ("word word", "word …", [])
    assert 200 < len(text) < 300
    (item,) = items(write([row(prediction="", place=(0, 3))]))
    assert not marks(item, "said")
    context = "x" * 5000  # Long texts are truncated.
    (item,) = items(write([row(context, golds=[context], prediction="", context=context)]))
    assert len(text_of(excerpts(item)[0])) < 500
    assert text_of(having(item, "question")[0]) == "x" * 599 + "…"
    assert len(text_of(item.find("p"))) < 200


WIDE = "a\u00e9\u4e2d\U0001f600z"  # Characters of 1, 2, 3, 4 and 1 bytes.


# Spans of bytes; inside a character: the whole character; beyond the text, and empty spans.
PLACES = {(0, 1): "a", (1, 3): "\u00e9", (3, 6): "\u4e2d", (6, 10): "\U0001f600", (1, 11): WIDE[1:]}
PLACES |= {(2, 3): "\u00e9", (4, 5): "\u4e2d", (2, 7): WIDE[1:4], (9, 11): WIDE[3:], (-3, 1): "a", (10, 99): "z"}
PLACES |= dict.fromkeys([(11, 12), (99, 120), (3, 3), (4, 4), (5, 2)], "")


def test_places_are_bytes(write):
    for span, expected in PLACES.items():
        (item,) = items(write([row(context=WIDE, golds=["?"], gold_spans=[span], prediction="?", place=span)]))
        assert marks(item, "gold") == marks(item, "said") == expected
        assert text_of(excerpts(item)[0]) == WIDE

"""Report sections about taggers, compared with hand-computed numbers and scikit-learn."""

import dataclasses
import itertools
import math
import random

import pytest
from sklearn.metrics import confusion_matrix

from keras_bert.reports.page import NOTHING
from keras_bert.tasks.tagging.metrics import PredictedSentence, matches
from keras_bert.tasks.tagging.report import judge_entities, judge_tags
from tests.runs.parsed import having, page_of, rows_of, text_of

SCORES = [("LOC", 0.5, 1.0, 2 / 3, 1, 2), ("PER", 0.0, 0.0, 0.0, 0, 0), ("all", 0.5, 1.0, 2 / 3, 1, 2)]
HARDEST = "Hardest sentences of dev"
BORDERS = "Borders that are off by one word"


def sentence(text, golds=(), predictions=(), confidences=None, separator=" ", **changes):
    """A sentence of words, with 50% of confidence in every prediction."""
    words = []
    place = 0
    for word in text.split(" "):
        words.append((place, place + len(word)))
        place += len(word) + len(separator)
    if confidences is None:
        confidences = [0.5] * len(predictions)
    made = PredictedSentence(
        line=1,
        text=text.replace(" ", separator),
        words=words,
        golds=list(golds),
        predictions=list(predictions),
        confidences=confidences,
        loss=1.0,
        tokens=len(words) + 2,
    )
    return dataclasses.replace(made, **changes)


@pytest.fixture
def report(tmp_path):
    return lambda rows, scores=SCORES: page_of(tmp_path, judge_entities(rows, scores))


def marked(element):
    """Returns the marked spans and the labels in their order, as pairs of style and text."""
    styles = {"mark": "{}", "bdi": "label {}"}
    parts = [part for part in element.iter() if part.tag == "mark" or "type" in part.get("class", "").split()]
    return [(styles[part.tag].format(part.get("class")).strip(), text_of(part)) for part in parts]


def body_of(table):
    """Returns the texts of the cells below the head of a table."""
    lines = []
    for line in table.find("tbody"):
        lines.append([text_of(cell) for cell in line])
    return lines


def heads(page):
    return [text_of(item.find("p")) for item in page.hard(HARDEST)]


# Each line: gold, prediction, expected kind.
# With markup: a report that does not escape it fails.
WORDS = "Ann of Old York met Bob Lee Ray <b> the Park&"
GOLDS = [("PER", 0, 1), ("LOC", 2, 4), ("PER", 5, 8), ("LOC", 9, 11)]
PREDICTIONS = [("PER", 0, 1), ("ORG", 2, 4), ("LOC", 5, 6), ("PER", 6, 8), ("ORG", 8, 10)]
KINDS = ["correct", "wrong type", "spurious", "wrong border", "wrong type and border"]


def test_each_kind_of_error(report):
    row = sentence(WORDS, [*GOLDS, ("ORG", 4, 5)], PREDICTIONS)
    # The longer of two partners of the same type wins, and any of the same type over those of another type.
    assert [match.kind for match in matches(row)] == [*KINDS[:2], "missed", *KINDS[2:]]
    page = report([row])
    assert rows_of(page.sections["Kinds of errors"], "list") == [
        *([kind, "1", "20.0%", "1", "20.0%"] for kind in (*KINDS[:2], *KINDS[3:])),
        ["missed", "1", "20.0%", NOTHING, NOTHING],
        ["spurious", NOTHING, NOTHING, "1", "20.0%"],
        ["all", "5", "100.0%", "5", "100.0%"],
    ]
    assert heads(page) == [
        "line 1 · 1 wrong type, 1 wrong border, 1 wrong type and border, 1 missed, 1 spurious, 1 correct · loss 1"
    ]
    (table,) = having(page.sections["Confusions of types"], "heat", "table")
    counts = []
    for line in table.find("tbody"):
        counts.append("".join(cell.text or "" for cell in line.findall("td")))
    assert [text_of(cell) for cell in table.find("thead")[0]][1:] == ["LOC", "PER", "ORG", "other borders", "missed"]
    # LOC, PER, ORG, other borders, spurious.
    assert counts == ["00110", "01010", "00001", "011", "100"]
    assert [text_of(cell) for cell in having(table, "hit")] == ["00.0%", "150.0%", "00.0%"]
    names = ["Types of entities", "Kinds of errors", "Confusions of types", BORDERS, "F1 by length", "Calibration"]
    assert list(page.sections)[2:] == [*names, HARDEST, "All errors"]
    assert rows_of(page.sections["Types of entities"], "list") == [
        ["LOC", "50.00%", "100.00%", "66.7%", "1", "2"],
        ["PER", NOTHING, NOTHING, NOTHING, "0", "0"],
        ["all", "50.00%", "100.00%", "66.7%", "1", "2"],
    ]


def test_each_entity_is_counted_once():
    """Random entities; the correct ones are the intersection of both sides."""
    rng = random.Random(0)

    def some():
        cuts = sorted(rng.sample(range(30), 12))
        return [(rng.choice("AB"), first, end) for first, end in zip(cuts[::2], cuts[1::2], strict=True)]

    for _ in range(100):
        row = sentence(" ".join("w" * 30), some(), some())
        found = matches(row)
        for part in ("gold", "prediction"):
            entities = [tuple(getattr(match, part)) for match in found if getattr(match, part)]
            assert sorted(entities) == sorted(getattr(row, f"{part}s"))
        correct = set(row.golds) & set(row.predictions)
        assert {tuple(match.gold) for match in found if match.kind == "correct"} == correct
        missed = [match.gold for match in found if match.kind == "missed"]
        spurious = [match.prediction for match in found if match.kind == "spurious"]
        for gold, other in itertools.product(missed, spurious):
            assert gold.end <= other.start or other.end <= gold.start


def test_borders_off_by_one_word(report):
    def row(gold, predicted, kind="PER", line=1):
        return sentence("the big old man sat", [("PER", *gold)], [(kind, *predicted)], line=line)

    rows = [
        *(row((1, 3), (0, 3), line=line) for line in (7, 8)),
        row((0, 3), (1, 3)),
        row((1, 3), (1, 4)),
        row((1, 4), (1, 3)),
        row((1, 4), (1, 2)),  # Two words.
        row((1, 3), (0, 4)),  # Both borders.
        row((1, 3), (0, 3), "LOC"),
    ]
    page = report(rows)
    assert "5 of 7 wrong borders" in page.text(BORDERS)
    assert [text_of(item.find("p")).replace("\n", "") for item in page.hard(BORDERS)] == [
        "2 one word too long at the start · most frequent: the 2×",
        "1 one word too short at the start · most frequent: the 1×",
        "1 one word too long at the end · most frequent: man 1×",
        "1 one word too short at the end · most frequent: man 1×",
    ]
    examples = [having(item, "sentence", "p") for item in page.hard(BORDERS)]
    assert [len(some) for some in examples] == [1, 1, 1, 1]  # Equal ones are shown once.
    assert text_of(examples[0][0]) == "line 7 the big old PER man sat"
    assert marked(examples[0][0]) == [("said", "the "), ("gold said", "big old"), ("label type", " PER")]
    assert "No border is off by one word." in report(rows[-3:]).text(BORDERS)


def test_f1_by_length(report):
    one = ("A", 0, 1)
    four = ("A", 1, 5)
    seven = ("A", 5, 12)
    rows = [sentence("a", [one], [one], tokens=3)] * 2
    rows += [sentence(" ".join("w" * 12), [one, four, seven], [one, ("A", 1, 4), seven], tokens=14)]
    page = report(rows + [sentence("a", tokens=20)])
    sentences, entities = map(body_of, having(page.sections["F1 by length"], "list", "table"))
    # 2 of 3 entities of the long sentence are correct: 2 * 2 / (3 + 3). The last sentence has no entity.
    assert sentences == [["3", "2", "100.0%"], ["14", "1", "66.7%"], ["20", "1", NOTHING]]
    assert entities == [
        ["1", "3", "3", "100.0%"],
        ["3", "0", "1", "0.0%"],
        ["4", "1", "0", "0.0%"],
        ["5 or more", "1", "1", "100.0%"],
    ]


def test_entities_are_marked_and_labeled(report):
    def shown(golds, predictions, confidences=None, text="Ann of York met Bob"):
        (item,) = report([sentence(text, golds, predictions, confidences)]).hard(HARDEST)
        assert [element.get("dir") for element in having(item, "sentence")] == ["auto"]
        return marked(having(item, "sentence")[0])

    assert shown([("PER", 0, 3), ("PER", 4, 5)], [("LOC", 2, 3), ("PER", 4, 5)], [0.875, 0.5]) == [
        *(("gold", "Ann of "), ("gold said", "York"), ("label type gold", " gold PER")),
        *(("label type said", " predicted LOC 88%"), ("gold said", "Bob"), ("label type", " PER")),
    ]
    # Crossing borders, missed and spurious, without a confidence and without a name.
    assert shown([("", 0, 2), ("", 3, 4)], [("", 1, 3), ("", 4, 5)], [math.nan, 0.999]) == [
        *(("gold", "Ann "), ("gold said", "of"), ("label type gold", " gold entity"), ("said", " York")),
        *(("label type said", " predicted entity"), ("gold", "met"), ("label type gold", " gold entity")),
        *(("said", "Bob"), ("label type said", " predicted entity 100%")),
    ]


def test_adjacent_entities_and_combining_characters(report):
    both = [("PER", 0, 2), ("PER", 2, 3)]
    page = report([sentence("\u738b \u5c0f \u674e \u5728", both, [*both, ("A", 3, 4)], separator="")])
    assert marked(page.hard(HARDEST)[0])[:4:2] == [("gold said", "\u738b\u5c0f"), ("gold said", "\u674e")]
    # A vowel sign and a family of joined emojis stay with the characters before.
    text = "\u0928\u0940a\U0001f469\u200d\U0001f466b"
    parts = sentence("x", [("A", 0, 1), ("A", 1, 2)])
    row = dataclasses.replace(parts, text=text, words=[(0, 1), (3, 4)])
    assert marked(report([row]).hard(HARDEST)[0])[::2] == [("gold", text[:2]), ("gold", text[3:6])]


def test_long_sentences_are_cut(report):
    words = ["word"] * 1000
    ends = [(10 * n, 10 * n + 1) for n in range(20, 80, 10)]
    errors = [("A", *end) for end in ends]
    page = report([sentence(" ".join(words), errors, [("A", 0, 1)])])
    (item,) = page.hard(HARDEST)
    excerpts = having(item, "sentence")
    assert heads(page) == ["line 1 · 6 missed, 1 spurious · loss 1 · the first 5 errors are shown"]
    assert [len(marked(part)) for part in excerpts] == [2] * 5


def test_all_wrong_entities_are_in_a_table():
    rows = [sentence(WORDS, GOLDS, PREDICTIONS, [0.9, 0.8, math.nan, 0.7, 0.95], line=7)]
    rows += [sentence("a b", [("", 1, 2)], line=20)]
    header, *lines = judge_entities(rows, SCORES).report()[1]
    assert header[:7] == ["line", "word", "error", "gold type", "gold", "predicted type", "predicted"]
    assert lines == [
        [7, 9, "wrong type and border", "LOC", "the Park&", "ORG", "<b> the", "0.9500", WORDS],
        [7, 3, "wrong type", "LOC", "Old York", "ORG", "Old York", "0.8000", WORDS],
        [7, 6, "wrong border", "PER", "Bob Lee Ray", "PER", "Lee Ray", "0.7000", WORDS],
        [7, 6, "spurious", "", "", "LOC", "Bob", "", WORDS],
        [20, 2, "missed", "entity", "b", "", "", "", "a b"],
    ]


def test_reports_without_errors_and_without_entities(report):
    page = report([sentence("a", [("A", 0, 1)], [("A", 0, 1)])])
    assert "No sentence has an error." in page.text(HARDEST)
    page = report([sentence("a b")], [("all", math.nan, math.nan, math.nan, 0, 0)])
    assert "Calibration" not in page.sections
    assert rows_of(page.sections["Types of entities"], "list") == [["all", NOTHING, NOTHING, NOTHING, "0", "0"]]
    assert rows_of(page.sections["Kinds of errors"], "list")[-1] == ["all", "0", NOTHING, "0", NOTHING]


def words_row(text, golds, predictions, **changes):
    return sentence(text, golds.split(), predictions.split(), **changes)


def test_tags_of_words(tmp_path):
    rows = [
        words_row("the cat sat", "D N V", "D N N", confidences=[0.9, 0.8, 0.7], line=3, loss=0.5),
        words_row("a dog", "D N", "N N", confidences=[0.95, 0.85], line=9, loss=1.5),
        words_row("it", "X", "X", confidences=[0.75]),
    ]
    judged = judge_tags(rows, ["N", "D", "V"])
    page = page_of(tmp_path, judged)
    names = ["Confusion matrix", "Tags", "Calibration", "Errors by length", HARDEST]
    assert list(page.sections)[2:-1] == names
    (table,) = having(page.sections["Confusion matrix"], "heat", "table")
    counts = []
    for line in table.find("tbody"):
        counts.append([int(cell.text) for cell in line.findall("td")])
    golds = "DNVDNX"
    predictions = "DNNNNX"
    assert counts == confusion_matrix(list(golds), list(predictions), labels=list("NDVX")).tolist()
    assert "4 of 6 are correct, 66.67%." in page.text("Confusion matrix")
    assert rows_of(page.sections["Tags"], "list")[1] == ["D", "100.0%", "50.0%", "66.7%", "2", "1"]
    lengths = [["3", "1", "0.0%"], ["4", "2", "50.0%"], ["5", "3", "33.3%"]]
    assert rows_of(page.sections["Errors by length"], "list") == lengths
    assert heads(page) == ["line 9 · 1 of 2 words wrong · loss 1.5", "line 3 · 1 of 3 words wrong · loss 0.5"]
    labels = [("gold said", "a"), ("label type gold", " gold D"), ("label type said", " predicted N 95%")]
    assert marked(page.hard(HARDEST)[0]) == labels
    assert judged.errors() == [
        ["line", "word", "text", "true", "predicted", "probability", "sentence"],
        [9, 1, "a", "D", "N", "0.9500", "a dog"],
        [3, 3, "sat", "V", "N", "0.7000", "the cat sat"],
    ]


def test_confusions_of_many_types(report):
    golds = [(f"T{number}", number, number + 1) for number in range(41)]
    text = " ".join("w" * 42)
    page = report([sentence(text, golds, [("T7", 3, 4), *golds[4:], ("T1", 41, 42)])] * 2)
    rows = rows_of(page.sections["Confusions of types"], "list")
    assert "the 5 most frequent of the 5 confusions" in page.text("Confusions of types")
    assert rows == [
        ["T0", "missed", "2", "100.0%"],
        ["T1", "missed", "2", "100.0%"],
        ["T2", "missed", "2", "100.0%"],
        ["T3", "T7", "2", "100.0%"],
        ["spurious", "T1", "2", "100.0%"],
    ]

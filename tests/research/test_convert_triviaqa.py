"""A small manual TriviaQA: positions of answers, statistics of pairs, all errors, and the command."""

import json
import pathlib
import unicodedata

import pytest

from keras_bert.tasks.question_answering import data as squad
from research import convert_triviaqa as triviaqa
from tests.pipelines.programs import call
from tests.tasks.files import write


def answer(*aliases, **rest):
    return {"Value": aliases[0], "Aliases": list(aliases), "NormalizedAliases": ["never read"], **rest}


def page(filename, **rest):
    return {"Filename": filename, "Title": filename.removesuffix(".txt").replace("_", " "), **rest}


def entry(name="tc_1", aliases=("Köln",), wikipedia=(), web=(), **rest):
    pages = {"EntityPages": [page(name) for name in wikipedia], "SearchResults": [page(name) for name in web]}
    return {"QuestionId": name, "Question": f"Who is {name}?", "Answer": answer(*aliases), **pages, **rest}


def write_qa(path, *entries, domain="Wikipedia", **rest):
    content = {"Data": list(entries), "Domain": domain, "Split": "train", "VerifiedEval": False, "Version": 1.0}
    path.write_text(json.dumps(content | rest), encoding="utf-8")
    return path


def write_evidence(folder, **files):
    """Writes files given by name without `.txt`; `web__35__x` is web/35/x.txt."""
    for name, content in files.items():
        write(folder.joinpath(*name.split("__")).with_suffix(".txt"), content)
    return folder


def convert(tmp_path, *entries, domain="Wikipedia", **options):
    """Returns the counts and, by paragraph, `(title, context, [(id, question, answer, place), ...])`."""
    qa = write_qa(tmp_path / "qa.json", *entries, domain=domain)
    output = tmp_path / "out.json"
    counts = triviaqa.convert([qa], tmp_path / "evidence", output, **options)
    return counts, read(output)


def read(output):
    content = json.loads(output.read_text(encoding="utf-8"))
    assert (list(content), content["version"], squad.read(output).wrong) == (["version", "data"], "1.1", [])
    rows = []
    for article in content["data"]:
        [paragraph] = article["paragraphs"]
        entries = [(qa["id"], qa["question"], *qa["answers"][0].values()) for qa in paragraph["qas"]]
        rows.append((article["title"], paragraph["context"], entries))
    return rows


@pytest.mark.parametrize(
    ("context", "aliases", "start", "text"),
    [
        ("Romeo saw ROME, rome.", ["rome"], 10, "ROME"),  # Not within a word; any case.
        # The first position of any alias, and the longest alias there.
        ("New York, York, New York City", ["York City", "New York City", "York"], 4, "York"),
        ("the New York City of New York", ["New York", "New York City", "New"], 4, "New York City"),
        # Characters between words are ignored.
        ("St Louis", ["St. Louis"], 0, "St Louis"),
        ("the U.S. Army", ["U. S."], 4, "U.S"),
        ("Schindler’s\nList", ["Schindler's List"], 0, "Schindler’s\nList"),
        # Articles at the ends are optional, letters are not.
        ("by the Beatles, who", ["The Beatles"], 7, "Beatles"),
        ("Lord of Rings, Lord of the Rings", ["The Lord of the Rings"], 15, "Lord of the Rings"),
        ("vitamin C and Vitamin A", ["Vitamin A"], 14, "Vitamin A"),
        ("ha, by A-ha", ["A-ha"], 7, "A-ha"),
        # Numbers are words.
        ("3.5 of 3,000 are 3.", ["3"], 17, "3"),
        # Accents as one or two characters; characters that become longer in lower case.
        ("Ko\u0308ln ko", ["Ko"], 6, "ko"),
        ("in İzmir", ["i\u0307zmir"], 3, "İzmir"),
        ("Die STRASSE, die Straße", ["Straße"], 4, "STRASSE"),
        ("😀 Ωmega Σίσυφος", ["ΣΊΣΥΦΟΣ"], 8, "Σίσυφος"),
        ("हिन्दी हि", ["हि"], 7, "हि"),  # Vowel signs belong to the word.
    ],
)
def test_answer_positions(context, aliases, start, text):
    assert context[start : start + len(text)] == text
    assert triviaqa.find_answer(context, aliases) == (start, start + len(text))
    assert triviaqa.find_answer(context, aliases[::-1]) == (start, start + len(text))


def test_answers_not_found():
    for context, aliases in (
        ("Rome", []),
        ("Rome", ["Rom", "ome", "Rome Rome"]),
        ("New Yorker", ["New York"]),
        ("what? the a An ...", ["?", "...", "", " ", "The", "a", "an", "The The"]),
        ("Hallo\u0301", ["Hallo"]),
        ("", ["x"]),
    ):
        assert triviaqa.find_answer(context, aliases) is None


def test_answers_after_the_first_words_are_dropped(tmp_path):
    for name, before in {"in": 399, "behind": 400}.items():
        write_evidence(tmp_path / "evidence", **{f"wikipedia__{name}": "é " * before + "Köln, and more"})
    entries = [entry(wikipedia=["in.txt", "behind.txt"])]
    counts, rows = convert(tmp_path, *entries)
    assert rows == [("in", "é " * 399 + "Köln,", [("tc_1--in.txt", "Who is tc_1?", "Köln", 798)])]
    assert (counts.kept, counts.dropped) == (1, {"no_answer": 1})
    counts, rows = convert(tmp_path, *entries, max_words=402)
    assert [context.split()[399:] for _, context, _ in rows] == [["Köln,", "and", "more"], ["é", "Köln,", "and"]]


def test_all_pairs_are_counted(tmp_path):
    write_evidence(tmp_path / "evidence", wikipedia__A="In Köln.", wikipedia__empty=" \n", wikipedia__none="In Bonn.")
    first = entry("tc_1", wikipedia=["A.txt", "gone.txt", "empty.txt", "none.txt", "A.txt"])
    first["EntityPages"].append({"Title": "No file"})
    second = entry("tc_2", wikipedia=["gone.txt", "gone too.txt", "A.txt"])
    counts, rows = convert(tmp_path, first, second, entry("tc_3"))
    assert [name for name, *_ in rows[0][2]] == ["tc_1--A.txt", "tc_2--A.txt"]
    dropped = {"missing": 3, "empty": 1, "no_answer": 1, "repeated": 1, "unnamed": 1}
    missing = str(tmp_path / "evidence/wikipedia/gone.txt")
    assert counts == triviaqa.Counts(3, 9, 2, 2, 1, dropped, missing)


def test_multiple_files(tmp_path):
    write_evidence(tmp_path / "evidence", wikipedia__A="In Köln.", web__1__b="Bonn, Köln")
    both = entry("tc_1", wikipedia=["A.txt"], web=["1/b.txt"])
    other = entry("tc_2", ["Bonn"], ["A.txt"], ["1/b.txt"])
    files = [write_qa(tmp_path / "wiki.json", both), write_qa(tmp_path / "web.json", both, other, domain="Web")]
    counts = triviaqa.convert(files, tmp_path / "evidence", tmp_path / "new/out.json")
    assert [(context, [name for name, *_ in entries]) for _, context, entries in read(tmp_path / "new/out.json")] == [
        ("In Köln.", ["tc_1--A.txt"]),
        ("Bonn, Köln", ["tc_1--1/b.txt", "tc_2--1/b.txt"]),
    ]
    assert counts == triviaqa.Counts(3, 5, 3, 2, 2, {"repeated": 1, "no_answer": 1})
    triviaqa.convert(files[1:], tmp_path / "evidence", tmp_path / "web_pages.json", sources=["web"])
    assert [context for _, context, _ in read(tmp_path / "web_pages.json")] == ["Bonn, Köln"]


def test_unverified_entries_of_verified_files_are_dropped(tmp_path):
    write_evidence(tmp_path / "evidence", wikipedia__A="Köln A", wikipedia__B="Köln B")
    question = entry("tc_1", QuestionPartOfVerifiedEval=True)
    question["EntityPages"] = [page("A.txt", DocPartOfVerifiedEval=False), page("B.txt", DocPartOfVerifiedEval=True)]
    entries = [question, entry("tc_2", wikipedia=["B.txt"], QuestionPartOfVerifiedEval=False)]
    kept = {}
    for verified in (True, False):
        qa = write_qa(tmp_path / "qa.json", *entries, VerifiedEval=verified)
        counts = triviaqa.convert([qa], tmp_path / "evidence", tmp_path / "out.json")
        kept[verified] = [name for _, _, those in read(tmp_path / "out.json") for name, *_ in those]
        assert counts.dropped == ({"unverified": 2} if verified else {})
    assert kept == {True: ["tc_1--B.txt"], False: ["tc_1--A.txt", "tc_1--B.txt", "tc_2--B.txt"]}


def test_file_names_and_contents(tmp_path):
    """Some Wikipedia names differ from the file names in case or in the encoding of accents."""
    names = {"Ko\u0308ln": "Köln", "AC_DC": "Ac_dc", "Two": None, "tWO": None, "Exact": "Exact", "exact": "exact"}
    write_evidence(tmp_path / "evidence", **{f"wikipedia__{name}": f"Köln {name}" for name in names})
    wanted = ["Köln.txt", "Ac_dc.txt", "TWO.txt", "exact.txt", "a\x00b.txt", "x" * 300 + ".txt", "no/such.txt"]
    counts, rows = convert(tmp_path, entry(wikipedia=wanted))
    assert [context for _, context, _ in rows] == ["Köln Ko\u0308ln", "Köln AC_DC", "Köln exact"]
    assert [name for _, _, [(name, *_)] in rows] == [f"tc_1--{name}.txt" for name in ("Köln", "Ac_dc", "exact")]
    assert unicodedata.is_normalized("NFC", rows[0][0])
    assert counts.dropped == {"missing": 4}
    # Invalid UTF-8, a lone surrogate, and page titles.
    write_evidence(
        tmp_path / "evidence", wikipedia__A=b"caf\xe9 in K\xc3\xb6ln \xf0\x9f\x98\x80", wikipedia__B="B \x00 Köln"
    )
    question = entry(Question="Who \ud83d?") | {"EntityPages": [{"Filename": "A.txt"}, page("B.txt", Title="Über B")]}
    _, rows = convert(tmp_path, question)
    assert rows[0] == ("A.txt", "caf\ufffd in Köln 😀", [("tc_1--A.txt", "Who ??", "Köln", 8)])
    assert (rows[1][0], rows[1][2][0][2:]) == ("Über B", ("Köln", 4))


@pytest.mark.parametrize(
    ("wrong", "options", "message"),
    [
        ({"Data": {}}, {}, "qa.json: expected TriviaQA's format, an object with a list `Data`"),
        ({"QuestionId": "tc_7", "Question": "Who?"}, {}, "qa.json: tc_7 has no `Answer`. Expected the questions of tr"),
        (entry("tc_7", Answer=answer("x", 5)), {}, "qa.json: tc_7: the answers must be strings. Received: 5"),
        (
            entry("tc_7", wikipedia=["/A.txt"]),
            {},
            "qa.json: tc_7: `Filename` must be a file of the evidence. Received: '/A.txt'",
        ),
        (
            entry("tc_7", wikipedia=["../A"]),
            {},
            "qa.json: tc_7: `Filename` must be a file of the evidence. Received: '../A'",
        ),
        ({}, {"sources": ["wiki"]}, "`sources` must be among wikipedia, web. Received: sources=['wiki']"),
        ({}, {"max_words": 0}, "`max_words` must be positive. Received: max_words=0"),
        ({}, {"evidence": "no"}, "no: no such directory. Expected TriviaQA's evidence, with wikipedia/ and web/"),
        ({}, {"output": "./qa.json"}, "qa.json: is one of the question files. Expected another file to write"),
        ({}, {"max_words": 1}, "none of 1 pairs of question and document has an answer in the first 1 words"),
        ({}, {"evidence": "out"}, "out: all documents are missing, the first is out/wikipedia/A.txt. Expected Trivia"),
    ],
)
def test_mistakes(tmp_path, monkeypatch, wrong, options, message):
    """No file is modified, and no temporary file remains."""
    monkeypatch.chdir(tmp_path)
    write_evidence(tmp_path / "evidence", wikipedia__A="In Köln")
    content = wrong if "Data" in wrong else {}
    qa = write_qa(pathlib.Path("qa.json"), entry(wikipedia=["A.txt"]), *([wrong] if wrong else []), **content)
    (tmp_path / "out.json").write_text("as it was")
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError) as error:
        triviaqa.convert(**{"qa": [qa], "evidence": "evidence", "output": "out.json"} | options)
    assert str(error.value).startswith(message)
    assert (tmp_path / "out.json").read_text() == "as it was"
    assert {file.name for file in tmp_path.iterdir()} == {"evidence", "qa.json", "out.json", "out"}


def test_printed_counts_and_converted_file(tmp_path, monkeypatch):
    """Two questions about three documents; one document is missing, one does not mention Köln."""
    rhine = "The Rhine\tflows past\r\nKöln and Bonn."
    write_evidence(tmp_path / "evidence", wikipedia__Rhine=f"\n  {rhine} \n", wikipedia__Bonn="Bonn too.")
    pages = ["Rhine.txt", "Elbe.txt", "Bonn.txt"]
    write_qa(tmp_path / "train.json", entry("tc_1", ["Köln"], pages), entry("tc_2", ["The Rhine"], pages))
    monkeypatch.chdir(tmp_path)
    flags = "--qa=train.json", "--evidence=evidence", "--output=out/triviaqa.json"
    assert call("research.convert_triviaqa", *flags).splitlines() == [
        "2 questions, 6 question-document pairs:",
        "2 without an answer in the first 400 words",
        "2 with a missing document, the first is evidence/wikipedia/Elbe.txt",
        "2 kept, of 2 questions, in 1 contexts: out/triviaqa.json",
    ]
    questions = squad.read(tmp_path / "out/triviaqa.json")
    assert questions.contexts == [rhine]
    assert questions.ids == ["tc_1--Rhine.txt", "tc_2--Rhine.txt"]
    assert (questions.golds, questions.wrong) == ([["Köln"], ["Rhine"]], [])
    assert questions.spans == [[(22, 27)], [(4, 9)]]  # In bytes; ö has two.

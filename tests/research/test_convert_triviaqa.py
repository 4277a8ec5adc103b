"""A small manual TriviaQA: positions of answers, statistics of pairs, all errors, and the command."""

import json
import pathlib
import unicodedata

import pytest

from keras_bert.tasks.question_answering import data as squad
from research import convert_triviaqa as triviaqa
from tests.pipelines.programs import call
from tests.tasks.files import write


def answer(*aliases):
    return {
        "Value": aliases[0],
        "Aliases": list(aliases),
        "NormalizedAliases": ["never read"],
    }


def page(filename, **rest):
    title = filename.removesuffix(".txt").replace("_", " ")
    return {"Filename": filename, "Title": title} | rest


def entry(name="tc_1", aliases=("Köln",), wikipedia=(), web=(), **rest):
    """Returns a question about pages of Wikipedia and of the web."""
    content = {
        "QuestionId": name,
        "Question": f"Who is {name}?",
        "Answer": answer(*aliases),
        "EntityPages": [page(filename) for filename in wikipedia],
        "SearchResults": [page(filename) for filename in web],
    }
    return content | rest


def write_qa(path, *entries, domain="Wikipedia", **rest):
    content = {
        "Data": list(entries),
        "Domain": domain,
        "Split": "train",
        "VerifiedEval": False,
        "Version": 1.0,
    }
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
    """Returns the paragraphs of a file, after a check that it is one of SQuAD."""
    content = json.loads(output.read_text(encoding="utf-8"))
    assert list(content) == ["version", "data"]
    assert content["version"] == "1.1"
    assert squad.read(output).wrong == []
    rows = []
    for article in content["data"]:
        (paragraph,) = article["paragraphs"]
        entries = []
        for qa in paragraph["qas"]:
            (first,) = qa["answers"]
            entries.append((qa["id"], qa["question"], first["text"], first["answer_start"]))
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


@pytest.mark.parametrize(
    ("context", "aliases"),
    [
        ("Rome", []),
        ("Rome", ["Rom", "ome", "Rome Rome"]),
        ("New Yorker", ["New York"]),
        ("what? the a An ...", ["?", "...", "", " ", "The", "a", "an", "The The"]),
        ("Hallo\u0301", ["Hallo"]),
        ("", ["x"]),
    ],
)
def test_answers_not_found(context, aliases):
    assert triviaqa.find_answer(context, aliases) is None


@pytest.fixture
def long_pages(tmp_path):
    """A question about two pages: one has the answer as its word 400, the other one as the next word."""
    answer_in = "é " * 399 + "Köln, and more"
    behind = "é " * 400 + "Köln, and more"
    write_evidence(tmp_path / "evidence", wikipedia__in=answer_in, wikipedia__behind=behind)
    return entry(wikipedia=["in.txt", "behind.txt"])


def test_answers_after_the_first_words_are_dropped(tmp_path, long_pages):
    counts, rows = convert(tmp_path, long_pages)
    context = "é " * 399 + "Köln,"
    assert rows == [("in", context, [("tc_1--in.txt", "Who is tc_1?", "Köln", 798)])]
    assert counts.kept == 1
    assert counts.dropped == {"no_answer": 1}


def test_a_larger_number_of_words(tmp_path, long_pages):
    _, rows = convert(tmp_path, long_pages, max_words=402)
    ends = [context.split()[399:] for _, context, _ in rows]
    assert ends == [["Köln,", "and", "more"], ["é", "Köln,", "and"]]


def test_all_pairs_are_counted(tmp_path):
    pages = {"wikipedia__A": "In Köln.", "wikipedia__empty": " \n", "wikipedia__none": "In Bonn."}
    write_evidence(tmp_path / "evidence", **pages)
    first = entry("tc_1", wikipedia=["A.txt", "gone.txt", "empty.txt", "none.txt", "A.txt"])
    first["EntityPages"].append({"Title": "No file"})
    second = entry("tc_2", wikipedia=["gone.txt", "gone too.txt", "A.txt"])
    counts, rows = convert(tmp_path, first, second, entry("tc_3"))
    assert ids_by_context(rows) == {"In Köln.": ["tc_1--A.txt", "tc_2--A.txt"]}
    dropped = {"missing": 3, "empty": 1, "no_answer": 1, "repeated": 1, "unnamed": 1}
    missing = str(tmp_path / "evidence/wikipedia/gone.txt")
    assert counts == triviaqa.Counts(3, 9, 2, 2, 1, dropped, missing)


def ids_by_context(rows):
    """Returns the ids of the questions about each context."""
    ids = {}
    for _, context, entries in rows:
        ids[context] = [name for name, *_ in entries]
    return ids


@pytest.fixture
def two_files(tmp_path):
    """Files of questions about Wikipedia and about the web, which share a question."""
    write_evidence(tmp_path / "evidence", wikipedia__A="In Köln.", web__1__b="Bonn, Köln")
    both = entry("tc_1", wikipedia=["A.txt"], web=["1/b.txt"])
    other = entry("tc_2", ["Bonn"], ["A.txt"], ["1/b.txt"])
    wikipedia = write_qa(tmp_path / "wiki.json", both)
    web = write_qa(tmp_path / "web.json", both, other, domain="Web")
    return [wikipedia, web]


def test_multiple_files(tmp_path, two_files):
    output = tmp_path / "new" / "out.json"
    counts = triviaqa.convert(two_files, tmp_path / "evidence", output)
    assert ids_by_context(read(output)) == {
        "In Köln.": ["tc_1--A.txt"],
        "Bonn, Köln": ["tc_1--1/b.txt", "tc_2--1/b.txt"],
    }
    assert counts == triviaqa.Counts(3, 5, 3, 2, 2, {"repeated": 1, "no_answer": 1})


def test_pages_of_one_source(tmp_path, two_files):
    output = tmp_path / "out.json"
    triviaqa.convert(two_files[1:], tmp_path / "evidence", output, sources=["web"])
    assert list(ids_by_context(read(output))) == ["Bonn, Köln"]


@pytest.mark.parametrize(
    ("verified", "kept", "dropped"),
    [
        (True, ["tc_1--B.txt"], {"unverified": 2}),
        (False, ["tc_1--A.txt", "tc_1--B.txt", "tc_2--B.txt"], {}),
    ],
)
def test_unverified_entries_of_verified_files_are_dropped(tmp_path, verified, kept, dropped):
    write_evidence(tmp_path / "evidence", wikipedia__A="Köln A", wikipedia__B="Köln B")
    pages = [
        page("A.txt", DocPartOfVerifiedEval=False),
        page("B.txt", DocPartOfVerifiedEval=True),
    ]
    first = entry("tc_1", QuestionPartOfVerifiedEval=True, EntityPages=pages)
    second = entry("tc_2", wikipedia=["B.txt"], QuestionPartOfVerifiedEval=False)
    qa = write_qa(tmp_path / "qa.json", first, second, VerifiedEval=verified)
    counts = triviaqa.convert([qa], tmp_path / "evidence", tmp_path / "out.json")
    names = []
    for ids in ids_by_context(read(tmp_path / "out.json")).values():
        names.extend(ids)
    assert names == kept
    assert counts.dropped == dropped


def test_names_of_files(tmp_path):
    """Some Wikipedia names differ from the file names in case or in the encoding of accents."""
    for name in ("Ko\u0308ln", "AC_DC", "Two", "tWO", "Exact", "exact"):
        write_evidence(tmp_path / "evidence", **{f"wikipedia__{name}": f"Köln {name}"})
    found = ["Köln.txt", "Ac_dc.txt", "exact.txt"]
    missing = ["TWO.txt", "a\x00b.txt", "x" * 300 + ".txt", "no/such.txt"]
    counts, rows = convert(tmp_path, entry(wikipedia=found + missing))
    assert ids_by_context(rows) == {
        "Köln Ko\u0308ln": ["tc_1--Köln.txt"],
        "Köln AC_DC": ["tc_1--Ac_dc.txt"],
        "Köln exact": ["tc_1--exact.txt"],
    }
    assert unicodedata.is_normalized("NFC", rows[0][0])
    assert counts.dropped == {"missing": 4}


def test_contents_that_are_no_utf_8(tmp_path):
    """Invalid bytes of a page, and a lone surrogate in a question."""
    content = b"caf\xe9 in K\xc3\xb6ln \xf0\x9f\x98\x80"
    write_evidence(tmp_path / "evidence", wikipedia__A=content)
    question = entry(Question="Who \ud83d?", EntityPages=[{"Filename": "A.txt"}])
    _, rows = convert(tmp_path, question)
    assert rows == [("A.txt", "caf\ufffd in Köln 😀", [("tc_1--A.txt", "Who ??", "Köln", 8)])]


def test_the_title_of_a_page(tmp_path):
    write_evidence(tmp_path / "evidence", wikipedia__B="B \x00 Köln")
    _, rows = convert(tmp_path, entry(EntityPages=[page("B.txt", Title="Über B")]))
    assert rows == [("Über B", "B \x00 Köln", [("tc_1--B.txt", "Who is tc_1?", "Köln", 4)])]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with a question and its page, and a file that was there before."""
    monkeypatch.chdir(tmp_path)
    write_evidence(tmp_path / "evidence", wikipedia__A="In Köln")
    write_qa(tmp_path / "qa.json", entry(wikipedia=["A.txt"]))
    (tmp_path / "out.json").write_text("as it was")
    (tmp_path / "out").mkdir()
    return tmp_path


def failing_conversion(folder, **changes):
    """Returns the message of a conversion that fails: nothing is written, and no temporary file remains."""
    options = {"qa": [pathlib.Path("qa.json")], "evidence": "evidence", "output": "out.json"}
    with pytest.raises(ValueError) as error:
        triviaqa.convert(**(options | changes))
    assert (folder / "out.json").read_text() == "as it was"
    names = {file.name for file in folder.iterdir()}
    assert names == {"evidence", "qa.json", "out.json", "out"}
    return str(error.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"QuestionId": "tc_7", "Question": "Who?"},
            "qa.json: tc_7 has no `Answer`. Expected the questions of tr",
        ),
        (
            entry("tc_7", Answer=answer("x", 5)),
            "qa.json: tc_7: the answers must be strings. Received: 5",
        ),
        (
            entry("tc_7", wikipedia=["/A.txt"]),
            "qa.json: tc_7: `Filename` must be a file of the evidence. Received: '/A.txt'",
        ),
        (
            entry("tc_7", wikipedia=["../A"]),
            "qa.json: tc_7: `Filename` must be a file of the evidence. Received: '../A'",
        ),
    ],
)
def test_wrong_questions(folder, wrong, message):
    write_qa(folder / "qa.json", entry(wikipedia=["A.txt"]), wrong)
    assert failing_conversion(folder).startswith(message)


def test_a_file_of_another_format(folder):
    (folder / "qa.json").write_text('{"Data": {}}')
    message = "qa.json: expected TriviaQA's format, an object with a list `Data`"
    assert failing_conversion(folder).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"sources": ["wiki"]},
            "`sources` must be among wikipedia, web. Received: sources=['wiki']",
        ),
        ({"max_words": 0}, "`max_words` must be positive. Received: max_words=0"),
        (
            {"evidence": "no"},
            "no: no such directory. Expected TriviaQA's evidence, with wikipedia/ and web/",
        ),
        (
            {"output": "./qa.json"},
            "qa.json: is one of the question files. Expected another file to write",
        ),
        (
            {"max_words": 1},
            "none of 1 pairs of question and document has an answer in the first 1 words",
        ),
        (
            {"evidence": "out"},
            "out: all documents are missing, the first is out/wikipedia/A.txt. Expected Trivia",
        ),
    ],
)
def test_wrong_options(folder, options, message):
    assert failing_conversion(folder, **options).startswith(message)


def test_printed_counts_and_converted_file(tmp_path, monkeypatch):
    """Two questions about three documents; one document is missing, one does not mention Köln."""
    rhine = "The Rhine\tflows past\r\nKöln and Bonn."
    contents = {"wikipedia__Rhine": f"\n  {rhine} \n", "wikipedia__Bonn": "Bonn too."}
    write_evidence(tmp_path / "evidence", **contents)
    pages = ["Rhine.txt", "Elbe.txt", "Bonn.txt"]
    first = entry("tc_1", ["Köln"], pages)
    second = entry("tc_2", ["The Rhine"], pages)
    write_qa(tmp_path / "train.json", first, second)
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
    assert questions.golds == [["Köln"], ["Rhine"]]
    assert questions.wrong == []
    assert questions.spans == [[(22, 27)], [(4, 9)]]  # In bytes; ö has two.

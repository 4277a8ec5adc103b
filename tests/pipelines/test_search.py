"""Tests of the command-line program."""

import json
import shutil

import pytest

import keras_bert
from tests.pipelines.programs import call, mistake, read_jsonl, write_jsonl

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
PROGRAM = "pipelines.search"
PASSAGES = [
    {"id": "p0", "text": "a b c"},
    {"id": "p1", "text": ""},
    {"id": "p2", "text": "d e f"},
    {"id": "p3", "text": "x y z"},
    {"id": "p\n4", "text": "q\nr"},
]


@pytest.fixture(scope="module")
def folder(config, pieces, tmp_path_factory):
    """A model, passages, queries, judgments, and the index."""
    folder = tmp_path_factory.mktemp("search")
    keras_bert.save(keras_bert.build_encoder(config), folder / "model", pieces)
    pairs = keras_bert.build_classifier(keras_bert.build_encoder(config), 2)
    keras_bert.save(pairs, folder / "pairs", pieces, labels=["no", "yes"], pair=True)
    write_jsonl(folder / "passages.jsonl", PASSAGES)
    (folder / "queries.txt").write_text("a b c\nx y z\n")
    (folder / "qrels.tsv").write_text("query_id\tpassage_id\n0\tp0\n1\tp3\n1\tp2\n")
    files = [f"--input={folder}/passages.jsonl", f"--index={folder}/index"]
    printed = call(PROGRAM, f"--model={folder}/model", *files, "--block=2", "--dtype=int8")
    assert printed.startswith(f"index:        {folder}/index, 5 passages\nnext: ")
    command = " ".join(printed.replace("\\", "").split())
    assert f'pipelines.search --index={folder}/index --query="..."' in command
    return folder


def printed_lines(*arguments):
    """Runs the command; returns the cells of its lines."""
    printed = call(PROGRAM, *arguments)
    return [line.split("\t") for line in printed.splitlines()]


def test_a_query(folder):
    """The index knows its model. Lines have no line breaks; with more passages than there are, all are printed."""
    lines = printed_lines(f"--index={folder}/index", "--query=a b c", "--n_best=9")
    hits = keras_bert.search.open_index(folder / "index").search("a b c", n_best=9)
    scores, names, texts = zip(*lines, strict=True)
    assert list(names) == [hit["id"].replace("\n", " ") for hit in hits]
    expected = [hit["score"] for hit in hits]
    assert [float(score) for score in scores] == pytest.approx(expected, abs=1e-4)
    assert sorted(texts) == ["", "a b c", "d e f", "q r", "x y z"]


def test_two_queries(folder):
    """The shell gave the second one in another encoding than UTF-8."""
    queries = ["--query=a b c", "--query=x y z\udcff"]
    lines = printed_lines(f"--index={folder}/index", *queries, "--n_best=1")
    assert [line[-1] for line in lines] == ["a b c", "a b c", "x y z?", "x y z"]


@pytest.fixture
def judged(folder):
    """Flags of queries with judgments."""
    return [
        f"--index={folder}/index",
        f"--queries={folder}/queries.txt",
        f"--relevance={folder}/qrels.tsv",
    ]


def test_output_and_scores(folder, judged):
    output = folder / "results.jsonl"
    wrote, scores = call(PROGRAM, *judged, f"--output={output}", "--n_best=2").splitlines()
    first, second = read_jsonl(output)
    assert (first["id"], first["query"], len(first["hits"])) == ("0", "a b c", 2)
    assert (second["id"], second["query"], len(second["hits"])) == ("1", "x y z", 2)
    assert first["hits"][0]["id"] == "p0"
    assert second["hits"][0]["id"] == "p3"
    assert wrote == f"wrote the passages of 2 queries to {output}"
    assert scores.startswith("recall@1 75.00%, recall@10 100.00%, MRR@10 100.00%, nDCG@10 ")
    assert call(PROGRAM, *judged) == f"{scores}\n"


def test_reranking(folder):
    """The order is that of the cross-encoder."""
    query = [f"--index={folder}/index", "--query=a b c", "--n_best=5"]
    lines = printed_lines(*query, f"--rerank={folder}/pairs")
    pairs = [("a b c", passage["text"]) for passage in PASSAGES]
    answers = keras_bert.load(folder / "pairs").predict(pairs)
    expected = {}
    for passage, answer in zip(PASSAGES, answers, strict=True):
        expected[passage["id"].replace("\n", " ")] = answer["scores"]["yes"]
    found = {name: float(score) for score, name, _ in lines}
    assert found == pytest.approx(expected, abs=1e-4)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_scores_of_reranking(folder, judged):
    before, after = call(PROGRAM, *judged, f"--rerank={folder}/pairs").splitlines()
    assert before == f"before reranking: {call(PROGRAM, *judged).strip()}"
    assert after.startswith("after reranking:  recall@1 ")


def test_adding_and_removing(folder):
    """The index answers as one that is built of the same passages."""
    shutil.copytree(folder / "index", folder / "changed")
    (folder / "more.csv").write_text("id,text\nn1,x y\nn2,a a a\n")
    (folder / "gone.txt").write_text("p1\n\nn2\n")
    index = f"--index={folder}/changed"
    printed = call(PROGRAM, index, f"--add={folder}/more.csv", "--query=a b c", "--n_best=1")
    assert printed.startswith(f"index:        {folder}/changed, 2 added, 7 passages now\n")
    assert printed.splitlines()[1].split("\t")[1:] == ["p0", "a b c"]
    printed = call(PROGRAM, index, f"--remove_file={folder}/gone.txt")
    assert printed == f"index:        {folder}/changed, 2 removed, 5 passages now\n"
    printed = call(PROGRAM, index, "--remove=p2", "--remove=p3")
    assert printed.endswith("2 removed, 3 passages now\n")
    assert list(keras_bert.search.open_index(folder / "changed").ids()) == ["p0", "p\n4", "n1"]
    assert mistake(PROGRAM, index, "--remove=p2") == "the index has no passage with the id 'p2'"
    message = mistake(PROGRAM, index, f"--add={folder}/more.csv")
    assert "already has a passage with the id 'n1'" in message


def paragraph(name, context, question):
    return {"context": context, "qas": [{"id": name, "question": question, "answers": []}]}


def test_squad_in_one_command(folder):
    paragraphs = [paragraph("0", "a b c", "a b c"), paragraph("1", "q r", "x y")]
    content = {"version": "2.0", "data": [{"title": "T", "paragraphs": paragraphs}]}
    (folder / "squad.json").write_text(json.dumps(content))
    files = [f"--index={folder}/squad", f"--squad={folder}/squad.json"]
    index, scores = call(PROGRAM, f"--model={folder}/model", *files).splitlines()
    assert index == f"index:        {folder}/squad, 2 passages"
    assert scores.endswith("(2 queries)")


def test_relevant_passages_that_are_not_in_the_index(folder, caplog):
    (folder / "other.txt").write_text("0 0 p0 1\n1 0 elsewhere 1\n")
    queries = [f"--queries={folder}/queries.txt", f"--relevance={folder}/other.txt"]
    call(PROGRAM, f"--index={folder}/index", *queries)
    assert "1 of 2 relevant passages are not in the index. The first: 'elsewhere'" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--query=a", "--rerank={folder}/model"],
            "a cross-encoder must be a classifier or a regression model",
        ),
        (["--query=a", "--model={folder}/other"], "{folder}/other: no such checkpoint"),
        (
            ["--query=a", "--model={folder}/pairs"],
            "{folder}/index was built with another model",
        ),
        (
            ["--model={folder}/model", "--input={folder}/queries.txt"],
            "{folder}/index is an index of other passages",
        ),
    ],
)
def test_user_errors(folder, arguments, message):
    """Of models; tests/pipelines/test_early_checks.py has those that are found before."""
    given = [argument.format(folder=folder) for argument in arguments]
    told = mistake(PROGRAM, f"--index={folder}/index", *given)
    assert told.startswith(message.format(folder=folder))

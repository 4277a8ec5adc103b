"""Tests of the command-line program."""

import json
import shutil

import pytest

import keras_bert
from tests.pipelines.programs import call, mistake

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]
PROGRAM = "pipelines.search"
PASSAGES = [{"id": f"p{number}", "text": text} for number, text in enumerate(["a b c", "", "d e f", "x y z"])]
PASSAGES += [{"id": "p\n4", "text": "q\nr"}]


@pytest.fixture(scope="module")
def folder(config, pieces, tmp_path_factory):
    """A model, passages, queries, judgments, and the index."""
    folder = tmp_path_factory.mktemp("search")
    keras_bert.save(keras_bert.build_encoder(config), folder / "model", pieces)
    pairs = keras_bert.build_classifier(keras_bert.build_encoder(config), 2)
    keras_bert.save(pairs, folder / "pairs", pieces, labels=["no", "yes"], pair=True)
    (folder / "passages.jsonl").write_text("".join(json.dumps(passage) + "\n" for passage in PASSAGES))
    (folder / "queries.txt").write_text("a b c\nx y z\n")
    (folder / "qrels.tsv").write_text("query_id\tpassage_id\n0\tp0\n1\tp3\n1\tp2\n")
    arguments = [f"--model={folder}/model", f"--input={folder}/passages.jsonl", f"--index={folder}/index"]
    printed = call(PROGRAM, *arguments, "--block=2", "--dtype=int8")
    assert printed.startswith(f"index:        {folder}/index, 5 passages\nnext: ")
    assert f'pipelines.search --index={folder}/index --query="..."' in " ".join(printed.replace("\\", "").split())
    return folder


def test_a_query(folder):
    """The index knows its model. Lines have no line breaks; with more passages than there are, all are printed."""
    index = f"--index={folder}/index"
    lines = [line.split("\t") for line in call(PROGRAM, index, "--query=a b c", "--n_best=9").splitlines()]
    expected = keras_bert.search.open_index(folder / "index").search("a b c", n_best=9)
    assert [line[1] for line in lines] == [hit["id"].replace("\n", " ") for hit in expected]
    assert [float(line[0]) for line in lines] == pytest.approx([hit["score"] for hit in expected], abs=1e-4)
    assert sorted(line[2] for line in lines) == sorted(["a b c", "", "d e f", "x y z", "q r"])
    two = call(PROGRAM, index, "--query=a b c", "--query=x y z\udcff", "--n_best=1").splitlines()
    assert [line.split("\t")[-1] for line in two] == ["a b c", "a b c", "x y z?", "x y z"]  # The shell's were no UTF-8.


def test_output_and_scores(folder):
    arguments = [f"--index={folder}/index", f"--queries={folder}/queries.txt", f"--relevance={folder}/qrels.tsv"]
    printed = call(PROGRAM, *arguments, f"--output={folder}/results.jsonl", "--n_best=2")
    results = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert [(result["id"], result["query"], len(result["hits"])) for result in results] == [
        ("0", "a b c", 2),
        ("1", "x y z", 2),
    ]
    assert [result["hits"][0]["id"] for result in results] == ["p0", "p3"]
    first, scores = printed.splitlines()
    assert first == f"wrote the passages of 2 queries to {folder}/results.jsonl"
    assert scores.startswith("recall@1 75.00%, recall@10 100.00%, MRR@10 100.00%, nDCG@10 ")
    assert call(PROGRAM, *arguments) == f"{scores}\n"


def test_reranking(folder):
    arguments = [f"--index={folder}/index", "--query=a b c", f"--rerank={folder}/pairs", "--n_best=5"]
    lines = [line.split("\t") for line in call(PROGRAM, *arguments).splitlines()]
    bert = keras_bert.load(folder / "pairs")
    answers = bert.predict([("a b c", passage["text"]) for passage in PASSAGES])
    names = [" ".join(passage["id"].split()) for passage in PASSAGES]
    expected = {name: answer["scores"]["yes"] for name, answer in zip(names, answers, strict=True)}
    assert {line[1]: float(line[0]) for line in lines} == pytest.approx(expected, abs=1e-4)
    assert [line[0] for line in lines] == sorted((line[0] for line in lines), reverse=True)
    scored = [f"--index={folder}/index", f"--queries={folder}/queries.txt", f"--relevance={folder}/qrels.tsv"]
    before, after = call(PROGRAM, *scored, f"--rerank={folder}/pairs").splitlines()
    assert before == f"before reranking: {call(PROGRAM, *scored).strip()}"
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
    assert call(PROGRAM, index, "--remove=p2", "--remove=p3").endswith("2 removed, 3 passages now\n")
    assert list(keras_bert.search.open_index(folder / "changed").ids()) == ["p0", "p\n4", "n1"]
    assert mistake(PROGRAM, index, "--remove=p2") == "the index has no passage with the id 'p2'"
    assert "already has a passage with the id 'n1'" in mistake(PROGRAM, index, f"--add={folder}/more.csv")


def test_squad_in_one_command(folder, caplog):
    questions = [{"id": str(number), "question": text, "answers": []} for number, text in enumerate(["a b c", "x y"])]
    paragraphs = [
        {"context": text, "qas": [question]} for text, question in zip(["a b c", "q r"], questions, strict=True)
    ]
    content = {"version": "2.0", "data": [{"title": "T", "paragraphs": paragraphs}]}
    (folder / "squad.json").write_text(json.dumps(content))
    arguments = [f"--model={folder}/model", f"--index={folder}/squad", f"--squad={folder}/squad.json"]
    index, scores = call(PROGRAM, *arguments).splitlines()
    assert (index, scores[-11:]) == (f"index:        {folder}/squad, 2 passages", "(2 queries)")


def test_relevant_passages_that_are_not_in_the_index(folder, caplog):
    (folder / "other.txt").write_text("0 0 p0 1\n1 0 elsewhere 1\n")
    call(PROGRAM, f"--index={folder}/index", f"--queries={folder}/queries.txt", f"--relevance={folder}/other.txt")
    assert "1 of 2 relevant passages are not in the index. The first: 'elsewhere'" in caplog.text


def test_user_errors(folder):
    """Of models; tests/pipelines/test_early_checks.py has those that are found before."""
    index = f"--index={folder}/index"
    model = f"--model={folder}/model"
    query = "--query=a"
    for arguments, message in (
        ([index, query, f"--rerank={folder}/model"], "a cross-encoder must be a classifier or a regression model"),
        ([index, query, f"--model={folder}/other"], f"{folder}/other: no such checkpoint"),
        ([index, query, f"--model={folder}/pairs"], f"{folder}/index was built with another model"),
        ([index, model, f"--input={folder}/queries.txt"], f"{folder}/index is an index of other passages"),
    ):
        assert mistake(PROGRAM, *arguments).startswith(message), arguments

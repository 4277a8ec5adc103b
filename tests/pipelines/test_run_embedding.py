"""The command, on questions that share letters with their passages."""

import csv
import dataclasses
from unittest import mock

import numpy as np
import pytest

import keras_bert
from tests.conftest import SEED, eagerly
from tests.pipelines.programs import (
    call,
    finetune,
    flags_of,
    mistake,
    no_fit,
    read_json,
    read_jsonl,
    read_table,
    write_jsonl,
)

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.run_embedding"


def write_pairs(path, count, seed):
    """Queries are the first three letters of passages of six, some of which have two queries."""
    rng = np.random.default_rng(seed)
    rows = []
    passage = ""
    for number in range(count):
        is_repeated = number % 4 == 3
        if is_repeated:
            query = passage[2:7]
        else:
            passage = " ".join(rng.choice(list("abcdefghijklmnop"), 6))
            query = passage[:5]
        rows.append({"query": query, "passage": passage})
    write_jsonl(path, rows)


# Queries, a right passage, and up to two wrong ones.
TRIPLETS = [
    ["a b", "a b c", "d e f"],
    ["d e", "d e f", "a b c", "b c"],
    ["a", "p o", "a"],
    ["b", "c"],
    ["d", "o", "a", "d"],
]


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    """A folder with data files and a model to start from."""
    made = tmp_path_factory.mktemp("pairs")
    write_pairs(made / "train.jsonl", 32, 0)
    write_pairs(made / "dev.jsonl", 16, 1)
    with (made / "triplets.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["query", "positive", "negative", "negative2"])
        for row in TRIPLETS:
            table.writerow(row + [""] * (4 - len(row)))
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    without_dropout = dataclasses.replace(config, **no_dropout)
    keras_bert.save(keras_bert.build_encoder(without_dropout), made / "bert", pieces)
    return made


def arguments(made, output, **changes):
    """Returns the flags of a run."""
    values = {
        "train_file": f"{made}/train.jsonl",
        "dev_file": f"{made}/dev.jsonl",
        "model": f"{made}/bert",
        "output_dir": made / output,
        "sequence_length": 12,
        "seed": SEED,
        "epochs": 1,
        "batch_size": 16,
        "learning_rate": "1e-2",
    }
    return flags_of(values, **changes)


def test_frozen_layers(made):
    told = mistake(PROGRAM, *arguments(made, "mistakes", freeze_layers=1))
    assert told.startswith("--freeze_layers: nothing is left to train. Received: 1")


PROMPTS = {"normalize": True, "query_prompt": "a ", "passage_prompt": ""}


@pytest.fixture(scope="module")
def pairs(made):
    """The folder of a run with pairs, what it printed, and the arguments of its export."""
    with mock.patch("keras_bert.runs.results.export") as export, eagerly():
        printed = call(PROGRAM, *arguments(made, "pairs", **PROMPTS))
    return made / "pairs", printed, export.call_args.kwargs


@pytest.fixture(scope="module")
def ranked(made, pairs):
    """The rows of dev, its passages, their scores for each query, and the ranks of the right ones.

    They are found by the saved model, in a loop.
    """
    rows = read_jsonl(made / "dev.jsonl")
    passages = list(dict.fromkeys(row["passage"] for row in rows))
    bert = keras_bert.load(pairs[0] / "model")
    queries = bert.encode([row["query"] for row in rows], prompt_name="query")
    scores = queries @ bert.encode(passages).T
    ranks = []
    for row, scores_of_row in zip(rows, scores, strict=True):
        own = scores_of_row[passages.index(row["passage"])]
        ranks.append(1 + int(np.sum(scores_of_row > own + 1e-6)))
    return rows, passages, scores, np.array(ranks)


@pytest.mark.kernels
def test_the_scores_of_pairs(pairs, ranked):
    output, _, _ = pairs
    *_, ranks = ranked
    report = read_json(output / "results.json")
    assert report["scores"]["recall@1"] == pytest.approx(np.mean(ranks == 1))
    assert report["facts"]["training examples"] == "train.jsonl: 32 pairs"


@pytest.mark.kernels
def test_the_errors_of_pairs(pairs, ranked):
    """Queries whose right passage is not the first one, the worst first."""
    output, _, _ = pairs
    rows, passages, scores, ranks = ranked
    header, errors = read_table(output / "errors.tsv")
    assert header == ["rank", "row", "query", "passage", "wrong_passage"]
    found = {}
    for rank, row, _, _, wrong in errors:
        found[int(row)] = int(rank)
        assert wrong == passages[scores[int(row) - 1].argmax()]
    expected = {row: rank for row, rank in enumerate(ranks, 1) if rank > 1}
    assert found == expected
    assert list(found.values()) == sorted(expected.values(), reverse=True)
    assert f"right one: {len(errors)} of {len(rows)}" in (output / "report.html").read_text()


@pytest.mark.kernels
def test_the_score_before_training(pairs):
    """That of the model without its new prompt."""
    output, printed, _ = pairs
    report = read_json(output / "results.json")
    before = report["best"]["before"]["MRR@10"]
    assert "before training: MRR@10 " in printed
    assert 0 < before < report["scores"]["MRR@10"]
    fact = report["facts"]["scores before training"]
    assert fact.startswith(f"MRR@10 {100 * before:.2f}%, recall@1 ")


def test_the_model_of_pairs(made, pairs):
    output, _, exported = pairs
    bert = keras_bert.load(output / "model")
    assert bert.pooling == "mean"
    assert bert.normalize is True
    assert bert.sequence_length == 12
    assert bert.prompts == {"query": "a ", "document": ""}
    assert "library_name: sentence-transformers" in (output / "model" / "README.md").read_text()
    options = exported.copy()
    for name in ("add_signatures", "overwrite", "columns", "task"):
        del options[name]
    first = read_jsonl(made / "dev.jsonl")[0]
    assert options == {
        "example": {"text": first["query"]},
        "prompts": bert.prompts,
        "default_prompt_name": None,
    }


@pytest.mark.usefixtures("eager")
def test_triplets(made):
    """The errors are rows with a wrong passage that is more similar, by the vectors of the saved model."""
    output = made / "triplets"
    files = dict.fromkeys(("train_file", "dev_file"), f"{made}/triplets.csv")
    finetune(PROGRAM, *arguments(made, output, **files, pooling="cls", loss="triplet"), fit=no_fit)
    bert = keras_bert.load(output / "model")
    assert bert.pooling == "cls"
    compared = [(row, texts) for row, texts in enumerate(TRIPLETS, 1) if len(texts) > 2]
    expected = {}
    for row, texts in compared:
        query, right, *wrong = texts
        own, *others = bert.similarity([query], [right, *wrong])[0]
        if max(others) >= own:
            excess = pytest.approx(float(max(others) - own), abs=1e-4)
            expected[row] = (excess, wrong[np.argmax(others)])
    header, errors = read_table(output / "errors.tsv")
    assert header == ["excess", "row", "query", "passage", "wrong_passage"]
    found = {int(row): (float(excess), wrong) for excess, row, _, _, wrong in errors}
    assert found == expected
    assert 0 < len(errors) < len(compared)
    report = read_json(output / "results.json")
    assert report["scores"]["accuracy"] == pytest.approx(1 - len(errors) / len(compared))

"""The command, on questions that share letters with their passages."""

import csv
import dataclasses
import json
from unittest import mock

import numpy as np
import pytest

import keras_bert
from tests.conftest import SEED, eagerly
from tests.pipelines.programs import call, finetune, flags_of, mistake, no_fit, read_json

pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.run_embedding"


def write_pairs(path, count, seed):
    """Queries are the first three letters of passages of six, some of which have two queries."""
    rng = np.random.default_rng(seed)
    with path.open("w") as file:
        for number in range(count):
            if number % 4 != 3:
                letters = " ".join(rng.choice(list("abcdefghijklmnop"), 6))
            query = letters[:5] if number % 4 != 3 else letters[2:7]
            file.write(json.dumps({"query": query, "passage": letters}) + "\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory, config, pieces):
    """A folder with data files and a model to start from."""
    made = tmp_path_factory.mktemp("pairs")
    for name, count, seed in (("train", 32, 0), ("dev", 16, 1)):
        write_pairs(made / f"{name}.jsonl", count, seed)
    (made / "one.csv").write_text("sentence1,sentence2,score\na,b,1\nb,c,0.25\n")
    triplets = ["a b,a b c,d e f,", "d e,d e f,a b c,b c", "a,p o,a,", "b,c,,", "d,o,a,d"]
    (made / "triplets.csv").write_text("\n".join(["query,positive,negative,negative2", *triplets]) + "\n")
    still = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    keras_bert.save(keras_bert.build_encoder(still), made / "bert", pieces)
    return made


def arguments(made, output, **changes):
    values = {"train_file": f"{made}/train.jsonl", "dev_file": f"{made}/dev.jsonl", "model": f"{made}/bert"}
    values |= {"output_dir": f"{made}/{output}", "sequence_length": 12, "seed": SEED}
    return flags_of(values, **{"epochs": 1, "batch_size": 16, "learning_rate": "1e-2", **changes})


def test_frozen_layers(made):
    assert mistake(PROGRAM, *arguments(made, "mistakes", freeze_layers=1)).startswith(
        "--freeze_layers: nothing is left to train. Received: 1"
    )


PROMPTS = {"normalize": True, "query_prompt": "a ", "passage_prompt": ""}


@pytest.fixture(scope="module")
def pairs(made):
    """The folder of a run with pairs, what it printed, and the arguments of its export."""
    with mock.patch("keras_bert.runs.results.export") as export, eagerly():
        printed = call(PROGRAM, *arguments(made, "pairs", **PROMPTS))
    return made / "pairs", printed, export.call_args.kwargs


@pytest.mark.kernels
@pytest.mark.usefixtures("eager")
def test_pairs(made, pairs):
    """The results are those of the saved model, found by a loop."""
    output, printed, exported = pairs
    report = read_json(output / "results.json")
    bert = keras_bert.load(output / "model")
    assert (bert.pooling, bert.normalize, bert.sequence_length) == ("mean", True, 12)
    assert bert.prompts == {"query": "a ", "document": ""}
    rows = [json.loads(line) for line in (made / "dev.jsonl").read_text().splitlines()]
    passages = list(dict.fromkeys(row["passage"] for row in rows))
    scores = bert.encode([row["query"] for row in rows], prompt_name="query") @ bert.encode(passages).T
    own = [line[passages.index(row["passage"])] for row, line in zip(rows, scores, strict=True)]
    ranks = 1 + np.sum(scores > np.array(own)[:, None] + 1e-6, axis=1)
    assert report["scores"]["recall@1"] == pytest.approx(np.mean(ranks == 1))
    assert report["facts"]["training examples"] == "train.jsonl: 32 pairs"
    header, *errors = csv.reader((output / "errors.tsv").read_text().splitlines(), "excel-tab")
    assert header == ["rank", "row", "query", "passage", "wrong_passage"]
    expected = {row: rank for row, rank in enumerate(ranks, 1) if rank > 1}
    assert {int(row): int(rank) for rank, row, *_ in errors} == expected
    assert all(wrong == passages[scores[int(row) - 1].argmax()] for _, row, _, _, wrong in errors)
    assert [int(rank) for rank, *_ in errors] == sorted(expected.values(), reverse=True)
    assert f"right one: {len(errors)} of {len(rows)}" in (output / "report.html").read_text()
    # The score of the model before training, without its new prompt.
    assert "before training: MRR@10 " in printed
    before = report["best"]["before"]["MRR@10"]
    assert 0 < before < report["scores"]["MRR@10"]
    assert report["facts"]["scores before training"].startswith(f"MRR@10 {100 * before:.2f}%, recall@1 ")
    assert "library_name: sentence-transformers" in (output / "model" / "README.md").read_text()
    for name in ("add_signatures", "overwrite", "columns", "task"):
        del exported[name]
    assert exported == {"example": {"text": rows[0]["query"]}, "prompts": bert.prompts, "default_prompt_name": None}


@pytest.mark.usefixtures("eager")
def test_triplets(made):
    """The errors are rows with a wrong passage that is more similar, by the vectors of the saved model."""
    files = dict.fromkeys(("train_file", "dev_file"), f"{made}/triplets.csv")
    finetune(PROGRAM, *arguments(made, "triplets", **files, pooling="cls", loss="triplet"), fit=no_fit)
    bert = keras_bert.load(made / "triplets" / "model")
    assert bert.pooling == "cls"
    lines = (made / "triplets.csv").read_text().splitlines()[1:]
    rows = [list(filter(None, line.split(","))) for line in lines]
    texts = sorted({text for row in rows for text in row})
    similar = np.array(bert.similarity(texts, texts))
    place = texts.index
    expected = {}
    counted = 0
    for row, (query, right, *wrong) in enumerate(rows, 1):
        if wrong:
            own, *others = (similar[place(query), place(passage)] for passage in (right, *wrong))
            counted += 1
            if max(others) >= own:
                expected[row] = max(others) - own, wrong[np.argmax(others)]
    header, *errors = csv.reader((made / "triplets" / "errors.tsv").read_text().splitlines(), "excel-tab")
    assert header == ["excess", "row", "query", "passage", "wrong_passage"]
    found = {int(row): (pytest.approx(float(excess), abs=1e-4), wrong) for excess, row, _, _, wrong in errors}
    assert found == expected
    assert 0 < len(errors) < counted
    report = read_json(made / "triplets" / "results.json")
    assert report["scores"]["accuracy"] == pytest.approx(1 - len(errors) / counted)

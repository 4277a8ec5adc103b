"""The command, on questions that share letters with their passages."""

import csv
import json
import signal
from unittest import mock

import numpy as np
import pytest

import keras_bert
from tests.pipelines.programs import call, flags_of, killed_if, mistake, run

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow
PROGRAM = "pipelines.run_embedding"
NO_EXPORT = "from keras_bert.experiments import finetuning; finetuning.export = lambda *values, **options: None"


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
    rng = np.random.default_rng(2)
    rows = [(" ".join(rng.choice(list("abcd"), 3)), " ".join(rng.choice(list("abcd"), 3))) for _ in range(48)]
    lines = ["sentence1,sentence2,score", *(f"{a},{b},{len(set(a) & set(b)) / 4}" for a, b in rows)]
    (made / "scored.csv").write_text("\n".join(lines) + "\n")
    (made / "five.csv").write_text("sentence1,sentence2,score\na,b,5\n" + "a b,a c,0.5\n" * 8)
    triplets = ["a b,a b c,d e f,", "d e,d e f,a b c,b c", "a,p o,a,", "b,c,,", "d,o,a,d"]
    (made / "triplets.csv").write_text("\n".join(["query,positive,negative,negative2", *triplets * 2]) + "\n")
    keras_bert.save(keras_bert.build_encoder(config), made / "bert", pieces)
    return made


def arguments(made, output, **changes):
    values = {
        "train_file": f"{made}/train.jsonl",
        "dev_file": f"{made}/dev.jsonl",
        "model": f"{made}/bert",
        "output_dir": f"{made}/{output}",
        "sequence_length": 12,
        "epochs": 1,
        "batch_size": 16,
        "learning_rate": "1e-2",
        **changes,
    }
    return flags_of(values)


MISTAKES = [
    ("--model is required", {"model": None}),
    ("--dev_file must be like --train_file, pairs. Received:", {"dev_file": "{made}/scored.csv"}),
    ("the loss of pairs data must be in_batch. Received: loss='cosine'", {"loss": "cosine"}),
    ("--ensemble: sentence encoders have none", {"ensemble": 2}),
    ("--lora_rank: sentence encoders are trained whole", {"lora_rank": 2}),
    ("--batch_size must be at least 2", {"batch_size": "32,1"}),
    ("--score_range must be LOWEST,HIGHEST. Received: --score_range=5,1", {"score_range": "5,1"}),
    ("expected at least 2 pairs: the negatives of a pair are those of others", {"max_train_examples": 1}),
]


def test_user_errors(made):
    for message, changes in MISTAKES:
        changes = {
            name: value.format(made=made) if isinstance(value, str) else value for name, value in changes.items()
        }
        assert message in mistake(PROGRAM, *arguments(made, "mistakes", **changes))


@pytest.mark.usefixtures("eager")
def test_pairs(made):
    """The results are those of the saved model, found by a loop."""
    prompts = {"query_prompt": "a ", "passage_prompt": ""}
    with mock.patch("keras_bert.experiments.results.export") as export:
        printed = call(PROGRAM, *arguments(made, "pairs", normalize=True, **prompts))
    report = json.loads((made / "pairs" / "results.json").read_text())
    bert = keras_bert.load(made / "pairs" / "model")
    assert (bert.pooling, bert.normalize, bert.sequence_length) == ("mean", True, 12)
    assert bert.prompts == {"query": "a ", "document": ""}
    rows = [json.loads(line) for line in (made / "dev.jsonl").read_text().splitlines()]
    passages = list(dict.fromkeys(row["passage"] for row in rows))
    scores = bert.encode([row["query"] for row in rows], prompt_name="query") @ bert.encode(passages).T
    ranks, firsts = [], []
    for row, line in zip(rows, scores, strict=True):
        own = line[passages.index(row["passage"])]
        ranks.append(1 + sum(line > own + 1e-6))
        firsts.append(passages[line.argmax()])
    assert report["scores"]["recall@1"] == pytest.approx(np.mean(np.array(ranks) == 1))
    assert report["facts"]["training examples"] == "train.jsonl: 32 pairs"
    header, *errors = csv.reader((made / "pairs" / "errors.tsv").read_text().splitlines(), "excel-tab")
    assert header == ["rank", "row", "query", "passage", "wrong_passage"]
    expected = {row: rank for row, rank in enumerate(ranks, 1) if rank > 1}
    assert {int(row): int(rank) for rank, row, *_ in errors} == expected
    assert all(wrong == firsts[int(row) - 1] for _, row, _, _, wrong in errors)
    assert [int(rank) for rank, *_ in errors] == sorted(expected.values(), reverse=True)
    assert f"right one: {len(errors)} of {len(rows)}" in (made / "pairs" / "report.html").read_text()
    # The score of the model before training, without its new prompt.
    assert "before training: MRR@10 " in printed
    before = report["best"]["before"]["MRR@10"]
    assert 0 < before != report["scores"]["MRR@10"]
    assert report["facts"]["scores before training"].startswith(f"MRR@10 {100 * before:.2f}%, recall@1 ")
    card = (made / "pairs" / "model" / "README.md").read_text()
    assert "library_name: sentence-transformers" in card
    example = {"text": rows[0]["query"]}
    assert export.call_args.kwargs == {"example": example, "prompts": bert.prompts, "default_prompt_name": None}


@pytest.mark.usefixtures("eager")
def test_nothing_to_train(made):
    message = mistake(PROGRAM, *arguments(made, "frozen", freeze_layers=1))
    assert "nothing is left to train. Received: --freeze_layers=1" in message


@pytest.mark.usefixtures("eager")
def test_scores(made):
    """The range of the scores is that of both files."""
    files = {"train_file": f"{made}/five.csv", "dev_file": f"{made}/scored.csv"}
    with mock.patch("keras_bert.experiments.results.export"):
        call(PROGRAM, *arguments(made, "scored", **files, pooling="max"))
    facts = json.loads((made / "scored" / "results.json").read_text())["facts"]
    assert facts["training examples"] == "five.csv: 9 pairs with a score from 0 to 5, scaled to 0 to 1"
    assert facts["dev examples"] == "scored.csv: 48 pairs with a score from 0 to 5, scaled to 0 to 1"
    assert keras_bert.load(made / "scored" / "model").pooling == "max"


@pytest.mark.usefixtures("eager")
def test_triplets(made):
    """The errors are rows with a wrong passage that is more similar, by the vectors of the saved model."""
    files = dict.fromkeys(("train_file", "dev_file"), f"{made}/triplets.csv")
    with mock.patch("keras_bert.experiments.results.export"):
        call(PROGRAM, *arguments(made, "triplets", **files, pooling="cls", loss="triplet"))
    bert = keras_bert.load(made / "triplets" / "model")
    assert bert.pooling == "cls"
    lines = (made / "triplets.csv").read_text().splitlines()[1:]
    expected, counted = {}, 0
    for row, line in enumerate(lines, 1):
        query, right, *wrong = filter(None, line.split(","))
        if wrong:
            own, *others = bert.similarity(query, [right, *wrong])[0]
            counted += 1
            if max(others) >= own:
                expected[row] = max(others) - own, wrong[np.argmax(others)]
    header, *errors = csv.reader((made / "triplets" / "errors.tsv").read_text().splitlines(), "excel-tab")
    assert header == ["excess", "row", "query", "passage", "wrong_passage"]
    assert {
        int(row): (pytest.approx(float(excess), abs=1e-4), wrong) for excess, row, _, _, wrong in errors
    } == expected
    assert 0 < len(errors) < counted
    report = json.loads((made / "triplets" / "results.json").read_text())
    assert report["scores"]["accuracy"] == pytest.approx(1 - len(errors) / counted)


@pytest.mark.slow
def test_two_devices_killed_and_resumed(made):
    """A gradient cache on two logical CPUs: a killed run resumes to the bit, and is exported."""
    options = {"gradient_accumulation": 2, "strategy": "mirrored", "query_prompt": "a ", "epochs": 2}
    for name in ("killed", "whole"):
        given = arguments(made, name, **options)
        if name == "killed":
            run(PROGRAM, *given, before=killed_if("step > 1"), devices=2, status=-signal.SIGKILL)
        run(PROGRAM, *given, before=NO_EXPORT if name == "whole" else "", devices=2)
    models = [keras_bert.load(made / name / "model") for name in ("killed", "whole")]
    weights = [bert.model().get_weights() for bert in models]
    killed, whole = (json.loads((made / name / "results.json").read_text())["scores"] for name in ("killed", "whole"))
    assert killed == whole
    for part, expected in zip(*weights, strict=True):
        np.testing.assert_array_equal(part, expected)
    expected = models[0].encode(["b c", "d"], prompt_name="query")  # Registers the ops of the SavedModel.
    served = tf.saved_model.load(made / "killed" / "saved_model" / "1").signatures["embed_query"]
    np.testing.assert_allclose(served(text=tf.constant(["b c", "d"]))["embedding"], expected, atol=1e-5)

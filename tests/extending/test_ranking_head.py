"""A head that ranks, in a user's file: pairs of texts, a loss within the batch, a metric of its own."""

import json

import numpy as np
import pytest

import keras_bert
from keras_bert.files import MODEL_FACTS, read_json
from keras_bert.runs.saved_model_scores import compare
from tests.extending.conftest import registered

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]

# The best passage of each query repeats it.
ROWS = []
for end in "lm":
    for word in "abcd":
        query = f"{word} {end}"
        ROWS.append({"query": query, "passage": f"{word} {word}", "grade": 2})
        ROWS.append({"query": query, "passage": f"{word} i", "grade": 1})
        ROWS.append({"query": query, "passage": "j k", "grade": 0})
OPTIONS = {"epochs": 1, "sequence_length": 10, "verbose": False}


@pytest.fixture(scope="module", autouse=True)
def user():
    """The module with the head and its task, which are registered during these tests alone."""
    with registered("ranking_head") as module:
        yield module


@pytest.fixture
def start(config, pieces, tmp_path):
    keras_bert.save(keras_bert.build_encoder(config), tmp_path / "start", pieces)
    return keras_bert.load(tmp_path / "start")


def by_formula(answers, margin):
    """The loss and the metric: over the pairs of each query, of which one passage is better."""
    losses = []
    is_ahead = []
    for row, answer in zip(ROWS, answers, strict=True):
        missing = []
        for other_row, other in zip(ROWS, answers, strict=True):
            is_worse = other_row["query"] == row["query"] and other_row["grade"] < row["grade"]
            if is_worse:
                missing.append(max(0.0, margin - answer["score"] + other["score"]))
                is_ahead.append(answer["score"] > other["score"])
        losses.append(sum(missing) / max(len(missing), 1))
    return {"margin": np.mean(losses), "pairwise_accuracy": np.mean(is_ahead)}


def test_fit_evaluate_and_export(start, tmp_path):
    """Numbers of a head of one's own are exported without the range of scores."""
    bert = start.fit(
        ROWS,
        validation=ROWS,
        margin=0.5,
        learning_rate=1e-3,
        batch_size=24,
        output_dir=tmp_path / "run",
        **OPTIONS,
    )
    assert bert.task == "ranking"
    assert bert.head == "ranker"
    assert bert.pair is True

    answers = bert.predict(ROWS)
    scores = bert.evaluate(ROWS, verbose=False)
    assert scores == pytest.approx(by_formula(answers, 0.5), abs=1e-4)
    results = read_json(tmp_path / "run" / "results.json")
    assert "majority baseline" not in results["facts"]
    assert results["data"]["majority"] == {}

    exported = tmp_path / "run" / "saved_model" / "1"
    assert read_json(exported / MODEL_FACTS)["range"] is None
    signature = tf.saved_model.load(str(exported)).signatures["serving_default"]
    queries = tf.constant([row["query"] for row in ROWS])
    passages = tf.constant([row["passage"] for row in ROWS])
    served = signature(text=queries, pair=passages)["score"].numpy()
    np.testing.assert_allclose(served, [answer["score"] for answer in answers], atol=1e-5)

    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    compared = compare(exported, path)
    accuracy = 100 * scores["pairwise_accuracy"]
    assert compared.note is None
    assert compared.scores == {"pairwise_accuracy": pytest.approx(accuracy)}


def test_folds(start, tmp_path):
    """The scores of folds are those of the report; rows of a query are in different folds."""
    start.fit(ROWS, folds=2, output_dir=tmp_path / "run", batch_size=24, **OPTIONS)
    results = read_json(tmp_path / "run" / "results.json")
    mean = 100 * results["best"]["scores"]["pairwise_accuracy"]
    listed = results["facts"]["scores of 2-fold cross-validation"]
    assert listed.startswith(f"pairwise accuracy {mean:.2f}% ± ")
    assert "margin" not in listed


def test_batches_without_two_passages_of_a_query(start, caplog):
    """Their loss has no gradient, which is said."""
    caplog.set_level("WARNING", "keras_bert")
    start.fit(ROWS, batch_size=1, **OPTIONS)
    assert "nothing was learned: the gradient of the loss was zero in all steps" in caplog.text


def test_outputs_that_the_signatures_lack(start, user, monkeypatch):
    """They are found before the training."""
    monkeypatch.setattr(user.Ranker, "outputs", ("relevence",))
    with pytest.raises(ValueError, match="`outputs` of the head .*'relevence'"):
        start.fit(ROWS, batch_size=24, **OPTIONS)


def test_rows_without_a_column_of_targets(user, monkeypatch):
    monkeypatch.setattr(user.PassageRows, "target_columns", ())
    with pytest.raises(ValueError, match="the task 'ranking' must have `target_columns`"):
        keras_bert.register_task(user.Ranking)

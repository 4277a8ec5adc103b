"""Inputs of queries and passages; scores by hand, by loops and by scikit-learn; windows, against a plain loop."""

import dataclasses

import numpy as np
import pytest
from sklearn.metrics import top_k_accuracy_score

pytest.importorskip("tensorflow")

import keras_bert
from keras_bert.tasks.base import Start
from keras_bert.tasks.embedding import task as module
from keras_bert.tasks.embedding.data import EmbeddingData, EmbeddingExamples, EmbeddingSettings
from keras_bert.tasks.embedding.task import EmbeddingTask
from keras_bert.text.preprocessor import TextPreprocessor

pytestmark = pytest.mark.tensorflow
A = 5  # In `pieces`.
B = 6
CLS = 2
SEP = 3


def test_absent_passages_have_no_tokens(pieces):
    inputs = module.tower_inputs(["a b", "b", "a b"], [["a"], ["b", "a b a", "a"], []], TextPreprocessor(pieces, 4))
    assert inputs["query_token_ids"].to_list() == [[CLS, A, B, SEP], [CLS, B, SEP], [CLS, A, B, SEP]]
    assert inputs["passage_token_ids"].to_list() == [
        [[CLS, A, SEP], [], []],
        [[CLS, B, SEP], [CLS, A, B, SEP], [CLS, A, SEP]],
        [[], [], []],
    ]
    assert inputs["passage_padding_mask"].to_list()[0] == [[1, 1, 1], [], []]
    ids = module.row_ids(["x", "y", "x"], [["a"], ["b", "a"], []])
    assert ids["query_ids"].tolist() == [0, 1, 0]
    assert ids["passage_ids"].tolist() == [[0, -1], [1, 0], [-1, -1]]


def test_each_distinct_passage_is_in_one_row():
    queries = list("abcda")
    passages = [["p"], ["q"], ["p"], ["r"], ["q"]]
    rows = module.distinct_passages(queries, passages)
    assert rows.queries == list("abdca")
    assert rows.passages == [["p"], ["q"], ["r"], [], []]
    assert rows.also_right == {0: [1], 4: [0]}
    assert rows.right.tolist() == [0, 1, 2, 0, 1]
    assert np.array(queries)[rows.order].tolist() == rows.queries


def test_correlations():
    """Ranks 1, 2, 3, 4 against 1, 2, 4, 3: 1 - 6 * 2 / (4 * 15)."""
    found = module.similarity_scores(np.array([0.1, 0.2, 0.3, 0.9]), [0.0, 0.5, 1.0, 0.6])
    assert found["spearman"] == pytest.approx(0.8)
    assert module.similarity_scores(np.ones(3), [0.0, 1.0, 2.0]) == {"spearman": 0.0, "pearson": 0.0}


def test_ranks(monkeypatch):
    """In blocks of 4 queries; the vectors have different lengths, which do not matter."""
    monkeypatch.setattr(module, "_BLOCK", 4)
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(10, 5))
    passages = rng.normal(size=(30, 5)) * rng.uniform(1, 9, (30, 1))
    right = rng.integers(0, 30, 10)
    scores = queries @ (passages / np.linalg.norm(passages, axis=1, keepdims=True)).T
    expected = [1 + sum(row > row[own]) for row, own in zip(scores, right, strict=True)]
    found, wrong = module.ranks(queries, passages, right)
    assert found.tolist() == expected
    best = scores.argmax(1)
    assert wrong.tolist() == np.where(best == right, -1, best).tolist()
    scored = module.retrieval_scores(found)
    for count in (1, 10):
        assert scored[f"recall@{count}"] == pytest.approx(
            top_k_accuracy_score(right, scores, k=count, labels=np.arange(30))
        )


def test_equal_vectors_are_no_success():
    """Of a model that gives all texts the same vector, the right passage is the last one."""
    assert module.ranks(np.ones((2, 3)), np.ones((4, 3)), np.array([0, 3]))[0].tolist() == [4, 4]
    assert module.ranks(np.zeros((1, 3)), np.zeros((2, 3)), np.array([0]))[0].tolist() == [2]


def test_mrr_by_hand():
    assert module.retrieval_scores([1, 2, 4, 11]) == {
        "MRR@10": (1 + 1 / 2 + 1 / 4) / 4,
        "recall@1": 0.25,
        "recall@10": 0.75,
    }


def test_other_right_passages_do_not_count():
    """One query with three right passages: each is the best but for the others."""
    queries = np.array([[1.0, 0.0]] * 3)
    passages = np.array([[1, 0], [1, 0.1], [1, 0.2], [1, 0.15]])
    others = {0: [1, 2], 1: [0, 2], 2: [0, 1]}
    found, wrong = module.ranks(queries, passages, np.arange(3), others)
    assert found.tolist() == [1, 1, 2]
    assert wrong.tolist() == [-1, -1, 3]


def test_triplets():
    """Right; wrong; equal, which is wrong; without wrong passages, which does not count."""
    similarities = np.array([[0.9, 0.1, 1.0], [0.2, 0.1, 0.3], [0.5, 0.5, 0.5], [0.1, 0.9, 0.9]])
    present = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1], [1, 0, 0]], bool)
    assert module.triplet_scores(similarities, present) == {"accuracy": 1 / 3}


# Long texts, in windows.
LENGTH = 8
OVERLAP = 2
QUERIES = ["a b c d e f g h i j", "k l", "m n o p q r s t", "u"]
PASSAGES = [["b c", "d e f g h i j k l m n o"], ["a b c d e f g h i j k l m n"], ["q", "r s"], ["t u v w x y z a"]]
READING = {"sequence_length": LENGTH, "long_texts": "windows", "overlap": OVERLAP}


@pytest.fixture(scope="module")
def bert(tmp_path_factory, config, pieces):
    """An encoder without dropout, whose vectors have length 1."""
    folder = tmp_path_factory.mktemp("embedding")
    config = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    encoder = keras_bert.build_encoder(config)
    embedder = keras_bert.build_embedder(encoder, pooling="mean", normalize=True)
    keras_bert.save(embedder, folder, pieces)
    return keras_bert.load(folder)


@pytest.fixture(scope="module")
def task(bert):
    examples = EmbeddingExamples(kind="triplets", queries=QUERIES, passages=PASSAGES)
    data = EmbeddingData(examples, examples, {"train": "a", "dev": "a"})
    return EmbeddingTask(data, Start("start", bert), EmbeddingSettings(**READING))


def by_hand(bert, text):
    """Returns the mean of the vectors of the windows of a text, scaled to length 1."""
    vocabulary = bert.vocabulary
    letters = vocabulary.ids(text.split())
    start, end = vocabulary.ids(["[CLS]", "[SEP]"])
    room = LENGTH - 2
    firsts = [0]
    while firsts[-1] + room < len(letters):
        firsts.append(firsts[-1] + room - OVERLAP)
    vectors = []
    for first in firsts:
        ids = np.array([[start, *letters[first : first + room], end]])
        inputs = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}
        vectors.append(bert.model()(inputs, training=False)["embedding"].numpy()[0])
    mean = np.mean(vectors, 0)
    return mean / np.linalg.norm(mean)


def make_trainer(task, **options):
    return keras_bert.Trainer(
        lambda: task.training.build(task.bert),
        lambda model: keras_bert.create_optimizer(model, 1e-3, 4),
        task.training.loss,
        **options,
    )


@pytest.mark.usefixtures("eager")
def test_training_reads_all_windows(bert, task):
    outputs = make_trainer(task).predict(task.dev)
    for row, (query, passages) in enumerate(zip(QUERIES, PASSAGES, strict=True)):
        np.testing.assert_allclose(outputs["query_embedding"][row], by_hand(bert, query), atol=1e-6)
        for number, passage in enumerate(passages):
            np.testing.assert_allclose(outputs["passage_embedding"][row, number], by_hand(bert, passage), atol=1e-6)
    np.testing.assert_allclose(bert.encode(QUERIES, **READING), outputs["query_embedding"], atol=1e-6)
    assert not outputs["passage_embedding"][1, 1].any()  # It is absent.
    assert task.report.summary.truncated["rows"] == 4
    right = []
    wrong = []
    for query, row in zip(QUERIES, PASSAGES, strict=True):
        right.append(by_hand(bert, query) @ by_hand(bert, row[0]))
        wrong.append(by_hand(bert, query) @ by_hand(bert, row[-1]))
    expected = np.mean(np.greater(right, wrong)[[0, 2]])  # The others have no wrong passage.
    assert task.report.score(None, outputs) == {"accuracy": expected}


@pytest.mark.usefixtures("eager")
def test_micro_batches_learn_the_same(task):
    """Weights after two steps of all rows, in one part or in two."""
    before = task.bert.model().get_weights()
    weights = []
    for parts in (1, 2):
        task.bert.model().set_weights(before)
        trainer = make_trainer(task, micro_batches=parts)
        split = task.splits["train"][0]
        trainer.fit(task.training.batches(split.inputs, split.targets, 4, 0, True), epochs=2)
        weights.append(task.training.complete(trainer.model).get_weights())
    task.bert.model().set_weights(before)
    assert max(np.abs(new - old).max() for new, old in zip(weights[0], before, strict=True)) > 1e-4
    for one, two in zip(*weights, strict=True):
        np.testing.assert_allclose(one, two, atol=2e-5)


@pytest.mark.usefixtures("eager")
def test_fit_keeps_how_texts_are_read(bert, tmp_path):
    pairs = [(query, row[0]) for query, row in zip(QUERIES, PASSAGES, strict=True)]
    trained = bert.fit(pairs, **READING, epochs=1, batch_size=4, verbose=False)
    trained.save(tmp_path)
    opened = keras_bert.load(tmp_path)
    assert opened.long_texts == "windows"
    assert opened.overlap == OVERLAP
    np.testing.assert_allclose(opened.encode(QUERIES)[0], by_hand(trained, QUERIES[0]), atol=1e-6)
    assert opened.evaluate(pairs)["MRR@10"] == trained.evaluate(pairs)["MRR@10"]

"""Sentence encoders trained on long texts in windows, beside a plain loop over the windows."""

import dataclasses

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.tasks.base import Start  # noqa: E402
from keras_bert.tasks.embedding.data import EmbeddingData, EmbeddingExamples, EmbeddingSettings  # noqa: E402
from keras_bert.tasks.embedding.task import EmbeddingTask  # noqa: E402

pytestmark = pytest.mark.usefixtures("eager")

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


def test_fit_keeps_how_texts_are_read(bert, tmp_path):
    pairs = [(query, row[0]) for query, row in zip(QUERIES, PASSAGES, strict=True)]
    trained = bert.fit(pairs, **READING, epochs=1, batch_size=4, verbose=False)
    trained.save(tmp_path)
    opened = keras_bert.load(tmp_path)
    assert (opened.long_texts, opened.overlap) == ("windows", OVERLAP)
    np.testing.assert_allclose(opened.encode(QUERIES)[0], by_hand(trained, QUERIES[0]), atol=1e-6)
    assert opened.evaluate(pairs)["MRR@10"] == trained.evaluate(pairs)["MRR@10"]

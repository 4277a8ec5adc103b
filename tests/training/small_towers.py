"""Small training runs of a model with a tower for queries and one for passages."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.data.pair_bucketing import TowerBatches
from keras_bert.training.losses import in_batch_loss
from keras_bert.training.trainer import Trainer
from tests.training.small_run import assert_same_weights, metrics

ROWS = 11
PASSAGES = 3
LONGEST = {"query": 5, "passage": 12}


def data(batch_size, **options):
    """Two batches of random ids; the last passage of some rows is absent."""
    rng = np.random.default_rng(1)
    inputs = {}
    present = rng.integers(0, 2, (ROWS, PASSAGES)) | [1, 1, 0]
    query_lengths = rng.integers(2, LONGEST["query"] + 1, ROWS)
    inputs["query_token_ids"] = random_ids(rng, query_lengths)
    passage_lengths = rng.integers(2, LONGEST["passage"] + 1, (ROWS, PASSAGES)) * present
    passages = random_ids(rng, passage_lengths.reshape(-1))
    inputs["passage_token_ids"] = tf.RaggedTensor.from_uniform_row_length(passages, PASSAGES)
    passage_ids = np.where(present, rng.integers(0, 30, (ROWS, PASSAGES)), -1).astype("int32")
    targets = {"query_ids": np.arange(ROWS, dtype="int32"), "passage_ids": passage_ids}
    return TowerBatches(inputs, targets, batch_size=batch_size, **options)


def random_ids(rng, lengths):
    return tf.RaggedTensor.from_row_lengths(rng.integers(5, 50, lengths.sum(), "int32"), lengths)


def towers():
    """A model that embeds a text as the mean of its tokens, transformed; an absent one as zeros."""
    table = keras.layers.Embedding(50, 8, "normal", name="table")
    dense = keras.layers.Dense(6, "tanh", use_bias=False, name="dense")

    def embed(ids):
        mask = keras.ops.cast(keras.ops.expand_dims(ids, -1) > 0, "float32")
        count = keras.ops.maximum(keras.ops.sum(mask, -2), 1.0)
        return dense(keras.ops.sum(table(ids) * mask, -2) / count)

    query = keras.Input((None,), dtype="int32", name="query_token_ids")
    passage = keras.Input((None, None), dtype="int32", name="passage_token_ids")
    return keras.Model(
        {"query_token_ids": query, "passage_token_ids": passage},
        {"query_embedding": embed(query), "passage_embedding": embed(passage)},
    )


class Result(NamedTuple):
    """The losses and norms of each step, the weights by path, and the loss of an evaluation."""

    steps: list
    weights: dict
    evaluation: float


def train(directory, epochs=1, **options):
    """Trains the towers; returns their `Result`."""
    keras.utils.set_random_seed(3)
    run = Trainer(
        towers,
        lambda model: keras_bert.create_optimizer(model, 0.05, 6, warmup_steps=1),
        [in_batch_loss()],
        directory=directory,
        **options,
    )
    run.fit(data(8, grouped=False), epochs=epochs, log_every=1)
    weights = {weight.path: weight.numpy() for weight in run.model.weights}
    evaluation = run.evaluate(data(8, shuffle=False))["loss"]
    return Result(losses(directory), weights, evaluation)


def losses(directory):
    return [[line["loss"], line["gradient_norm"]] for line in metrics(directory)]


def assert_same(found, expected):
    """Compares the results of two runs."""
    np.testing.assert_allclose(found.steps, expected.steps, rtol=1e-5)
    np.testing.assert_allclose(found.evaluation, expected.evaluation, rtol=1e-5)
    assert_same_weights(found.weights, expected.weights)

"""Ranking of passages for a query, rows such as {"query": "red fruit", "passage": "An apple.", "grade": 2}."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.tasks import ClassificationReport, ClassificationTraining, NumberRows, RegressionTask, setting


@keras_bert.register_head
class Ranker(keras_bert.Head):
    """A number for a query and a passage: the higher, the better the passage."""

    name = "ranker"
    layer = "relevance"
    reads = ("pooled",)
    tensors = {"relevance": "ranker.relevance"}
    classes = "relevance"
    outputs = ("relevance",)
    requires_pair = True

    def build(self, encoder, dropout=0.1):
        layers = {
            "head_dropout": keras_bert.layers.Dropout(dropout, name="head_dropout"),
            "relevance": keras_bert.layers.Dense(1, dtype="float32", name="relevance"),
        }
        outputs = self.run(layers, encoder.output, encoder.input)
        return keras.Model(encoder.input, outputs, name="ranker")

    def run(self, layers, encoded, inputs):
        pooled = layers["head_dropout"](encoded["pooled_output"])
        return {"relevance": layers["relevance"](pooled)}

    def respond(self, outputs, labels):
        relevance = outputs["relevance"]
        return {"relevance": relevance, "score": relevance[:, 0]}

    def answer(self, output, row, n_best):
        return {"score": super().answer(output, row, n_best)["score"]}


class PassageRows(NumberRows):
    """Queries and passages with grades."""

    expects = "dicts with query and passage, with grades"
    columns = ({"query", "passage"},)
    target_columns = ("grade",)

    def convert(self, place, row, settings):
        for name in ("query", "passage"):
            if not isinstance(row.get(name), str):
                raise ValueError(f"{place}: `{name}` must be a string. Received: {row.get(name)!r:.100}")
        return {"text": row["query"], "pair": row["passage"]}


@dataclasses.dataclass(frozen=True)
class RankingSettings(RegressionTask.Settings):
    """Settings of `Ranking`."""

    margin: float = setting(1.0, "By how much a better passage is to be ahead.", section="training", stored=True)


def is_better(targets):
    """Returns whether the first passage is better than the second one, of the same query, `(batch, batch)`."""
    grades = targets["grades"]
    queries = targets["queries"]
    is_same_query = queries[:, None] == queries[None]
    return is_same_query & (grades[:, None] > grades[None])


class RankingTraining(ClassificationTraining):
    """Trains with pairs of passages of the same query that are in a batch."""

    def head_loss(self, class_weights):
        def values(targets, outputs, weights):
            scores = outputs["relevance"][:, 0]
            pairs = tf.cast(is_better(targets), tf.float32) * weights[None]
            missing = tf.nn.relu(self.task.settings.margin - scores[:, None] + scores[None])
            return tf.math.divide_no_nan(tf.reduce_sum(pairs * missing, 1), tf.reduce_sum(pairs, 1))

        return keras_bert.losses.Loss("margin", values, together=True)


class RankingReport(ClassificationReport):
    """Reports how often the better one of two passages is ahead."""

    metric = "pairwise_accuracy"

    def score(self, targets, outputs):
        scores = outputs["relevance"][:, 0]
        pairs = is_better(targets)
        if not pairs.any():
            return {"pairwise_accuracy": 0.0}
        is_ahead = scores[:, None] > scores[None]
        return {"pairwise_accuracy": float(is_ahead[pairs].mean())}


@keras_bert.register_task
class Ranking(RegressionTask):
    """Ranking of passages."""

    name = "ranking"
    head = "ranker"
    rows = PassageRows()
    Settings = RankingSettings
    Training = RankingTraining
    Report = RankingReport

    def targets(self, examples):
        """Returns the grades, and a number for each query."""
        _, queries = np.unique(examples.text, return_inverse=True)
        return {"grades": super().targets(examples), "queries": queries.astype("int32")}

    def head_options(self):
        return {}

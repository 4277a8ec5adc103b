"""Losses of sentence encoders: cosine regression, in-batch negatives, triplets.

Models are those of `build_bi_encoder`. Reimers & Gurevych, 2019; Henderson et al., 2017; Gao et al., 2021.
"""

import math
from typing import Literal

import tensorflow as tf

from keras_bert.checks import check_choice, check_positive
from keras_bert.training.losses import Loss, in_shape, part

DISTANCES = ("cosine", "euclidean")


def cosine_loss() -> Loss:
    """Squared error of the cosine similarity of a query and its first passage with a target score, `(rows,)`."""

    def values(targets, outputs):
        scores = in_shape(targets, outputs["query_embedding"].shape[:1], "targets")
        similarity = tf.reduce_sum(_unit(outputs["query_embedding"]) * _unit(outputs["passage_embedding"][:, 0]), -1)
        return tf.square(similarity - tf.cast(scores, tf.float32))

    return Loss("loss", values)


def in_batch_loss(temperature: float = 0.05, symmetric: bool = True) -> Loss:
    """Cross-entropy of the right passage among all passages of a global batch, by their cosine similarities.

    The first passage of each row is the right one; the others of the row, hard negatives, and all passages of other
    rows are wrong. The loss does not depend on the number of replicas and micro-batches. Two rows are not negatives of
    each other if they share the query or the passage: targets are `{"query_ids": (rows,), "passage_ids": (rows,
    passages)}`, integers that are equal for equal texts, and -1 for absent passages. A row without its right passage
    has weight 0.

    Args:
        temperature: float, divides the similarities. Defaults to 0.05.
        symmetric: bool, whether to add the cross-entropy of the right query for each passage; the loss is the mean of
            both. Defaults to `True`.
    """
    check_positive("temperature", temperature)

    def values(targets, outputs, rows):
        queries, passages = _unit(outputs["query_embedding"]), _unit(outputs["passage_embedding"])
        query_ids, passage_ids = _ids(targets, "query_ids", 1), _ids(targets, "passage_ids", 2)
        count = tf.shape(passages)[1]
        flat, flat_ids = tf.reshape(passages, [-1, passages.shape[-1]]), tf.reshape(passage_ids, [-1])
        scores = tf.matmul(queries, flat, transpose_b=True) / temperature  # (rows, rows * passages)

        # Wrong passages of a row: its own and those of real rows with another query and another right passage.
        others = _other_rows(query_ids, passage_ids, rows)
        own = tf.eye(tf.shape(rows)[0], dtype=tf.bool)
        wrong = tf.repeat(own | others, count, axis=1) & (flat_ids >= 0) & (passage_ids[:, :1] != flat_ids)
        right = tf.linalg.diag_part(scores[:, ::count])
        losses = _cross_entropy(right, scores, wrong)
        if symmetric:
            losses += _cross_entropy(right, tf.transpose(scores[:, ::count]), others)
            losses /= 2
        return losses

    def weights(targets):
        return _ids(targets, "passage_ids", 2)[:, 0] >= 0

    return Loss("loss", values, weights, together=True)


def triplet_loss(margin: float = 1.0, distance: Literal["euclidean", "cosine"] = "euclidean") -> Loss:
    """The excess of a query's distance to its passage, plus a margin, over its distance to a wrong passage.

    The first passage of each row is the right one; the loss is the mean over the others. Targets are
    `{"passage_ids": (rows, passages)}`, -1 for absent passages. A row without wrong passages has weight 0.

    Args:
        margin: float. Defaults to 1.0.
        distance: str, "euclidean" or "cosine", which is 1 minus the similarity. Defaults to "euclidean".
    """
    check_positive("margin", margin)
    check_choice("distance", distance, DISTANCES)

    def values(targets, outputs):
        queries, passages = outputs["query_embedding"][:, None], outputs["passage_embedding"]
        if distance == "cosine":
            distances = 1 - tf.reduce_sum(_unit(queries) * _unit(passages), -1)
        else:
            squared = tf.reduce_sum(tf.square(queries - passages), -1)
            distances = tf.sqrt(tf.maximum(squared, 1e-12))  # The gradient of the root is infinite at 0.
        present = tf.cast(_ids(targets, "passage_ids", 2)[:, 1:] >= 0, tf.float32)
        excess = tf.nn.relu(distances[:, :1] - distances[:, 1:] + margin)
        return tf.math.divide_no_nan(tf.reduce_sum(excess * present, -1), tf.reduce_sum(present, -1))

    def weights(targets):
        return tf.reduce_any(_ids(targets, "passage_ids", 2)[:, 1:] >= 0, -1)

    return Loss("loss", values, weights)


def _other_rows(query_ids, passage_ids, rows):
    """Returns whether the rows on the second axis, `(rows, rows)`, are real ones that may be negatives of the first."""
    first = passage_ids[:, 0]
    return (rows > 0) & (first >= 0) & (query_ids[:, None] != query_ids) & (first[:, None] != first)


def _cross_entropy(right, scores, wrong):
    """Returns the cross-entropy of the score `right` among itself and the scores that are `wrong`."""
    others = tf.where(wrong, scores, -math.inf)
    return tf.reduce_logsumexp(tf.concat([right[:, None], others], 1), 1) - right


def _unit(vectors):
    return tf.math.l2_normalize(tf.cast(vectors, tf.float32), -1)


def _ids(targets, name, rank):
    ids = tf.convert_to_tensor(part(targets, name))
    if ids.shape.rank != rank or not ids.dtype.is_integer:
        raise ValueError(f"`targets[{name!r}]` must be integers of rank {rank}. Received: {ids.dtype.name} {ids.shape}")
    return ids

"""Losses of sentence encoders equal their formulas in NumPy, for any number of replicas and micro-batches."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import logsumexp

import keras_bert
from keras_bert.rewirings.joined import build_bi_encoder
from keras_bert.training.contrastive import cosine_loss, in_batch_loss, triplet_loss


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def outputs():
    rng = np.random.default_rng(0)
    return {"query_embedding": rng.normal(size=(4, 6)), "passage_embedding": rng.normal(size=(4, 3, 6))}


def sums(loss, targets, outputs, rows=(1.0, 1.0, 1.0, 1.0)):
    outputs = {name: tf.constant(value, tf.float32) for name, value in outputs.items()}
    value, weight = loss.sums(targets, outputs, tf.constant(rows))
    return float(value), float(weight)


def test_cosine(outputs):
    scores = np.array([0.0, 0.2, 1.0, -1.0], "float32")
    similarity = (unit(outputs["query_embedding"]) * unit(outputs["passage_embedding"][:, 0])).sum(-1)
    expected = ((similarity - scores) ** 2 * [1, 1, 1, 0]).sum(), 3
    assert sums(cosine_loss(), scores, outputs, (1.0, 1.0, 1.0, 0.0)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_triplets(outputs, distance):
    """The third row has no wrong passage, the second one a single one."""
    queries, passages = outputs["query_embedding"][:, None], outputs["passage_embedding"]
    if distance == "cosine":
        distances = 1 - (unit(queries) * unit(passages)).sum(-1)
    else:
        distances = np.linalg.norm(queries - passages, axis=-1)
    excess = np.maximum(distances[:, :1] - distances[:, 1:] + 0.4, 0)
    expected = excess[0].mean() + excess[1, 0] + excess[3].mean()
    ids = np.array([[0, 1, 2], [3, 4, -1], [5, -1, -1], [6, 7, 8]])
    found = sums(triplet_loss(0.4, distance), {"passage_ids": ids}, outputs)
    assert found == pytest.approx((expected, 3), rel=1e-5)


@pytest.mark.parametrize("symmetric", [True, False])
def test_in_batch_negatives(outputs, symmetric):
    """Written as loops: rows 0 and 1 share the passage, 0 and 2 the query; the last row is filler."""
    ids = {"query_ids": np.array([0, 1, 0, 0]), "passage_ids": np.array([[5, 6, 7], [5, 8, -1], [9, 5, 6], [5, 6, 7]])}
    queries, passages = unit(outputs["query_embedding"]), unit(outputs["passage_embedding"])
    expected = 0.0
    for row in range(3):
        right, wrong, others = queries[row] @ passages[row, 0] / 0.1, [], []
        for other in range(3):
            same_query = ids["query_ids"][other] == ids["query_ids"][row]
            alike = same_query or ids["passage_ids"][other, 0] == ids["passage_ids"][row, 0]
            for column in range(3):
                passage = ids["passage_ids"][other, column]
                if (other == row or not alike) and passage not in (-1, ids["passage_ids"][row, 0]):
                    wrong.append(queries[row] @ passages[other, column] / 0.1)
            if not alike:
                others.append(queries[other] @ passages[row, 0] / 0.1)
        terms = [logsumexp([right, *wrong]) - right, logsumexp([right, *others]) - right]
        expected += np.mean(terms) if symmetric else terms[0]
    found = sums(in_batch_loss(0.1, symmetric), ids, outputs, (1.0, 1.0, 1.0, 0.0))
    assert found == pytest.approx((expected, 3), rel=1e-5)


def test_bad_arguments(outputs):
    for make, name in ((lambda: in_batch_loss(0), "temperature"), (lambda: triplet_loss(-1.0), "margin")):
        with pytest.raises(ValueError, match=f"`{name}` must be a positive number. Received: {name}="):
            make()
    with pytest.raises(ValueError, match="`distance` must be one of cosine, euclidean. Received: distance='dot'"):
        triplet_loss(distance="dot")
    with pytest.raises(ValueError, match="must be a dict with 'query_ids'"):
        sums(in_batch_loss(), {}, outputs)
    with pytest.raises(ValueError, match="'passage_ids'.* must be integers of rank 2. Received: float"):
        sums(triplet_loss(), {"passage_ids": np.zeros((4, 3))}, outputs)


def test_a_bi_encoder_embeds_each_text_alone(build, batch):
    """Queries and passages with the same embedder, whose gradients stay finite if a passage is absent."""
    embedder = keras_bert.build_embedder(build("encoder"))
    inputs = {f"query_{name}": ids for name, ids in batch.items()}
    inputs |= {f"passage_{name}": np.stack([ids[::-1], ids], 1) for name, ids in batch.items()}
    inputs["passage_padding_mask"][1, 1] = 0
    model = build_bi_encoder(embedder)
    targets = {"query_ids": np.arange(3), "passage_ids": np.array([[0, 1], [2, -1], [3, 4]])}
    with tf.GradientTape() as tape:
        outputs = model(inputs)
        loss, _ = in_batch_loss().sums(targets, outputs, tf.ones(3))
    vectors = embedder(batch)["embedding"].numpy()
    np.testing.assert_allclose(outputs["query_embedding"], vectors, atol=1e-5)
    np.testing.assert_allclose(outputs["passage_embedding"][:, 0], vectors[::-1], atol=1e-5)
    np.testing.assert_allclose(outputs["passage_embedding"].numpy()[[0, 2], 1], vectors[[0, 2]], atol=1e-5)
    weights = [weight.value for weight in model.trainable_variables if "pooler" not in weight.path]
    assert all(np.isfinite(tf.convert_to_tensor(gradient)).all() for gradient in tape.gradient(loss, weights))

"""Losses of sentence encoders equal their formulas in NumPy, for any number of replicas and micro-batches."""

import json
import pathlib
import sys

import keras
import numpy as np
import pytest
from scipy.special import logsumexp

tf = pytest.importorskip("tensorflow")

import keras_bert  # noqa: E402
from keras_bert.models.bi_encoder import build_bi_encoder  # noqa: E402
from keras_bert.training.contrastive import cosine_loss, in_batch_loss, triplet_loss  # noqa: E402
from keras_bert.training.distribution import create_strategy  # noqa: E402
from keras_bert.training.step import TrainStep  # noqa: E402
from keras_bert.training.tower_bucketing import TowerBatches  # noqa: E402
from keras_bert.training.trainer import Trainer  # noqa: E402
from tests.pipelines import programs  # noqa: E402
from tests.training.small_run import metrics  # noqa: E402

pytestmark = pytest.mark.tensorflow
CONFIG = keras_bert.BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.2,
)
ROWS, PASSAGES, LONGEST = 11, 3, {"query": 5, "passage": 12}


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


def data(batch_size, **options):
    """Two batches of random ids; the last passage of some rows is absent."""
    rng = np.random.default_rng(1)
    inputs, present = {}, rng.integers(0, 2, (ROWS, PASSAGES)) | [1, 1, 0]
    for tower, shape in (("query", (ROWS,)), ("passage", (ROWS, PASSAGES))):
        lengths = rng.integers(2, LONGEST[tower] + 1, shape) * (present if tower == "passage" else 1)
        flat = lengths.reshape(-1)
        ids = {"token_ids": rng.integers(5, 50, flat.sum()), "segment_ids": 0 * np.ones(flat.sum(), int)}
        ids["padding_mask"] = np.ones(flat.sum(), int)
        for name, values in ids.items():
            ragged = tf.RaggedTensor.from_row_lengths(values.astype("int32"), flat)
            is_pair = tower == "passage"
            inputs[f"{tower}_{name}"] = tf.RaggedTensor.from_uniform_row_length(ragged, PASSAGES) if is_pair else ragged
    passage_ids = np.where(present, rng.integers(0, 30, (ROWS, PASSAGES)), -1).astype("int32")
    targets = {"query_ids": np.arange(ROWS, dtype="int32"), "passage_ids": passage_ids}
    return TowerBatches(inputs, targets, batch_size, **options)


def train(directory, loss=None, dtype=None, **options):
    """Returns the losses of each step, the weights and the loss of an evaluation."""
    keras.utils.set_random_seed(3)

    def model():
        return build_bi_encoder(keras_bert.build_embedder(keras_bert.build_encoder(CONFIG, dtype=dtype)))

    run = Trainer(
        model,
        lambda model: keras_bert.create_optimizer(model, 1e-2, 6, 1),
        loss or [in_batch_loss()],
        directory=directory,
        **options,
    )
    run.fit(data(8, grouped=False), epochs=3, log_every=1)
    return (
        _losses(directory),
        {weight.path: weight.numpy() for weight in run.model.weights},
        run.evaluate(data(8, shuffle=False)),
    )


def _losses(directory):
    return [[line["loss"], line["gradient_norm"]] for line in metrics(directory)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return train(tmp_path_factory.mktemp("alone"))


def assert_same(found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    assert found[2] == pytest.approx(expected[2], rel=1e-5)
    for path, weight in expected[1].items():
        if "query_key_value/bias" not in path and "seed_generator" not in path:  # Adam amplifies rounding errors there.
            np.testing.assert_allclose(found[1][path], weight, atol=1e-5 * np.abs(weight).max(), err_msg=path)


def test_a_gradient_cache_changes_nothing(alone, tmp_path):
    assert alone[0][0][0] > alone[0][-1][0] > 0
    assert_same(train(tmp_path, micro_batches=4), alone)


def test_two_replicas_change_nothing(alone, tmp_path, mirrored):
    assert_same(train(tmp_path, strategy=mirrored, micro_batches=2), alone)


def test_a_gradient_cache_keeps_dropout():
    """Both computations of a micro-batch have the same dropout: the gradient is the finite difference of the loss."""
    keras.utils.set_random_seed(2)
    queries, passages = keras.Input((4,), name="query"), keras.Input((2, 4), name="passage")
    drop, dense = keras_bert.layers.Dropout(0.5), keras.layers.Dense(6, use_bias=False)
    outputs = {"query_embedding": drop(dense(queries)), "passage_embedding": drop(dense(passages))}
    model, optimizer = keras.Model({"query": queries, "passage": passages}, outputs), keras_bert.AdamW(0.0)
    optimizer.build(model.trainable_variables)
    step = TrainStep(model, optimizer, [in_batch_loss(1.0)], micro_batches=3, seed=1)
    rng = np.random.default_rng(2)
    inputs = {"query": rng.normal(size=(6, 4)), "passage": rng.normal(size=(6, 2, 4))}
    targets = {"query_ids": tf.range(6), "passage_ids": tf.reshape(tf.range(12), (6, 2))}
    inputs = {name: tf.constant(value, tf.float32) for name, value in inputs.items()}
    batch = inputs, targets, tf.ones(6), tf.constant([6.0]), tf.constant(0), tf.constant(0.0)
    run = tf.function(lambda: step(*batch), autograph=False)
    _, _, norm, _ = run().numpy()
    kernel, differences = model.trainable_variables[0], []
    start = kernel.numpy()
    for index in np.ndindex(start.shape):
        losses = []
        for change in (1e-2, -1e-2):
            moved = start.copy()
            moved[index] += change
            kernel.assign(moved)
            losses.append(run().numpy()[1])
        differences.append((losses[0] - losses[1]) / 2e-2)
    assert np.linalg.norm(differences) == pytest.approx(norm, rel=1e-3)


@pytest.mark.slow
def test_two_workers_change_nothing(alone, two_addresses, tmp_path):
    workers = []
    for index in range(2):
        config = json.dumps({"cluster": {"worker": two_addresses}, "task": {"type": "worker", "index": index}})
        arguments = tmp_path / "run", tmp_path / f"{index}.npz"
        workers.append(programs.start("tests.training.test_contrastive", *arguments, TF_CONFIG=config))
    for index, worker in enumerate(workers):
        programs.finish(worker)
        assert_same((alone[0], dict(np.load(tmp_path / f"{index}.npz")), alone[2]), alone)
    np.testing.assert_allclose(_losses(tmp_path / "run"), alone[0], rtol=1e-5)


def test_xla_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a loss of all rows together. Received: 'loss'"):
        train(tmp_path, jit_compile=True)


if __name__ == "__main__":  # One of several workers.
    _, trained, _ = train(pathlib.Path(sys.argv[1]), strategy=create_strategy("auto", timeout_s=60))
    np.savez(sys.argv[2], **trained)

"""Losses against NumPy; those of sentence encoders also for any number of replicas and micro-batches."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import logsumexp

import keras_bert
from keras_bert.rewirings.joined import build_bi_encoder
from keras_bert.training import losses
from keras_bert.training.losses import cosine_loss, in_batch_loss, triplet_loss

LOGITS = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]], "float32")


def cross_entropy(logits, label):
    return -(logits[label] - np.log(np.exp(logits).sum()))


def mean(loss, targets, outputs, rows=(1.0, 1.0)):
    weights = loss.row_weights(targets, tf.constant(rows))
    return float(tf.reduce_sum(loss.values(targets, outputs) * weights) / tf.reduce_sum(weights))


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_targets_may_have_an_extra_dimension(shape):
    """Shapes (2,) and (2, 1) are not broadcast to (2, 2)."""
    outputs = {"logits": np.array([[1.0], [4.0]], "float32")}
    targets = tf.reshape(tf.constant([3.0, 4.5]), shape)
    assert mean(losses.regression_loss(), targets, outputs) == pytest.approx((4 + 0.25) / 2)
    targets = tf.reshape(tf.constant([1, 2], tf.uint8), shape)
    outputs = {"logits": LOGITS, "nsp_logits": LOGITS}
    expected = (cross_entropy(LOGITS[0], 1) + cross_entropy(LOGITS[1], 2)) / 2
    assert mean(losses.classification_loss(), targets, outputs) == pytest.approx(expected)
    next_sentence = {"next_sentence_labels": tf.cast(targets, tf.int32)}
    assert mean(losses.pretraining_losses()[1], next_sentence, outputs) == pytest.approx(expected)
    assert mean(losses.pretraining_metrics()[2], next_sentence, outputs) == 1
    spans = {name: tf.reshape(tf.constant(places), shape) for name, places in (("start", [0, 1]), ("end", [1, 2]))}
    expected = cross_entropy(LOGITS[0], 0) + cross_entropy(LOGITS[1], 1)
    expected += cross_entropy(LOGITS[1], 1) + cross_entropy(LOGITS[0], 2)
    outputs = {"start_logits": LOGITS, "end_logits": LOGITS[::-1]}
    assert mean(losses.span_loss(), spans, outputs) == pytest.approx(expected / 4)


def test_losses_are_not_those_of_keras():
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("sgd", losses.classification_loss())
    message = r"are for `Trainer`. Expected a loss of Keras for `model.compile`, such as .* Received: a call of 'loss'"
    with pytest.raises(ValueError, match=message):
        model.fit(LOGITS, np.array([1, 2]), verbose=0)


def test_class_weights():
    loss = losses.classification_loss([1.0, 0.5, 2.0])
    expected = (0.5 * cross_entropy(LOGITS[0], 1) + 2 * cross_entropy(LOGITS[1], 2)) / 2.5
    for shape in ((2,), (2, 1)):
        targets = tf.reshape(tf.constant([1, 2]), shape)
        assert mean(loss, targets, {"logits": LOGITS}) == pytest.approx(expected)


def test_several_labels():
    """The mean over the labels of each row, as in `torch.nn.BCEWithLogitsLoss`; with weights, of weighted values."""
    targets = np.array([[0, 1, 0], [0, 0, 1]], "uint8")
    found = np.where(targets, np.log1p(np.exp(-LOGITS)), np.log1p(np.exp(LOGITS)))
    outputs = {"logits": LOGITS}
    assert mean(losses.multi_label_loss(), tf.constant(targets), outputs) == pytest.approx(found.mean(), rel=1e-6)
    weights = np.array([[0.5, 4.0], [0.6, 3.0], [0.7, 2.0]])
    found *= np.take_along_axis(weights.T, targets.astype(int), 0)
    assert mean(losses.multi_label_loss(weights), tf.constant(targets), outputs) == pytest.approx(
        found.mean(), rel=1e-6
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9, 1.0])
def test_tokens_and_label_smoothing(smoothing):
    """The cross-entropy with a mixture of the label and all classes; padding has neither loss nor gradient."""
    labels = tf.constant([[0, 2, -1], [-1, 1, -1]])
    logits = tf.Variable(np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32"))
    with tf.GradientTape() as tape:
        loss = losses.token_loss(smoothing)
        weights = loss.row_weights(labels, tf.ones(2))
        found = tf.reduce_sum(loss.values(labels, {"logits": logits}) * weights) / tf.reduce_sum(weights)
    logs = logits.numpy()
    gradient = np.zeros((2, 3, 4))
    expected = 0
    logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
    for row, column in ((0, 0), (0, 1), (1, 1)):
        mixture = np.eye(4)[labels[row, column]] * (1 - smoothing) + smoothing / 4
        expected -= mixture @ logs[row, column] / 3
        gradient[row, column] = (np.exp(logs[row, column]) - mixture) / 3
    assert float(found) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(tape.gradient(found, logits), gradient, atol=1e-7)
    if smoothing:  # A class that does not exist has no loss, instead of a wrong one; TensorFlow's own loss raises.
        values = loss.values(tf.constant([[4, 0, 0]]), {"logits": logits[:1]})
        assert np.isnan(values).tolist() == [[True, False, False]]


def test_next_sentence_in_packed_rows():
    """Two packed rows have three pairs; the label of the missing one is -1."""
    outputs = {"nsp_logits": np.array([[1.0, 2.0], [0.0, 3.0], [2.0, 0.0], [5.0, 7.0]], "float32")}
    targets = {"next_sentence_labels": tf.constant([[1, 0], [0, -1]])}
    expected = [cross_entropy(outputs["nsp_logits"][row], label) for row, label in enumerate([1, 0, 0])]
    assert mean(losses.pretraining_losses()[1], targets, outputs) == pytest.approx(np.mean(expected))
    assert mean(losses.pretraining_losses()[1], targets, outputs, rows=(0.0, 1.0)) == pytest.approx(expected[2], 1e-5)
    assert mean(losses.pretraining_metrics()[2], targets, outputs) == pytest.approx(2 / 3)


def test_pretraining():
    """The first label is the most probable one, the second is not; likewise for the two pairs."""
    outputs = {"mlm_logits": np.stack([LOGITS, LOGITS]), "nsp_logits": LOGITS[:, :2]}
    targets = {
        "mask_labels": tf.constant([[1, 0], [1, 2]]),
        "mask_weights": tf.constant([[1.0, 0.5], [0.0, 0.0]]),
        "next_sentence_labels": tf.constant([1, 1]),
    }
    masked_lm = (cross_entropy(LOGITS[0], 1) + 0.5 * cross_entropy(LOGITS[1], 0)) / 1.5
    nsp = (cross_entropy(LOGITS[0, :2], 1) + cross_entropy(LOGITS[1, :2], 1)) / 2
    expected = {"mlm_loss": masked_lm, "nsp_loss": nsp}
    expected |= {"mlm_accuracy": 1 / 1.5, "mlm_perplexity": np.exp(masked_lm), "nsp_accuracy": 0.5}
    every = [*losses.pretraining_losses(), *losses.pretraining_metrics()]
    found = {loss.name: (loss.finish or float)(mean(loss, targets, outputs)) for loss in every}
    assert found == pytest.approx(expected)
    narrow = {name: tf.cast(value, tf.bfloat16) for name, value in outputs.items()}
    assert {loss.values(targets, narrow).dtype for loss in every} == {tf.float32}
    with np.errstate(over="ignore"):
        assert every[3].finish(np.float64(1000)) == np.inf  # A diverging run still writes its next log line.
    without = [*losses.pretraining_losses(next_sentence=False), *losses.pretraining_metrics(next_sentence=False)]
    assert [loss.name for loss in without] == ["mlm_loss", "mlm_accuracy", "mlm_perplexity"]


TOKENS = {"mask_labels": tf.zeros([2, 1], tf.int32), "mask_weights": tf.ones([2, 1])}


def test_targets_of_wrong_shape_or_type():
    for loss, targets, logits, message in (
        ("regression_loss", tf.zeros([2, 3]), [2, 1], r"`targets` must be of shape \(2,\) or \(2, 1\). Received: .*"),
        ("regression_loss", tf.zeros([1, 2]), [2, 1], r"must be of shape .* Received: targets.shape=\(1, 2\)"),
        ("regression_loss", tf.zeros([2]), [2, 3], r"requires a model with logits of shape \(rows, 1\)"),
        ("regression_loss", None, [2, 1], "`targets` are required by the loss. Received: batches without targets"),
        ("classification_loss", tf.zeros([2, 3], tf.int32), [2, 3], r"must be of shape \(2,\) or \(2, 1\)"),
        ("classification_loss", tf.zeros([2]), [2, 3], "must be integer class indices. Received: .*=float32"),
        ("multi_label_loss", tf.zeros([2], tf.int32), [2, 3], r"`targets` must be of shape \(2, 3\). Received:"),
        ("token_loss", tf.zeros([2, 1], tf.int32), [2, 2, 3], r"must be of shape \(2, 2\). Received: .*=\(2, 1\)"),
        ("span_loss", tf.zeros([2], tf.int32), [2, 3], "`targets` must be a dict with 'start'. Received: EagerTensor"),
        ("pretraining", TOKENS, [2, 3, 3], r"`targets\['mask_labels'\]` must be of shape \(2, 3\). Received: "),
    ):
        made = losses.pretraining_metrics()[0] if loss == "pretraining" else getattr(losses, loss)()
        with pytest.raises(ValueError, match=message):
            made.values(targets, {"logits": tf.zeros(logits), "mlm_logits": tf.zeros(logits)})
    for smoothing in (-0.1, 1.5, None, True):
        with pytest.raises(ValueError, match="`label_smoothing` must be a number in"):
            losses.token_loss(smoothing)


def test_weights_apply_to_leading_dimensions():
    """With as many values per row as rows: along the other axis, the sum would be 1 * 4 + 2 * 6."""
    values = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    weights = tf.constant([1.0, 2.0])
    for given, rows in ((lambda _: weights, tf.ones(2)), (None, weights), (lambda _: weights[:, None], tf.ones(2))):
        total, weight = losses.Loss("x", lambda *_: values, given).sums(None, None, rows)
        assert (float(total), float(weight)) == (1 * 3 + 2 * 7, 3)
    total, weight = losses.Loss("x", lambda *_: values, lambda _: values).sums(None, None, weights)
    assert (float(total), float(weight)) == (1 + 4 + 2 * (9 + 16), 3 + 2 * 7)


def test_values_and_weights_of_incompatible_shapes():
    for values, weights, message in (
        ([], [4], r"`values` of the loss 'x' must be a tensor of shape \(rows, ...\). Received: .*=\(\) for 4 rows"),
        ([3], [4], r"must be a tensor of shape \(rows, ...\). Received: values.shape=\(3,\) for 4 rows"),
        ([4], [4, 2], r"`weights` of the loss 'x' must have the leading dimensions of its values. Received: weights"),
        ([4, 1], [4, 2], r"Received: weights.shape=\(4, 2\), values.shape=\(4, 1\)"),
    ):
        loss = losses.Loss("x", lambda *_, shape=values: tf.ones(shape), lambda _, shape=weights: tf.ones(shape))
        with pytest.raises(ValueError, match=message):
            loss.sums(None, None, tf.ones(4))


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
    queries = outputs["query_embedding"][:, None]
    passages = outputs["passage_embedding"]
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
        right = queries[row] @ passages[row, 0] / 0.1
        wrong = []
        others = []
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

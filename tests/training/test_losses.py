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
    values = loss.values(targets, outputs)
    return float(tf.reduce_sum(values * weights) / tf.reduce_sum(weights))


# Shapes (2,) and (2, 1) are not broadcast to (2, 2).
with_an_extra_dimension = pytest.mark.parametrize("shape", [(2,), (2, 1)])


@with_an_extra_dimension
def test_numbers_may_have_an_extra_dimension(shape):
    outputs = {"logits": np.array([[1.0], [4.0]], "float32")}
    targets = tf.reshape(tf.constant([3.0, 4.5]), shape)
    assert mean(losses.regression_loss(), targets, outputs) == pytest.approx((4 + 0.25) / 2)


@with_an_extra_dimension
def test_classes_may_have_an_extra_dimension(shape):
    targets = tf.reshape(tf.constant([1, 2], tf.uint8), shape)
    outputs = {"logits": LOGITS, "nsp_logits": LOGITS}
    expected = (cross_entropy(LOGITS[0], 1) + cross_entropy(LOGITS[1], 2)) / 2
    assert mean(losses.classification_loss(), targets, outputs) == pytest.approx(expected)
    next_sentence = {"next_sentence_labels": tf.cast(targets, tf.int32)}
    assert mean(losses.pretraining_losses()[1], next_sentence, outputs) == pytest.approx(expected)
    assert mean(losses.pretraining_metrics()[2], next_sentence, outputs) == 1


@with_an_extra_dimension
def test_places_of_spans_may_have_an_extra_dimension(shape):
    spans = {
        "start": tf.reshape(tf.constant([0, 1]), shape),
        "end": tf.reshape(tf.constant([1, 2]), shape),
    }
    outputs = {"start_logits": LOGITS, "end_logits": LOGITS[::-1]}
    of_starts = cross_entropy(LOGITS[0], 0) + cross_entropy(LOGITS[1], 1)
    of_ends = cross_entropy(LOGITS[1], 1) + cross_entropy(LOGITS[0], 2)
    assert mean(losses.span_loss(), spans, outputs) == pytest.approx((of_starts + of_ends) / 4)


def test_losses_are_not_those_of_keras():
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("sgd", losses.classification_loss())
    with pytest.raises(ValueError, match=r"are for `Trainer`. Expected a loss of Keras .* Received: a call of 'loss'"):
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
    expected = np.where(targets, np.log1p(np.exp(-LOGITS)), np.log1p(np.exp(LOGITS)))
    outputs = {"logits": LOGITS}
    found = mean(losses.multi_label_loss(), tf.constant(targets), outputs)
    assert found == pytest.approx(expected.mean(), rel=1e-6)
    weights = np.array([[0.5, 4.0], [0.6, 3.0], [0.7, 2.0]])
    expected *= np.where(targets, weights[:, 1], weights[:, 0])
    found = mean(losses.multi_label_loss(weights), tf.constant(targets), outputs)
    assert found == pytest.approx(expected.mean(), rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9, 1.0])
def test_tokens_and_label_smoothing(smoothing):
    """The cross-entropy with a mixture of the label and all classes; padding has neither loss nor gradient."""
    labels = tf.constant([[0, 2, -1], [-1, 1, -1]])
    logits = tf.Variable(np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32"))
    loss = losses.token_loss(smoothing)
    with tf.GradientTape() as tape:
        weights = loss.row_weights(labels, tf.ones(2))
        values = loss.values(labels, {"logits": logits})
        found = tf.reduce_sum(values * weights) / tf.reduce_sum(weights)
    logs = logits.numpy()
    logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
    expected = 0
    gradient = np.zeros((2, 3, 4))
    for row, column in ((0, 0), (0, 1), (1, 1)):
        mixture = np.eye(4)[labels[row, column]] * (1 - smoothing) + smoothing / 4
        expected -= mixture @ logs[row, column] / 3
        gradient[row, column] = (np.exp(logs[row, column]) - mixture) / 3
    assert float(found) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(tape.gradient(found, logits), gradient, atol=1e-7)


@pytest.mark.parametrize("smoothing", [0.1, 0.9, 1.0])
def test_a_class_that_does_not_exist_has_no_smoothed_loss(smoothing):
    """Instead of a wrong one; without smoothing, TensorFlow's own loss raises."""
    loss = losses.token_loss(smoothing)
    values = loss.values(tf.constant([[4, 0, 0]]), {"logits": tf.ones([1, 3, 4])})
    assert np.isnan(values).tolist() == [[True, False, False]]


def test_next_sentence_in_packed_rows():
    """Two packed rows have three pairs; the label of the missing one is -1."""
    logits = np.array([[1.0, 2.0], [0.0, 3.0], [2.0, 0.0], [5.0, 7.0]], "float32")
    outputs = {"nsp_logits": logits}
    targets = {"next_sentence_labels": tf.constant([[1, 0], [0, -1]])}
    expected = []
    for pair, label in zip(logits, [1, 0, 0], strict=False):  # The fourth one is missing.
        expected.append(cross_entropy(pair, label))
    _, loss = losses.pretraining_losses()
    assert mean(loss, targets, outputs) == pytest.approx(np.mean(expected))
    assert mean(loss, targets, outputs, rows=(0.0, 1.0)) == pytest.approx(expected[2], 1e-5)
    assert mean(losses.pretraining_metrics()[2], targets, outputs) == pytest.approx(2 / 3)


PRETRAINING_OUTPUTS = {"mlm_logits": np.stack([LOGITS, LOGITS]), "nsp_logits": LOGITS[:, :2]}
PRETRAINING_TARGETS = {
    "mask_labels": tf.constant([[1, 0], [1, 2]]),
    "mask_weights": tf.constant([[1.0, 0.5], [0.0, 0.0]]),
    "next_sentence_labels": tf.constant([1, 1]),
}


def test_pretraining():
    """The first label is the most probable one, the second is not; likewise for the two pairs."""
    masked_lm = (cross_entropy(LOGITS[0], 1) + 0.5 * cross_entropy(LOGITS[1], 0)) / 1.5
    nsp = (cross_entropy(LOGITS[0, :2], 1) + cross_entropy(LOGITS[1, :2], 1)) / 2
    found = {}
    for loss in [*losses.pretraining_losses(), *losses.pretraining_metrics()]:
        value = mean(loss, PRETRAINING_TARGETS, PRETRAINING_OUTPUTS)
        if loss.finish is not None:
            value = loss.finish(value)
        found[loss.name] = value
    assert found == pytest.approx(
        {
            "mlm_loss": masked_lm,
            "nsp_loss": nsp,
            "mlm_accuracy": 1 / 1.5,
            "mlm_perplexity": np.exp(masked_lm),
            "nsp_accuracy": 0.5,
        }
    )


def test_pretraining_in_16_bits_has_losses_in_32():
    outputs = {name: tf.cast(value, tf.bfloat16) for name, value in PRETRAINING_OUTPUTS.items()}
    for loss in [*losses.pretraining_losses(), *losses.pretraining_metrics()]:
        assert loss.values(PRETRAINING_TARGETS, outputs).dtype == tf.float32


def test_a_diverging_run_still_has_a_perplexity():
    _, perplexity, _ = losses.pretraining_metrics()
    assert perplexity.name == "mlm_perplexity"
    with np.errstate(over="ignore"):
        assert perplexity.finish(np.float64(1000)) == np.inf


def test_pretraining_without_next_sentences():
    without = losses.pretraining_losses(next_sentence=False)
    metrics = losses.pretraining_metrics(next_sentence=False)
    assert [loss.name for loss in without] == ["mlm_loss"]
    assert [metric.name for metric in metrics] == ["mlm_accuracy", "mlm_perplexity"]


TOKENS = {"mask_labels": tf.zeros([2, 1], tf.int32), "mask_weights": tf.ones([2, 1])}


@pytest.mark.parametrize(
    ("make", "targets", "logits", "message"),
    [
        ("regression_loss", tf.zeros([2, 3]), [2, 1], r"`targets` must be of shape \(2,\) or \(2, 1\). Received: .*"),
        ("regression_loss", tf.zeros([1, 2]), [2, 1], r"targets.shape=\(1, 2\)"),
        ("regression_loss", tf.zeros([2]), [2, 3], r"requires a model with logits of shape \(rows, 1\)"),
        ("regression_loss", None, [2, 1], "`targets` are required by the loss. Received: batches without targets"),
        ("classification_loss", tf.zeros([2, 3], tf.int32), [2, 3], "`targets`"),
        ("classification_loss", tf.zeros([2]), [2, 3], "must be integer class indices. Received: .*=float32"),
        ("multi_label_loss", tf.zeros([2], tf.int32), [2, 3], r"\(2, 3\)"),
        ("token_loss", tf.zeros([2, 1], tf.int32), [2, 2, 3], r"\(2, 2\). Received: .*=\(2, 1\)"),
        ("span_loss", tf.zeros([2], tf.int32), [2, 3], "`targets` must be a dict with 'start'. Received: EagerTensor"),
        ("pretraining_losses", TOKENS, [2, 3, 3], r"`targets\['mask_labels'\]`"),
        ("pretraining_metrics", TOKENS, [2, 3, 3], r"`targets\['mask_labels'\]`"),
    ],
)
def test_targets_of_wrong_shape_or_type(make, targets, logits, message):
    loss = getattr(losses, make)()
    if isinstance(loss, list):
        loss = loss[0]
    outputs = {"logits": tf.zeros(logits), "mlm_logits": tf.zeros(logits)}
    with pytest.raises(ValueError, match=message):
        loss.values(targets, outputs)


@pytest.mark.parametrize("smoothing", [-0.1, 1.5, None, True])
def test_label_smoothing_out_of_range(smoothing):
    with pytest.raises(ValueError, match="`label_smoothing` must be a number in"):
        losses.token_loss(smoothing)


VALUES = tf.constant([[1.0, 2.0], [3.0, 4.0]])
WEIGHTS = tf.constant([1.0, 2.0])


@pytest.mark.parametrize(
    ("of_targets", "rows"),
    [(lambda _: WEIGHTS, tf.ones(2)), (None, WEIGHTS), (lambda _: WEIGHTS[:, None], tf.ones(2))],
)
def test_weights_apply_to_leading_dimensions(of_targets, rows):
    """With as many values per row as rows: along the other axis, the sum would be 1 * 4 + 2 * 6."""
    loss = losses.Loss("x", lambda targets, outputs: VALUES, of_targets)
    total, weight = loss.sums(None, None, rows)
    assert float(total) == 1 * 3 + 2 * 7
    assert float(weight) == 3


def test_weights_of_each_value_and_of_rows():
    loss = losses.Loss("x", lambda targets, outputs: VALUES, lambda targets: VALUES)
    total, weight = loss.sums(None, None, WEIGHTS)
    assert float(total) == 1 + 4 + 2 * (9 + 16)
    assert float(weight) == 3 + 2 * 7


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        ([], [4], r"`values` of the loss 'x' must be a tensor of shape \(rows, ...\). Received: .*=\(\) for 4 rows"),
        ([3], [4], r"values.shape=\(3,\) for 4 rows"),
        ([4], [4, 2], r"`weights` of the loss 'x' must have the leading dimensions of its values. Received: weights"),
        ([4, 1], [4, 2], r"weights.shape=\(4, 2\), values.shape=\(4, 1\)"),
    ],
)
def test_values_and_weights_of_incompatible_shapes(values, weights, message):
    loss = losses.Loss("x", lambda targets, outputs: tf.ones(values), lambda targets: tf.ones(weights))
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
    products = unit(outputs["query_embedding"]) * unit(outputs["passage_embedding"][:, 0])
    errors = (products.sum(-1) - scores) ** 2
    found = sums(cosine_loss(), scores, outputs, rows=(1.0, 1.0, 1.0, 0.0))
    assert found == pytest.approx((errors[:3].sum(), 3), rel=1e-5)


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


QUERY_IDS = np.array([0, 1, 0, 0])
PASSAGE_IDS = np.array([[5, 6, 7], [5, 8, -1], [9, 5, 6], [5, 6, 7]])


def are_alike(row, other):
    """Whether two rows have the same query or the same passage, so that neither is wrong for the other."""
    return QUERY_IDS[row] == QUERY_IDS[other] or PASSAGE_IDS[row, 0] == PASSAGE_IDS[other, 0]


def wrong_passages(row, rows):
    """The places of the passages that are wrong for the query of a row."""
    places = []
    for other in range(rows):
        if other != row and are_alike(row, other):
            continue
        for column in range(3):
            is_right = PASSAGE_IDS[other, column] == PASSAGE_IDS[row, 0]
            if not is_right and PASSAGE_IDS[other, column] != -1:
                places.append((other, column))
    return places


@pytest.mark.parametrize("symmetric", [True, False])
def test_in_batch_negatives(outputs, symmetric):
    """Written as loops: rows 0 and 1 share the passage, 0 and 2 the query; the last row is filler."""
    queries = unit(outputs["query_embedding"]) / 0.1
    passages = unit(outputs["passage_embedding"])
    expected = 0.0
    for row in range(3):
        right = queries[row] @ passages[row, 0]
        scores = [right]
        for place in wrong_passages(row, rows=3):
            scores.append(queries[row] @ passages[place])
        term = logsumexp(scores) - right
        if symmetric:
            scores = [right]
            for other in range(3):
                if not are_alike(row, other):
                    scores.append(queries[other] @ passages[row, 0])
            term = (term + logsumexp(scores) - right) / 2
        expected += term
    ids = {"query_ids": QUERY_IDS, "passage_ids": PASSAGE_IDS}
    found = sums(in_batch_loss(0.1, symmetric), ids, outputs, rows=(1.0, 1.0, 1.0, 0.0))
    assert found == pytest.approx((expected, 3), rel=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: in_batch_loss(0), "`temperature` must be a positive number. Received: temperature=0"),
        (lambda: triplet_loss(-1.0), "`margin`"),
        (lambda: triplet_loss(distance="dot"), "`distance` must be one of cosine, euclidean"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_ids_of_pairs(outputs):
    with pytest.raises(ValueError, match="'query_ids'"):
        sums(in_batch_loss(), {}, outputs)
    with pytest.raises(ValueError, match="'passage_ids'.* must be integers of rank 2. Received: float"):
        sums(triplet_loss(), {"passage_ids": np.zeros((4, 3))}, outputs)


def test_a_bi_encoder_embeds_each_text_alone(build, batch):
    """Queries and passages with the same embedder, whose gradients stay finite if a passage is absent."""
    embedder = keras_bert.build_embedder(build("encoder"))
    inputs = {}
    for name, ids in batch.items():
        inputs[f"query_{name}"] = ids
        inputs[f"passage_{name}"] = np.stack([ids[::-1], ids], 1)
    inputs["passage_padding_mask"][1, 1] = 0
    model = build_bi_encoder(embedder)
    targets = {"query_ids": np.arange(3), "passage_ids": np.array([[0, 1], [2, -1], [3, 4]])}
    with tf.GradientTape() as tape:
        outputs = model(inputs)
        loss, _ = in_batch_loss().sums(targets, outputs, tf.ones(3))
    vectors = embedder(batch)["embedding"].numpy()
    passages = outputs["passage_embedding"].numpy()
    np.testing.assert_allclose(outputs["query_embedding"], vectors, atol=1e-5)
    np.testing.assert_allclose(passages[:, 0], vectors[::-1], atol=1e-5)
    np.testing.assert_allclose(passages[[0, 2], 1], vectors[[0, 2]], atol=1e-5)
    weights = [weight.value for weight in model.trainable_variables if "pooler" not in weight.path]
    for gradient in tape.gradient(loss, weights):
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()

"""Predictions and evaluations of all rows, in order; logits that are computed once and kept in a file."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.data.batch_source import Stream
from keras_bert.training.evaluation import Evaluation, Evaluator, cached_outputs
from keras_bert.training.losses import Loss, classification_loss, token_loss
from keras_bert.training.trainer import Trainer
from tests.training.small_run import linear, numbered


def test_predict_keeps_every_row_in_order(mirrored):
    """7 rows, of unknown number and sorted by length."""
    x = np.random.default_rng(0).normal(size=(7, 3)).astype("float32")
    inputs = tf.data.Dataset.from_tensor_slices({"x": x}).batch(3)
    ragged = {"x": tf.RaggedTensor.from_row_lengths(x.reshape(-1), [3] * 7)}
    run = linear(strategy=mirrored)
    kernel, bias = run.model.get_weights()
    expected = x @ kernel + bias
    for dataset in (inputs.filter(lambda batch: True), keras_bert.data.Batches(ragged)):
        np.testing.assert_allclose(run.predict(dataset)["logits"], expected, atol=1e-5)


@pytest.mark.usefixtures("eager")
def test_padding_of_ragged_targets_does_not_count():
    """Rows of 1, 4, 2, 3 and 5 tokens in batches of 2 of different lengths."""
    rng = np.random.default_rng(0)
    lengths = [1, 4, 2, 3, 5]
    x = rng.normal(size=(15, 3)).astype("float32")
    classes = rng.integers(0, 3, 15).astype("int32")
    inputs = tf.RaggedTensor.from_row_lengths(x, lengths)
    targets = tf.RaggedTensor.from_row_lengths(classes, lengths)
    batches = keras_bert.data.Batches({"x": inputs}, targets, batch_size=2, boundaries=[2, 4, 5])
    seen = []

    def model():
        pieces = keras.Input((None, 3), name="x")
        return keras.Model({"x": pieces}, {"logits": keras.layers.Dense(3)(pieces)})

    def metric(targets, outputs):
        seen.extend([targets, outputs["logits"]])
        return {}

    run = Trainer(model, lambda model: keras_bert.AdamW(0.1), token_loss(), metrics=metric)
    logits = x @ run.model.get_weights()[0]
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(15), classes]
    assert run.evaluate(batches)["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    seen_targets, outputs = seen
    padded = targets.to_tensor(-1).numpy()
    np.testing.assert_array_equal(seen_targets, padded)
    np.testing.assert_allclose(outputs[padded >= 0], logits, atol=1e-5)
    assert outputs.shape == (5, 5, 3)
    assert (outputs[[0, 2], 4:] == 0).all()  # Shorter batches are padded with zeros.
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    assert float(loss(padded, outputs)) == pytest.approx(losses.mean(), rel=1e-5)


def test_losses_as_metrics(mirrored):
    """Batch by batch, with rows of weight 0, and with a metric over all rows; `finish` is applied to the mean."""
    rng = np.random.default_rng(7)
    inputs = {"x": rng.normal(size=(7, 3)).astype("float32")}
    labels = np.array([0, 1, 1, 2, 0, 1, 2], "int32")
    weights = np.array([1, 0, 0.5, 1, 0, 2, 0], "float32")
    dataset = tf.data.Dataset.from_tensor_slices((inputs, labels, weights[:, None]))
    batches = Stream(dataset.batch(3))

    def is_right(targets, outputs):
        return tf.cast(tf.argmax(outputs["logits"], -1, tf.int32) == targets, tf.float32)

    def first_logit(targets, outputs):
        return outputs["logits"][:, 0]

    def right_logit(targets, outputs):
        """A metric over all rows."""
        return {"right_logit": outputs["logits"][np.arange(7), targets].mean()}

    metrics = [
        Loss("right", is_right),
        right_logit,
        Loss("perplexity", classification_loss().values, finish=math.exp),
        Loss("of_class_1", first_logit, lambda targets: targets == 1),
        Loss("of_none", first_logit, lambda targets: targets == 9, finish=math.exp),
        # As many classes as rows.
        Loss("sum_of_class_1", lambda targets, outputs: outputs["logits"], lambda targets: targets == 1),
    ]
    run = linear(classes=3, loss=classification_loss(), strategy=mirrored, metrics=metrics)
    results = run.evaluate(batches)
    kernel, bias = run.model.get_weights()
    logits = inputs["x"] @ kernel + bias
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(7), labels]
    weights_of_1 = weights * (labels == 1)
    loss = np.average(losses, weights=weights)
    expected = {
        "loss": loss,
        "right": np.average(logits.argmax(1) == labels, weights=weights),
        "right_logit": logits[np.arange(7), labels].mean(),
        "perplexity": np.exp(loss),
        "of_class_1": np.average(logits[:, 0], weights=weights_of_1),
        "sum_of_class_1": np.average(logits.sum(1), weights=weights_of_1),
    }
    assert math.isnan(results.pop("of_none"))
    assert results == pytest.approx(expected, rel=1e-5)


@pytest.mark.usefixtures("eager")
def test_losses_as_the_only_metrics_keep_no_outputs(monkeypatch):
    """The logits of all held-out records would not fit into memory."""
    run = linear(metrics=Loss("mean", lambda y, out: out["logits"][:, 0]))
    original = Evaluator.outputs
    kept = []

    def outputs(*arguments, **options):
        kept.append(original(*arguments, **options))
        return kept[-1]

    monkeypatch.setattr(Evaluator, "outputs", outputs)
    results = run.evaluate(numbered(1, 2))
    assert set(results) == {"loss", "number", "mean"}
    assert kept == [(None, None, results)]


LENGTHS = [4, 1, 7, 3, 7]


def rows(first=0):
    """Rows of ids, counted from the first one."""
    ids = tf.RaggedTensor.from_row_lengths(np.arange(first, first + sum(LENGTHS), dtype="int32"), LENGTHS)
    return {"token_ids": ids, "padding_mask": tf.ones_like(ids)}


@pytest.fixture(scope="module")
def model():
    """Its logits are the sum of the tokens and their number."""
    inputs = {}
    sums = []
    for name in ("token_ids", "padding_mask"):
        inputs[name] = keras.Input((None,), dtype="int32", name=name)
        sums.append(keras.ops.sum(keras.ops.cast(inputs[name], "float32"), axis=1))
    return keras.Model(inputs, {"logits": keras.ops.stack(sums, axis=1)})


@pytest.fixture(scope="module")
def expected():
    tokens = np.split(np.arange(22), np.cumsum(LENGTHS)[:-1])
    return [[ids.sum(), len(ids)] for ids in tokens]


class Computing:
    """Notes how often logits are computed, and may give others in their place."""

    def __init__(self, monkeypatch, logits=None):
        self.count = 0
        original = Evaluator.outputs

        def outputs(*arguments, **options):
            self.count += 1
            if logits is not None:
                return Evaluation({"logits": logits}, None, {})
            return original(*arguments, **options)

        monkeypatch.setattr(Evaluator, "outputs", outputs)


@pytest.mark.usefixtures("eager")
def test_logits_are_computed_once(tmp_path, model, expected, monkeypatch, caplog):
    path = tmp_path / "teacher" / "dev.npz"
    computing = Computing(monkeypatch)
    caplog.set_level("INFO", "keras_bert")
    for _ in range(2):
        found = cached_outputs(path, model, rows(), "key", batch_size=2)["logits"]
        np.testing.assert_array_equal(found, expected)
    assert computing.count == 1
    assert caplog.messages == ["  computing logits of dev: 5 rows", "  found logits of dev: 5 rows"]
    assert [file.name for file in path.parent.iterdir()] == ["dev.npz"]


@pytest.mark.usefixtures("eager")
def test_damaged_files_of_logits_are_replaced(tmp_path, model, expected):
    path = tmp_path / "dev.npz"
    found = cached_outputs(path, model, rows(), "key")["logits"]
    content = path.read_bytes()
    changed = bytearray(content)
    changed[content.index(found.tobytes())] ^= 1
    for damaged in (content[:-50], b"", bytes(changed)):
        path.write_bytes(damaged)
        np.testing.assert_array_equal(cached_outputs(path, model, rows(), "key")["logits"], expected)
        assert path.read_bytes() == content


def test_logits_of_other_models_and_rows_are_replaced(tmp_path, model, expected, monkeypatch):
    path = tmp_path / "dev.npz"
    computing = Computing(monkeypatch, np.array(expected, "float32"))
    cached_outputs(path, model, rows(), "key")
    cached_outputs(path, model, rows(), "other model")
    cached_outputs(path, model, rows(first=1), "other model")
    assert computing.count == 3


def test_logits_that_are_not_finite_are_refused(tmp_path, model, expected, monkeypatch):
    Computing(monkeypatch, np.array(expected) * float("nan"))
    with pytest.raises(ValueError, match="the logits of dev: 5 rows are not finite"):
        cached_outputs(tmp_path / "dev.npz", model, rows(), "key")

"""Predictions and evaluations of all rows, in order; logits that are computed once and kept in a file."""

import math
from unittest import mock

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
    expected = x @ run.model.get_weights()[0] + run.model.get_weights()[1]
    for dataset in (inputs.filter(lambda batch: True), keras_bert.data.Batches(ragged)):
        np.testing.assert_allclose(run.predict(dataset)["logits"], expected, atol=1e-5)


@pytest.mark.usefixtures("eager")
def test_padding_of_ragged_targets_does_not_count():
    """Rows of 1, 4, 2, 3 and 5 tokens in batches of 2 of different lengths."""
    rng = np.random.default_rng(0)
    lengths = [1, 4, 2, 3, 5]
    x = rng.normal(size=(15, 3)).astype("float32")
    classes = rng.integers(0, 3, 15).astype("int32")
    inputs, targets = (tf.RaggedTensor.from_row_lengths(values, lengths) for values in (x, classes))
    batches = keras_bert.data.Batches({"x": inputs}, targets, batch_size=2, boundaries=[2, 4, 5])
    found = []

    def model():
        pieces = keras.Input((None, 3), name="x")
        return keras.Model({"x": pieces}, {"logits": keras.layers.Dense(3)(pieces)})

    def metric(targets, outputs):
        found.append((targets, outputs["logits"]))
        return {}

    run = Trainer(model, lambda model: keras_bert.AdamW(0.1), token_loss(), metrics=metric)
    logits = x @ run.model.get_weights()[0]
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(15), classes]
    assert run.evaluate(batches)["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    padded = targets.to_tensor(-1).numpy()
    np.testing.assert_array_equal(found[0][0], padded)
    outputs = found[0][1]
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
    batches = Stream(tf.data.Dataset.from_tensor_slices((inputs, labels, weights[:, None])).batch(3))
    means = [
        Loss("right", lambda y, out: tf.cast(tf.argmax(out["logits"], -1, tf.int32) == y, tf.float32)),
        Loss("perplexity", classification_loss().values, finish=math.exp),
        Loss("of_class_1", lambda y, out: out["logits"][:, 0], lambda y: y == 1),
        Loss("of_none", lambda y, out: out["logits"][:, 0], lambda y: y == 9, finish=math.exp),
        Loss("sum_of_class_1", lambda y, out: out["logits"], lambda y: y == 1),  # As many classes as rows.
    ]
    all_metrics = [means[0], lambda y, out: {"right_logit": out["logits"][np.arange(7), y].mean()}, *means[1:]]
    run = linear(classes=3, loss=classification_loss(), strategy=mirrored, metrics=all_metrics)
    results = run.evaluate(batches)
    kernel, bias = run.model.get_weights()
    logits = inputs["x"] @ kernel + bias
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(7), labels]
    one = weights * (labels == 1)
    assert math.isnan(results.pop("of_none"))
    assert results == pytest.approx(
        {
            "loss": (losses * weights).sum() / 4.5,
            "right": ((logits.argmax(1) == labels) * weights).sum() / 4.5,
            "right_logit": logits[np.arange(7), labels].mean(),
            "perplexity": np.exp((losses * weights).sum() / 4.5),
            "of_class_1": (logits[:, 0] * one).sum() / one.sum(),
            "sum_of_class_1": (logits.sum(1) * one).sum() / one.sum(),
        },
        rel=1e-5,
    )


@pytest.mark.usefixtures("eager")
def test_losses_as_the_only_metrics_keep_no_outputs(monkeypatch):
    """The logits of all held-out records would not fit into memory."""
    run = linear(metrics=Loss("mean", lambda y, out: out["logits"][:, 0]))
    outputs = Evaluator.outputs
    kept = []
    monkeypatch.setattr(Evaluator, "outputs", lambda *a, **k: kept.append(outputs(*a, **k)) or kept[-1])
    results = run.evaluate(numbered(1, 2))
    assert set(results) == {"loss", "number", "mean"}
    assert kept == [(None, None, results)]


LENGTHS = [4, 1, 7, 3, 7]


def rows(first=0):
    ids = tf.RaggedTensor.from_row_lengths(np.arange(first, first + sum(LENGTHS), dtype="int32"), LENGTHS)
    return {"token_ids": ids, "padding_mask": tf.ones_like(ids)}


@pytest.fixture(scope="module")
def model():
    """Its logits are the sum of the tokens and their number."""
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask")}
    sums = [keras.ops.sum(keras.ops.cast(value, "float32"), axis=1) for value in inputs.values()]
    return keras.Model(inputs, {"logits": keras.ops.stack(sums, axis=1)})


@pytest.mark.usefixtures("eager")
def test_logits_are_computed_once(tmp_path, model, caplog):
    """Those of other models, of other rows and in damaged files are replaced."""
    path = tmp_path / "teacher" / "dev.npz"
    expected = [[ids.sum(), len(ids)] for ids in np.split(np.arange(22), np.cumsum(LENGTHS)[:-1])]
    caplog.set_level("INFO", "keras_bert")
    np.testing.assert_array_equal(cached_outputs(path, model, rows(), "key", batch_size=2)["logits"], expected)
    with mock.patch.object(Evaluator, "outputs", side_effect=AssertionError):
        found = cached_outputs(path, model, rows(), "key")["logits"]
    np.testing.assert_array_equal(found, expected)
    assert caplog.messages == ["  computing logits of dev: 5 rows", "  found logits of dev: 5 rows"]
    assert [file.name for file in path.parent.iterdir()] == ["dev.npz"]
    content = path.read_bytes()
    place = content.index(found.tobytes())
    wrong = bytes([content[place] ^ 1])
    for damaged in (content[:-50], b"", content[:place] + wrong + content[place + 1 :]):
        path.write_bytes(damaged)
        np.testing.assert_array_equal(cached_outputs(path, model, rows(), "key")["logits"], expected)
        assert path.read_bytes() == content
    with mock.patch.object(Evaluator, "outputs", return_value=Evaluation({"logits": found + 1}, None, {})) as asked:
        cached_outputs(path, model, rows(), "other model")
        cached_outputs(path, model, rows(first=1), "other model")
        assert asked.call_count == 2
    undefined = Evaluation({"logits": found * np.nan}, None, {})
    with (
        mock.patch.object(Evaluator, "outputs", return_value=undefined),
        pytest.raises(ValueError, match="the logits of dev: 5 rows are not finite"),
    ):
        cached_outputs(path, model, rows(), "key")

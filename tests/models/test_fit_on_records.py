"""Pre-training by `model.fit` on records, on every backend."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from tests.conftest import to_numpy
from tests.records import write

EXAMPLES, LENGTH = 21, 16


@pytest.fixture
def records(tmp_path, pieces):
    """Two files of examples without masks."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(6, LENGTH + 1, EXAMPLES)
    real = np.arange(LENGTH) < lengths[:, None]
    features = {
        "input_ids": rng.integers(5, 9, (EXAMPLES, LENGTH)) * real,  # Four words, of which two are frequent.
        "input_mask": real.astype(int),
        "segment_ids": real * (np.arange(LENGTH) >= 4),
        "next_sentence_labels": rng.integers(0, 2, (EXAMPLES, 1)),
    }
    for name, part in (("a", slice(0, 8)), ("b", slice(8, None))):
        write(tmp_path / f"{name}.tfrecord", {name: values[part] for name, values in features.items()})
    return keras_bert.RecordDataset(f"{tmp_path}/*.tfrecord", pieces, batch_size=8, steps=18)


def test_loss(records, build):
    """The sum of the means of the cross-entropies, over masked positions and over pairs that are no filler."""
    model = build("pretraining")
    model.compile("sgd", records.losses())
    inputs, targets, weights = records[2]
    assert weights["nsp_logits"].tolist() == [1] * 5 + [0] * 3
    outputs, expected = model(inputs), 0
    for name, labels in targets.items():
        logits = to_numpy(outputs[name]).astype("float64")
        losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, labels[..., None], -1)[..., 0]
        expected += (losses * weights[name]).sum() / weights[name].sum()
    found = model.test_on_batch(inputs, targets, weights, return_dict=True)["loss"]
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_fit(records, build):
    model = build("pretraining")
    optimizer = keras_bert.create_optimizer(model, 5e-3, total_steps=36, warmup_steps=2)
    model.compile(optimizer, records.losses())
    history = model.fit(records, steps_per_epoch=3, epochs=6, shuffle=False, verbose=0).history["loss"]
    assert history[-1] < 0.7 * history[0]


def test_resume(records, config, tmp_path, pieces):
    """A run that is saved by Keras after 9 of 18 steps, and continued by a new model, ends with the same weights.

    Without dropout: Keras does not save the state of its random generators.
    """
    config = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)

    def compiled():
        keras.utils.set_random_seed(1)
        model = keras_bert.build_pretrainer(keras_bert.build_encoder(config))
        model.compile(keras_bert.create_optimizer(model, 1e-3, total_steps=18, warmup_steps=2), records.losses())
        return model

    whole = compiled()
    whole.fit(records, steps_per_epoch=9, epochs=2, shuffle=False, verbose=0)
    first = compiled()
    first.fit(records, steps_per_epoch=9, epochs=1, shuffle=False, verbose=0)
    first.save(tmp_path / "1.keras")
    second = keras.saving.load_model(tmp_path / "1.keras")
    rest = keras_bert.RecordDataset(f"{tmp_path}/*.tfrecord", pieces, batch_size=8, steps=18, start=9)
    second.fit(rest, steps_per_epoch=9, initial_epoch=1, epochs=2, shuffle=False, verbose=0)
    for one, other in zip(second.trainable_weights, whole.trainable_weights, strict=True):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), atol=1e-6)

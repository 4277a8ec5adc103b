"""Keras callbacks see from `Trainer` what they see from `model.fit`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.data.bucketing import Batches
from keras_bert.training.callbacks import Callback, KerasCallbacks
from keras_bert.training.losses import classification_loss
from keras_bert.training.metrics import accuracy
from keras_bert.training.trainer import Trainer

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager")]


class Calls(keras.callbacks.Callback):
    """Records the calls: when, the number of the epoch or batch, and the names of the numbers."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def on_train_begin(self, logs=None):
        self._record("train begins", None, logs)

    def on_train_end(self, logs=None):
        self._record("train ends", None, logs)

    def on_epoch_begin(self, epoch, logs=None):
        self._record("epoch begins", epoch, logs)

    def on_epoch_end(self, epoch, logs=None):
        self._record("epoch ends", epoch, logs)

    def on_train_batch_begin(self, batch, logs=None):
        self._record("batch begins", batch, {})  # Keras tells numbers of the batch before.

    def on_train_batch_end(self, batch, logs=None):
        self._record("batch ends", batch, logs)

    def _record(self, when, number, logs):
        if number is None:  # Keras tells the last numbers at the end of training.
            logs = {}
        names = sorted(logs or {})
        if "val_accuracy" in names:  # A metric of ours alone.
            names.remove("val_accuracy")
        self.calls.append((when, number, names))


INPUTS = {"token_ids": np.arange(5, 35).reshape(10, 3).astype("int32")}
LABELS = np.arange(10, dtype="int32") % 2


def build():
    tokens = keras.Input((None,), name="token_ids", dtype="int32")
    vectors = keras.layers.Embedding(35, 2, name="table")(tokens)
    mean = keras.ops.mean(vectors, axis=1)
    return keras.Model({"token_ids": tokens}, {"logits": keras.layers.Dense(2, name="dense")(mean)})


def metrics(targets, outputs):
    return {"accuracy": accuracy(targets, outputs["logits"].argmax(-1))}


def train(callbacks, directory, epochs=2):
    """Trains with `Trainer`; returns it and the result."""

    def optimizer(model):
        return keras_bert.create_optimizer(model, 1e-3, 6)

    trainer = Trainer(
        build, optimizer, classification_loss(), metrics=metrics, directory=directory, callbacks=callbacks
    )
    ragged = {name: tf.RaggedTensor.from_tensor(ids) for name, ids in INPUTS.items()}
    batches = Batches(ragged, LABELS, batch_size=4)
    dev = Batches(ragged, LABELS, batch_size=4, shuffle=False)
    result = trainer.fit(batches, epochs, evaluation=dev, log_every=1)
    return trainer, result


def train_in_keras(callbacks):
    model = build()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, run_eagerly=True)
    validation = (INPUTS, LABELS)
    model.fit(INPUTS, LABELS, batch_size=4, epochs=2, validation_data=validation, verbose=0, callbacks=callbacks)


def test_the_calls_are_those_of_keras(tmp_path):
    ours = Calls()
    train([ours], tmp_path)
    theirs = Calls()
    train_in_keras([theirs])
    assert ours.calls == theirs.calls


def test_a_callback_stops_the_run_and_sees_its_weights(tmp_path):
    stop = keras.callbacks.EarlyStopping("val_accuracy", baseline=2.0, patience=0, min_delta=1.0)
    weights = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5", save_weights_only=True)
    trainer, results = train([stop, weights], tmp_path, epochs=3)
    written = sorted(path.name for path in tmp_path.glob("*.h5"))
    assert written == ["1.weights.h5", "2.weights.h5"]
    after = trainer.model.get_weights()
    trainer.model.load_weights(tmp_path / "2.weights.h5")
    for found, expected in zip(trainer.model.get_weights(), after, strict=True):
        np.testing.assert_array_equal(found, expected)
    _, again = train([stop], tmp_path, epochs=3)
    assert again == results  # The run is finished.


@pytest.mark.parametrize(
    ("monitor", "mode", "best"),
    [
        ("val_loss", "min", 1.0),
        ("loss", "min", 1.0),
        ("val_accuracy", "max", 2.0),
        ("hierarchy", "min", 1.0),
        ("val_masked_lm_loss", "min", 1.0),  # Of this name, though not among the losses.
    ],
)
def test_which_scores_are_better(monitor, mode, best):
    """Keras knows only its own metrics, and raises an error for others."""
    stop = keras.callbacks.EarlyStopping(monitor)
    KerasCallbacks([stop], keras.Sequential(), ["hierarchy"])
    stop.on_train_begin()
    stop.on_epoch_end(0, {monitor: 1.0})
    stop.on_epoch_end(1, {monitor: 2.0})
    assert stop.mode == mode
    assert float(stop.best) == best


def test_our_callbacks_stop_a_run():
    class Mine(Callback):
        stops = True

    trainer, _ = train([Mine()], directory=None)
    assert trainer.optimizer.iterations.numpy() < 6


def test_names_of_callbacks_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`callbacks` must be a list of .* Received: 'tensorboard'"):
        train(["tensorboard"], tmp_path)

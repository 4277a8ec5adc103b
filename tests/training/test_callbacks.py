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
    """Records the calls: method, number of the epoch or batch, names of the numbers."""

    def __init__(self):
        super().__init__()
        self.calls = []
        for part in ("train", "epoch", "train_batch"):
            for when in ("begin", "end"):
                setattr(self, f"on_{part}_{when}", self._recorder(part, when))

    def _recorder(self, part, when):
        def record(*number, logs=None):
            number, logs = (number[:1], logs or dict(*number[1:])) if part != "train" else ((), {})
            self.calls.append((part, when, *number, sorted(logs) if (part, when) != ("train_batch", "begin") else []))

        return record


@pytest.fixture
def train(tmp_path):
    inputs = {"token_ids": np.arange(5, 35).reshape(10, 3).astype("int32")}
    labels = np.arange(10, dtype="int32") % 2

    def build():
        tokens = keras.Input((None,), name="token_ids", dtype="int32")
        mean = keras.ops.mean(keras.layers.Embedding(35, 2, name="table")(tokens), axis=1)
        return keras.Model({"token_ids": tokens}, {"logits": keras.layers.Dense(2, name="dense")(mean)})

    def trainer(callbacks, epochs=2, directory=tmp_path):
        made = Trainer(
            build,
            lambda model: keras_bert.create_optimizer(model, 1e-3, 6),
            classification_loss(),
            metrics=lambda targets, outputs: {"accuracy": accuracy(targets, outputs["logits"].argmax(-1))},
            directory=directory,
            callbacks=callbacks,
        )
        ragged = {name: tf.RaggedTensor.from_tensor(ids) for name, ids in inputs.items()}
        dev = Batches(ragged, labels, batch_size=4, shuffle=False)
        return made, made.fit(Batches(ragged, labels, batch_size=4), epochs, evaluation=dev, log_every=1)

    def keras_fit(callbacks):
        model = build()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, run_eagerly=True)
        model.fit(inputs, labels, 4, 2, validation_data=(inputs, labels), verbose=0, callbacks=callbacks)

    return trainer, keras_fit


def test_the_calls_are_those_of_keras(train):
    ours, theirs = Calls(), Calls()
    train[0]([ours])
    train[1]([theirs])
    calls = []
    for *call, names in ours.calls:
        calls.append((*call, [name for name in names if name != "val_accuracy"]))
    assert calls == theirs.calls


def test_a_callback_stops_the_run_and_sees_its_weights(train, tmp_path):
    stop = keras.callbacks.EarlyStopping("val_accuracy", baseline=2.0, patience=0, min_delta=1.0)
    weights = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5", save_weights_only=True)
    trainer, results = train[0]([stop, weights], epochs=3)
    assert sorted(path.name for path in tmp_path.glob("*.h5")) == ["1.weights.h5", "2.weights.h5"]
    after = [weight.numpy() for weight in trainer.model.weights]
    trainer.model.load_weights(tmp_path / "2.weights.h5")
    assert all(map(np.array_equal, after, trainer.model.get_weights()))
    assert train[0]([stop], epochs=3)[1] == results  # The run is finished.


@pytest.mark.parametrize(
    ("monitor", "mode"),
    [
        *(("val_loss", "min"), ("loss", "min"), ("val_accuracy", "max"), ("hierarchy", "min")),
        ("val_masked_lm_loss", "min"),  # Of this name, though not among the losses.
    ],
)
def test_which_scores_are_better(monitor, mode):
    """Keras knows only its own metrics, and raises an error for others."""
    stop = keras.callbacks.EarlyStopping(monitor)
    KerasCallbacks([stop], keras.Sequential(), ["hierarchy"])
    stop.on_train_begin()
    stop.on_epoch_end(0, {monitor: 1.0})
    stop.on_epoch_end(1, {monitor: 2.0})
    assert (stop.mode, float(stop.best)) == (mode, 1.0 if mode == "min" else 2.0)


def test_other_callbacks(train):
    class Mine(Callback):
        stops = True

    assert train[0]([Mine()], epochs=2, directory=None)[0].optimizer.iterations.numpy() < 6
    with pytest.raises(ValueError, match=r"`callbacks` must be a list of .* Received: 'tensorboard'"):
        train[0](["tensorboard"])

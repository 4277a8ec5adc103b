"""Steps per second of `Trainer`, of a plain loop over a `tf.function`, and of `model.fit`.

    python -m benchmarks.trainer_overhead

BERT TINY, batch 32, length 64, the same model, data and optimizer for all. Takes a minute on two cores.
"""

import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags

import keras_bert
from benchmarks import contest
from keras_bert.data.batch_source import Stream
from keras_bert.training.losses import classification_loss
from keras_bert.training.trainer import Trainer

_STEPS = flags.DEFINE_integer("steps", 200, "Steps in a round.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Rounds to time.")
_BATCH = flags.DEFINE_integer("batch_size", 32, "Batch size.")
_LENGTH = flags.DEFINE_integer("length", 64, "Sequence length.")


def dataset():
    """Repeats the same batch."""
    ids = np.random.default_rng(0).integers(5, 30000, (_BATCH.value, _LENGTH.value)).astype("int32")
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    return tf.data.Dataset.from_tensors((inputs, ids[:, 0] % 2)).repeat()


def build():
    return keras_bert.build_classifier(keras_bert.build_encoder(keras_bert.BERT_TINY), 2)


def create(model):
    return keras_bert.create_optimizer(model, 1e-5, total_steps=10**6)


def with_trainer(steps):
    trainer = Trainer(build, create, classification_loss())
    return lambda: trainer.fit(Stream(dataset(), steps=steps))


def bare(steps):
    model = build()
    optimizer = create(model)
    optimizer.build(model.trainable_variables)
    crossentropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(inputs, labels):
        with tf.GradientTape() as tape:
            loss = crossentropy(labels, model(inputs, training=True)["logits"])
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    iterator = iter(dataset().prefetch(2))

    def run():
        for _ in range(steps):
            loss = step(*next(iterator))
        loss.numpy()

    return run


def fit(steps):
    model = build()
    model.compile(create(model), {"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)})
    data = dataset().map(lambda inputs, labels: (inputs, {"logits": labels}))
    return lambda: model.fit(data, steps_per_epoch=steps, verbose=0)


def main(_):
    print(f"BERT TINY, batch {_BATCH.value}, length {_LENGTH.value}; {contest.machine()}")
    contenders = {"Trainer": with_trainer, "a bare tf.function loop": bare, "model.fit": fit}
    functions = {name: prepare(_STEPS.value) for name, prepare in contenders.items()}
    for function in functions.values():
        function()
    times = {name: [] for name in functions}
    for _ in range(_ROUNDS.value):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    for name, value in seconds.items():
        ratio = value / seconds["Trainer"]
        print(f"{name:26} {_STEPS.value / value:7.1f} steps/s   speedup of Trainer: {ratio:.2f}")


if __name__ == "__main__":
    app.run(main)

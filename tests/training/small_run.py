"""Small training runs."""

import json

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.data.batch_source import Stream
from keras_bert.data.bucketing import Batches
from keras_bert.training.losses import Loss, pretraining_losses, regression_loss
from keras_bert.training.trainer import Trainer

ROWS = 22
LENGTH = 12
MASKED = 4


def data(batch_size=8):
    """Three batches, the last of 6 rows, with uneven masks, reshuffled each epoch."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, LENGTH + 1, ROWS)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype("int32")
    inputs = {
        "token_ids": rng.integers(5, 50, (ROWS, LENGTH)).astype("int32") * mask,
        "segment_ids": (np.arange(LENGTH) >= 4).astype("int32") * mask,
        "padding_mask": mask,
        "mask_positions": rng.integers(0, 4, (ROWS, MASKED)).astype("int32"),
    }
    labels = rng.integers(5, 50, (ROWS, MASKED)).astype("int32")
    counts = rng.integers(0, MASKED + 1, ROWS)
    targets = {
        "mask_labels": labels,
        "mask_weights": (np.arange(MASKED) < counts[:, None]).astype("float32"),
        "next_sentence_labels": rng.integers(0, 2, ROWS).astype("int32"),
    }
    for name in ("token_ids", "segment_ids", "padding_mask"):
        inputs[name] = tf.RaggedTensor.from_tensor(inputs[name], lengths)
    return Batches(inputs, targets, batch_size=batch_size, boundaries=[8, LENGTH])


def trainer(directory=None, strategy=None, dtype=None, **options):
    """A trainer of a small BERT with active gradient clipping."""
    keras.utils.set_random_seed(3)
    config = keras_bert.BertConfig(
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
    return Trainer(
        lambda: keras_bert.build_pretrainer(keras_bert.build_encoder(config, dtype=dtype)),
        lambda model: keras_bert.create_optimizer(model, 1e-2, 30, warmup_steps=3),
        pretraining_losses(),
        directory=directory,
        strategy=strategy,
        **options,
    )


def weights(run):
    return {weight.path: weight.numpy() for weight in run.model.trainable_variables}


def assert_same_weights(found, expected):
    """Compares to 1e-5; Adam amplifies key biases, whose gradients are only rounding errors."""
    for path, weight in expected.items():
        bound = np.full(weight.shape, 1e-5 * np.abs(weight).max())
        if path.endswith("query_key_value/bias"):
            bound.reshape(3, -1)[1] = 1e-2
        assert (np.abs(found[path] - weight) <= bound).all(), path


def fit(run):
    """A run of 6 steps whose best weights are restored."""
    run.fit(data(), epochs=2, evaluation=data(), evaluate_every=2, best="-mlm_loss", save_every=4, log_every=1)


def metrics(directory, kind=None):
    """Returns metrics.jsonl without the numbers that depend on speed."""
    lines = []
    for text in (directory / "metrics.jsonl").read_text().splitlines():
        line = json.loads(text)
        line.pop("time", None)
        if line.pop("kind") == kind or kind is None:
            lines.append(line)
    return lines


def steps_of(folder):
    return sorted(int(path.name.removeprefix("step-")) for path in folder.iterdir())


def arrays(*numbers):
    """Inputs and targets of batches of two rows; the targets of a batch are one of `numbers`."""
    rng = np.random.default_rng(numbers[0])
    inputs = {"x": rng.normal(size=(len(numbers), 2, 3)).astype("float32")}
    targets = np.array(numbers, "float32")[:, None]
    return inputs, np.repeat(targets, 2, 1)


def numbered(*numbers):
    return Stream(tf.data.Dataset.from_tensor_slices(arrays(*numbers)))


def linear(directory=None, learning_rate=0.1, classes=1, dtype=None, total=8, dropout=0.0, loss=None, **options):
    """A linear model. The logs contain the number of each batch and its loss; warm-up takes 3 of 8 steps."""
    keras.utils.set_random_seed(3)
    warmup_steps = 3
    if callable(learning_rate):  # A schedule.
        warmup_steps = 0

    def model():
        x = keras.Input((3,), name="x")
        dropped = keras_bert.layers.Dropout(dropout)(x)
        dense = keras.layers.Dense(classes, name="linear", dtype=dtype)
        return keras.Model({"x": x}, {"logits": dense(dropped)})

    def optimizer(model):
        return keras_bert.create_optimizer(model, learning_rate, total, warmup_steps=warmup_steps)

    if loss is None:
        loss = [regression_loss(), Loss("number", lambda targets, outputs: targets)]
    return Trainer(model, optimizer, loss, directory=directory, **options)

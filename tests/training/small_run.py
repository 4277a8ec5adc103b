"""A small training run; as a program, one worker of several.

python -m tests.training.small_run DIRECTORY WEIGHTS.npz
"""

import sys

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.training.bucketing import Batches
from keras_bert.training.distribution import create_strategy
from keras_bert.training.losses import pretraining_losses
from keras_bert.training.trainer import Trainer

ROWS, LENGTH, MASKED = 22, 12, 4


def data(batch_size=8):
    """Three batches, the last of 6 rows, with uneven masks, shuffled anew in each epoch."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, LENGTH + 1, ROWS)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype("int32")
    inputs = {
        "token_ids": rng.integers(5, 50, (ROWS, LENGTH)).astype("int32") * mask,
        "segment_ids": (np.arange(LENGTH) >= 4).astype("int32") * mask,
        "padding_mask": mask,
        "mask_positions": rng.integers(0, 4, (ROWS, MASKED)).astype("int32"),
    }
    targets = {
        "mask_labels": rng.integers(5, 50, (ROWS, MASKED)).astype("int32"),
        "mask_weights": (np.arange(MASKED) < rng.integers(0, MASKED + 1, ROWS)[:, None]).astype("float32"),
        "next_sentence_labels": rng.integers(0, 2, ROWS).astype("int32"),
    }
    ragged = {name: tf.RaggedTensor.from_tensor(inputs.pop(name), lengths) for name in list(inputs)[:3]}
    return Batches({**ragged, **inputs}, targets, batch_size, boundaries=[8, LENGTH])


def trainer(directory=None, strategy=None, dropout=0.0, dtype=None, kind="adamw", layer_decay=None, **options):
    """A trainer of a small BERT whose clipping bites."""
    keras.utils.set_random_seed(3)
    config = keras_bert.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.2,
    )
    return Trainer(
        lambda: keras_bert.build_pretrainer(keras_bert.build_encoder(config, dtype=dtype)),
        lambda model: keras_bert.create_optimizer(model, 1e-2, 30, 3, kind=kind, layer_decay=layer_decay),
        pretraining_losses(),
        directory=directory,
        strategy=strategy,
        **options,
    )


def weights(run):
    return {weight.path: weight.numpy() for weight in run.model.trainable_variables}


def fit(run):
    run.fit(data(), epochs=2, evaluation=data(), evaluate_every=2, best="-mlm_loss", save_every=4, log_every=1)


def main(directory, output):
    run = trainer(directory, create_strategy("auto", timeout_s=60))
    fit(run)
    np.savez(output, **weights(run))


if __name__ == "__main__":
    main(*sys.argv[1:])

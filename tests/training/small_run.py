"""A small training run as a program, to be killed, resumed and run by several workers.

python -m tests.training.small_run DIRECTORY WEIGHTS.npz KEY=VALUE...
"""

import json
import os
import signal
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

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


def trainer(
    directory=None,
    strategy=None,
    dropout=0.0,
    sgd=False,
    dtype=None,
    kind="adamw",
    layer_decay=None,
    learning_rate=1e-2,
    **options,
):
    """A trainer of a small BERT whose clipping bites."""
    keras.utils.set_random_seed(3)
    config = keras_bert.BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.2,
    )

    def optimizer(model):
        if sgd:  # AdamW without moments, with an epsilon that drowns the second one.
            return keras_bert.AdamW(
                1e5, beta_1=0.0, beta_2=0.0, epsilon=1e6, weight_decay=0.0, bias_correction=False, global_clipnorm=1.0
            )
        return keras_bert.create_optimizer(
            model, learning_rate, total_steps=30, warmup_steps=3, clip_norm=1.0, kind=kind, layer_decay=layer_decay
        )

    return Trainer(
        lambda: keras_bert.build_pretrainer(keras_bert.build_encoder(config, dtype=dtype)),
        optimizer,
        pretraining_losses(),
        directory=directory,
        strategy=strategy,
        **options,
    )


def weights(run):
    return {weight.path: weight.numpy() for weight in run.model.trainable_variables}


def main(directory, output, *pairs):
    options = dict(pair.split("=") for pair in pairs)
    kill_at, kill_by = int(options.pop("kill_at", -1)), options.pop("kill_by", "SIGKILL")
    strategy = create_strategy(options.pop("strategy", "one"), timeout_s=60)
    options = {name: json.loads(value) for name, value in options.items()}
    run = trainer(directory, strategy, steps_per_call=1, **options)
    steps = run._run

    def steps_until_killed(iterator, step, count):
        if step == kill_at:
            os.kill(os.getpid(), getattr(signal, kill_by))
        return steps(iterator, step, count)

    run._run = steps_until_killed
    run.fit(data(), epochs=4, evaluation=data(), evaluate_every=5, best="-mlm_loss", save_every=4, log_every=2)
    np.savez(output, **weights(run))


if __name__ == "__main__":
    main(*sys.argv[1:])

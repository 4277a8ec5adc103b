"""Optimizer update of BERT BASE (clip by global norm, weight decay, AdamW) in keras_bert and Keras.

    python -m benchmarks.optimizer

The gradients are fixed, so only the optimizer is timed. Takes a minute and 6 GB on two cores.
"""

import keras
import tensorflow as tf
from absl import app, flags

import keras_bert
from benchmarks import contest

_ROUNDS = flags.DEFINE_integer("rounds", 15, "Updates to time.")


def prepare(create):
    """Returns a function that updates the weights of BASE once."""
    model = keras_bert.build_pretrainer(keras_bert.build_encoder(keras_bert.BERT_BASE))
    optimizer = create(model)
    variables = model.trainable_variables
    optimizer.build(variables)
    gradients = [tf.random.normal(variable.shape, stddev=1e-3) for variable in variables]

    @tf.function
    def update():
        optimizer.apply_gradients(zip(gradients, variables, strict=True))

    return update


def ours(model):
    return keras_bert.create_optimizer(model, 1e-4, total_steps=1000)


def lamb(model):
    return keras_bert.create_optimizer(model, 1e-4, total_steps=1000, kind="lamb")


def of_keras(model):
    schedule = keras_bert.LinearSchedule(1e-4, total_steps=1000)
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


def main(_):
    print(f"one update of BERT BASE, 110 million weights; {contest.machine()}")
    contest.contest(
        {
            "keras_bert.create_optimizer": ([], prepare, (ours,)),
            "keras.optimizers.AdamW": ([], prepare, (of_keras,)),
            "keras_bert, LAMB": ([], prepare, (lamb,)),
        },
        _ROUNDS.value,
    )


if __name__ == "__main__":
    app.run(main)

"""Fine-tuning step of BERT BASE (forward, backward, clip, AdamW) in keras_bert, KerasHub and transformers.

    python -m benchmarks.train_step --precision=float32 --precision=mixed_bfloat16

Dropout 0.1, no padding; each package uses its usual AdamW, and keras_bert trains the model from `build_trimmed`.
`mixed_bfloat16` is `torch.autocast` in transformers. KerasHub always uses the tanh form of GELU. Takes about five
minutes on two cores. Peers: `make peers`.
"""

from absl import app, flags

from benchmarks import contest, models

_PRECISION = flags.DEFINE_multi_string("precision", ["float32", "mixed_bfloat16"], "float32 or mixed_bfloat16.")
_ACT = flags.DEFINE_string("hidden_act", "gelu", "Activation of keras_bert and transformers: gelu (erf) or gelu_new.")
_BATCH = flags.DEFINE_integer("batch_size", 8, "Batch size.")
_LENGTH = flags.DEFINE_integer("length", 128, "Sequence length.")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "Steps to time.")

LEARNING_RATE = 1e-5


def our_step(*arguments):
    import keras_bert

    def build(*arguments):
        return keras_bert.models.build_trimmed(models.ours(*arguments))

    return keras_step(keras_bert.AdamW, build, *arguments)


def keras_hub_step(*arguments):
    import keras

    return keras_step(keras.optimizers.AdamW, models.keras_hub, *arguments)


def keras_step(adamw, build, shape, *arguments):
    import keras

    model = build(*arguments)
    optimizer = adamw(LEARNING_RATE, weight_decay=0.01, global_clipnorm=1.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=False)
    inputs, labels = models.batch(*shape)

    def step():  # Returns no list, which would replace the time.
        model.train_on_batch(inputs, labels)

    return step


def torch_step(shape, precision, hidden_act):
    return step_of(models.transformers(hidden_act), *models.torch_batch(*shape), precision)


def step_of(model, inputs, labels, precision="float32"):
    """Returns a training step of a model of transformers."""
    import torch

    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "mixed_bfloat16"):
            loss = model(**inputs, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def main(_):
    shape = (_BATCH.value, _LENGTH.value)
    act = _ACT.value
    print(f"a training step of BERT BASE, batch {shape[0]}, length {shape[1]}, {act}; {contest.machine()}")
    for precision in _PRECISION.value:
        print(f"\n{precision}")
        contest.contest(
            {
                "keras_bert": (["tensorflow"], our_step, (shape, precision, act)),
                "keras-hub": (["keras_hub"], keras_hub_step, (shape, precision)),
                "transformers (PyTorch)": (["torch", "transformers"], torch_step, (shape, precision, act)),
            },
            _ROUNDS.value,
        )


if __name__ == "__main__":
    app.run(main)

"""Pre-training step of BERT, masked LM and next sentence, on one GPU: keras_bert on JAX, transformers on PyTorch.

    KERAS_BACKEND=jax python -m benchmarks.gpu_pretraining --size=base --size=large --shape=128x256 --shape=512x64
    KERAS_BACKEND=jax python -m benchmarks.gpu_pretraining --size=tiny --shape=32x8 --steps=2 --rounds=2   # on a CPU

Random tokens without padding, 15% of the positions predicted, mixed bfloat16, AdamW, gradients clipped. Dropout is 0.1,
but 0 for the probabilities of attention, so that both sides use fused kernels for attention. keras_bert runs
`model.fit`; transformers runs SDPA attention, `torch.compile`, `torch.autocast` and fused AdamW. A round is `--steps`
steps; the rounds alternate, each package in its own process. The share of the peak counts the products of all blocks
for all positions, and of the token table for the masked ones. Needs JAX and, for the peer, PyTorch and transformers,
but no TensorFlow.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # Both processes share the memory of the device.

import dataclasses

import numpy as np
from absl import app, flags

from benchmarks import contest

_SIZE = flags.DEFINE_multi_string("size", ["base", "large"], "tiny, mini, small, medium, base or large.")
_SHAPE = flags.DEFINE_multi_string("shape", ["128x256", "512x64"], "Sequence length and batch size.")
_STEPS = flags.DEFINE_integer("steps", 20, "Steps per round.", 1)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Rounds to time.", 1)
_PEAK = flags.DEFINE_float("peak", None, "Peak of the device in TFLOPS of bfloat16; default: that of a known device.")

PEAKS = {"A100": 312, "H100": 989, "H200": 989}  # Dense bfloat16, without sparsity; SXM modules.
RATE = 1e-4


def config(size):
    import keras_bert

    return dataclasses.replace(keras_bert.named_config(size), attention_probs_dropout_prob=0.0)


def batch(size, length, rows):
    """Returns inputs and targets, as `FitTrainer` does."""
    rng = np.random.default_rng(0)
    predictions = round(0.15 * length)
    vocabulary = config(size).vocab_size
    positions = np.sort(rng.permuted(np.tile(np.arange(1, length), (rows, 1)), axis=1)[:, :predictions], 1)
    inputs = {
        "token_ids": rng.integers(1000, vocabulary, (rows, length)).astype("int32"),
        "segment_ids": (np.arange(length) >= length // 2).astype("int32") * np.ones((rows, 1), "int32"),
        "padding_mask": np.ones((rows, length), "int32"),
        "mask_positions": positions.astype("int32"),
    }
    labels = rng.integers(1000, vocabulary, positions.shape).astype("int32")
    return inputs, {"mlm_logits": labels, "nsp_logits": rng.integers(0, 2, rows).astype("int32")}


def ours(size, length, rows, steps):
    import keras

    import keras_bert

    class Repeated(keras.utils.PyDataset):
        """The same batch `steps` times."""

        def __len__(self):
            return steps

        def __getitem__(self, index):
            return data

    data = batch(size, length, rows)
    encoder = keras_bert.build_encoder(config(size), dtype="mixed_bfloat16")
    model = keras_bert.models.build_trimmed(keras_bert.build_pretrainer(encoder))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras_bert.create_optimizer(model, RATE, 10**6), dict.fromkeys(data[1], loss))
    dataset = Repeated()

    return lambda: model.fit(dataset, shuffle=False, verbose=0)  # Ends by reading the loss, after the last step.


def theirs(size, length, rows, steps):
    import torch
    import transformers

    device = "cuda" if torch.cuda.is_available() else "cpu"
    inputs, targets = batch(size, length, rows)
    labels = np.full((rows, length), -100)
    np.put_along_axis(labels, inputs["mask_positions"], targets["mlm_logits"], 1)
    columns = {
        "input_ids": inputs["token_ids"],
        "token_type_ids": inputs["segment_ids"],
        "labels": labels,
        "next_sentence_label": targets["nsp_logits"],
    }
    data = {name: torch.tensor(value, device=device).long() for name, value in columns.items()}
    settings = transformers.BertConfig(**config(size).to_huggingface())
    model = transformers.BertForPreTraining(settings).to(device).train()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, fused=True)

    def run():
        for _ in range(steps):
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = compiled(**data).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        loss.item()

    return run


def operations(size, length, rows):
    """Returns the floating-point operations of the products of a step: two per weight and token, three times."""
    bert = config(size)
    predictions = round(0.15 * length)
    width = bert.hidden_size
    layers = bert.num_hidden_layers
    block = 4 * width * width + 2 * width * bert.intermediate_size + 2 * length * width
    head = predictions * (width * width + bert.vocab_size * width)
    return 6 * rows * (layers * length * block + head)


def peak():
    """Returns the name of the device, and its operations per second or `None`."""
    import jax

    name = jax.devices()[0].device_kind
    known = next((value for part, value in PEAKS.items() if part in name), None)
    return name, (_PEAK.value or known) and (_PEAK.value or known) * 1e12


def main(_):
    name, most = peak()
    print(f"pre-training step, mixed bfloat16, on {name}; {contest.machine()}")
    for size in _SIZE.value:
        for shape in _SHAPE.value:
            length, rows = map(int, shape.split("x"))
            arguments = size, length, rows, _STEPS.value
            times = contest.in_turn(
                {
                    "keras_bert": (["jax"], ours, arguments),
                    "transformers (PyTorch)": (["torch", "transformers"], theirs, arguments),
                },
                _ROUNDS.value,
            )
            print(f"\n{size}, {rows} rows of {length} tokens")
            medians = {package: np.median(values) / _STEPS.value for package, values in times.items()}
            for package, seconds in medians.items():
                share = f", {operations(*arguments[:3]) / seconds / most:.1%} of the peak" if most else ""
                ratio = f"{seconds / medians['keras_bert']:.2f}"
                print(f"{package:24} {rows / seconds:9.1f} sequences/s{share}   speedup of keras_bert: {ratio}")


if __name__ == "__main__":
    app.run(main)

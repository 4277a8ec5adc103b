"""Inference forward pass of BERT BASE in keras_bert, KerasHub and transformers.

    python -m benchmarks.forward --precision=float32 --precision=mixed_bfloat16 --precision=bfloat16

`mixed_bfloat16` uses float32 weights (`torch.autocast` in transformers), `bfloat16` uses bfloat16 weights.
KerasHub always uses the tanh form of GELU. Takes about two minutes on two cores. Peers: `make peers`.
"""

from absl import app, flags

from benchmarks import contest, models

_PRECISION = flags.DEFINE_multi_string(
    "precision", ["float32", "mixed_bfloat16", "bfloat16"], "float32, mixed_bfloat16 or bfloat16."
)
_ACT = flags.DEFINE_string("hidden_act", "gelu", "Activation of keras_bert and transformers: gelu (erf) or gelu_new.")
_BATCH = flags.DEFINE_integer("batch_size", 8, "Batch size.")
_LENGTH = flags.DEFINE_integer("length", 128, "Sequence length.")
_ROUNDS = flags.DEFINE_integer("rounds", 15, "Passes to time.")


def keras_forward(build, precision, shape, *arguments):
    model = build(precision, *arguments)
    inputs, _ = models.batch(*shape)
    return lambda: model.predict_on_batch(inputs)


def torch_forward(precision, shape, hidden_act):
    import torch

    model = models.transformers(hidden_act).eval()
    if precision == "bfloat16":
        model = model.to(torch.bfloat16)
    inputs, _ = models.torch_batch(*shape)

    def step():
        with (
            torch.inference_mode(),
            torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "mixed_bfloat16"),
        ):
            return model(**inputs).logits.float().numpy()

    return step


def main(_):
    shape = (_BATCH.value, _LENGTH.value)
    act = _ACT.value
    print(f"a forward pass of BERT BASE, batch {shape[0]}, length {shape[1]}, {act}; {contest.machine()}")
    for precision in _PRECISION.value:
        print(f"\n{precision}")
        contest.contest(
            {
                "keras_bert": (["tensorflow"], keras_forward, (models.ours, precision, shape, act)),
                "keras-hub": (["keras_hub"], keras_forward, (models.keras_hub, precision, shape)),
                "transformers (PyTorch)": (["torch", "transformers"], torch_forward, (precision, shape, act)),
            },
            _ROUNDS.value,
        )


if __name__ == "__main__":
    app.run(main)

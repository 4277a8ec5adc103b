"""MPNet, a BERT with a bias of the attention scores by distance: forward pass and training step beside transformers.

    python -m benchmarks.mpnet

A classifier of all-mpnet-base-v2's size, float32, no padding; keras_bert trains the model from `build_trimmed`. Takes
about five minutes on two cores. Peers: `make peers`.
"""

from absl import app, flags

from benchmarks import contest, models, train_step

FLAGS = flags.FLAGS  # `batch_size`, `length` and `rounds` of `train_step`.


def ours():
    import keras_bert

    config = keras_bert.BertConfig(
        vocab_size=30527, hidden_act="gelu", type_vocab_size=0, position_padding_id=1, layer_norm_eps=1e-5
    )
    return keras_bert.build_classifier(keras_bert.build_encoder(config, positions="relative"), models.CLASSES)


def our_forward(shape):
    model = ours()
    inputs, _ = models.batch(*shape)
    return lambda: model.predict_on_batch(inputs)


def our_step(shape):
    import keras_bert

    return train_step.keras_step(keras_bert.AdamW, lambda: keras_bert.models.build_trimmed(ours()), shape)


def theirs():
    import transformers

    config = transformers.MPNetConfig(vocab_size=30527, num_labels=models.CLASSES)
    return transformers.MPNetForSequenceClassification(config)


def torch_inputs(shape):
    inputs, labels = models.torch_batch(*shape)
    del inputs["token_type_ids"]
    return inputs, labels


def torch_forward(shape):
    import torch

    model = theirs().eval()
    inputs, _ = torch_inputs(shape)

    def step():
        with torch.inference_mode():
            return model(**inputs).logits.numpy()

    return step


def torch_step(shape):
    return train_step.step_of(theirs(), *torch_inputs(shape))


def main(_):
    shape = (FLAGS.batch_size, FLAGS.length)
    print(f"MPNet, batch {shape[0]}, length {shape[1]}; {contest.machine()}")
    peers = ["torch", "transformers"]
    for name, of_ours, of_torch in (("forward pass", our_forward, torch_forward), ("step", our_step, torch_step)):
        print(f"\n{name}")
        contest.contest(
            {
                "keras_bert": (["tensorflow"], of_ours, (shape,)),
                "transformers (PyTorch)": (peers, of_torch, (shape,)),
            },
            FLAGS.rounds,
        )


if __name__ == "__main__":
    app.run(main)

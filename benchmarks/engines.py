"""Engines for BERT classifiers on CPUs: TensorFlow with our SavedModels, ONNX Runtime, OpenVINO, PyTorch.

    python -m benchmarks.engines --data_dir=glue

From token ids to logits. BERT BASE with random weights, 8 sequences of 128 tokens; MiniLM (6 layers, width 384) with a
random head, sentences of MRPC's dev set, alone and 32 together, each batch padded to its longest sentence. Each engine
has its own process with one thread per core and is checked before it is timed; the rounds of all engines alternate.
Takes half an hour on two cores. Without `--data_dir` it reads from `$KERAS_BERT_DATA/glue`. Peers: `make peers`.

- keras_bert: the signature `tokens` of SavedModels in float32, bfloat16 (computation and weights), int8 with the ranges
  of each batch, and int8 with ranges from `calibration`.
- ONNX Runtime: the graph of transformers, fused by its BERT optimizer; int8 with `quantize_dynamic`, a scale for each
  channel.
- OpenVINO: the same graph before fusion; bfloat16 by its precision hint, int8 by nncf's post-training quantization for
  transformers, with the sequences that are timed.
- transformers: PyTorch with its default attention.
"""

import os
import pathlib
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

from benchmarks import contest
from benchmarks.models import softmax, with_random_head
from benchmarks.onnx_file import quantized, write_onnx

_DATA = flags.DEFINE_string("data_dir", None, "Folder with the official GLUE files.")
_SETTINGS = flags.DEFINE_list("settings", ["base", "minilm-1", "minilm-32"], "base, minilm-1, minilm-32.")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "Rounds to time.", lower_bound=1)

LABELS = ["0", "1"]
LENGTH = 128
SENTENCES = 320
CLOSE = {"float32": 1e-4, "bfloat16": 3e-2, "int8": 0.2, "int8 calibrated": 0.2}
NAMES = {"input_ids": "token_ids", "attention_mask": "padding_mask", "token_type_ids": "segment_ids"}
TORCH = ["torch", "transformers"]
ONNX = ["torch", "transformers", "onnx", "onnxruntime"]
OPENVINO = [*ONNX, "openvino", "nncf"]


def write_models(folder, setting, data_dir):
    """Writes `checkpoint`, `exported/<precision>`, `batches.npy`, `expected.npy`."""
    import keras
    import tensorflow as tf

    import keras_bert

    keras.utils.set_random_seed(0)
    if setting == "base":
        batches = [_random_ids()]
        encoder = keras_bert.build_encoder(keras_bert.BERT_BASE)
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(30517))]
        vocabulary = keras_bert.Vocabulary(pieces)
        texts = []
        for row in batches[0]["token_ids"]:
            texts.append(" ".join(pieces[number] for number in row))
    else:
        bert = keras_bert.load(contest.minilm())
        encoder = bert.encoder
        vocabulary = bert.vocabulary
        texts = _sentences(data_dir)
    model = with_random_head(encoder)
    preprocessor = keras_bert.TextPreprocessor(vocabulary, LENGTH, padding="longest")
    if setting != "base":
        size = int(setting.rpartition("-")[2])
        batches = []
        for start in range(0, len(texts), size):
            inputs = preprocessor(texts[start : start + size])
            batches.append({name: np.array(ids) for name, ids in inputs.items()})
    np.save(folder / "batches.npy", np.array(batches, object), allow_pickle=True)
    run = tf.function(lambda inputs: model(inputs, training=False)["logits"])
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in batches[0]}
    run = run.get_concrete_function(specs)
    logits = []
    for batch in batches:
        tensors = {name: tf.constant(ids) for name, ids in batch.items()}
        logits.append(run(tensors).numpy())
    np.save(folder / "expected.npy", softmax(np.concatenate(logits))[:, 1])
    keras_bert.save(model, folder / "checkpoint", vocabulary, labels=LABELS)
    for precision in ("float32", "bfloat16"):
        loaded = keras_bert.load(folder / "checkpoint", dtype=precision).model()
        keras_bert.export(loaded, preprocessor, folder / "exported" / precision, labels=LABELS)
    for name, calibration in (("int8", None), ("int8 calibrated", texts)):
        keras_bert.export(
            model, preprocessor, folder / "exported" / name, labels=LABELS, precision="int8", calibration=calibration
        )


def _random_ids():
    rng = np.random.default_rng(0)
    shape = (8, LENGTH)
    ones = np.ones(shape, "int32")
    return {"token_ids": rng.integers(5, 30000, shape, "int32"), "segment_ids": 0 * ones, "padding_mask": ones}


def _sentences(data_dir):
    from keras_bert.tasks.classification import glue

    examples = glue.read(glue.TASKS["mrpc"], data_dir, "dev")
    return [*examples.text, *examples.pair][:SENTENCES]


def timed(run, folder, precision):
    """Returns a function that runs all batches and returns the seconds of each, after a check of their answers.

    Args:
        run: function of a dict of arrays with our names, that returns the logits.
    """
    batches = list(np.load(folder / "batches.npy", allow_pickle=True))
    answers = softmax(np.concatenate([np.asarray(run(batch), "float32") for batch in batches]))[:, 1]
    expected = np.load(folder / "expected.npy")
    difference = np.abs(answers - expected).max()
    assert difference <= CLOSE[precision], f"{precision}: probabilities are off by {difference:.2g}"

    def step():
        seconds = []
        for batch in batches:
            start = time.perf_counter()
            run(batch)
            seconds.append(time.perf_counter() - start)
        return seconds

    return step


def ours(folder, precision):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  Registers the tokenizer ops.

    loaded = tf.saved_model.load(str(folder / "exported" / precision))
    signature = loaded.signatures["tokens"]

    def run(batch, loaded=loaded):  # Keeps the weights alive, which the signature does not.
        return signature(**{name: tf.constant(ids) for name, ids in batch.items()})["logits"].numpy()

    return timed(run, folder, precision)


def _theirs(batch):
    return {name: batch[ours].astype("int64") for name, ours in NAMES.items()}


def onnx(folder, precision):
    import onnxruntime

    path = folder / "model.onnx"
    if precision == "int8":
        path = folder / "int8.onnx"
        quantized(folder / "model.onnx", path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return timed(lambda batch: session.run(["logits"], _theirs(batch))[0], folder, precision)


def openvino(folder, precision):
    import openvino

    core = openvino.Core()
    model = core.read_model(folder / "plain.onnx")
    if precision == "int8":
        import nncf

        batches = list(np.load(folder / "batches.npy", allow_pickle=True))
        data = nncf.Dataset([_theirs(batch) for batch in batches])
        model = nncf.quantize(model, data, model_type=nncf.ModelType.TRANSFORMER, subset_size=len(batches))
    hint = {"float32": "f32", "bfloat16": "bf16", "int8": "f32"}[precision]
    options = {"INFERENCE_PRECISION_HINT": hint, "PERFORMANCE_HINT": "LATENCY"}
    compiled = core.compile_model(model, "CPU", {**options, "INFERENCE_NUM_THREADS": os.cpu_count()})
    return timed(lambda batch: compiled(_theirs(batch))[0], folder, precision)


def pytorch(folder, precision):
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count())
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder / "checkpoint", dtype=getattr(torch, precision)
    ).eval()

    def run(batch):
        with torch.inference_mode():
            inputs = {name: torch.from_numpy(ids) for name, ids in _theirs(batch).items()}
            return model(**inputs).logits.float().numpy()

    return timed(run, folder, precision)


def contenders(folder):
    """Returns `{name: (needed packages, prepare, arguments)}`."""
    return {
        **{f"keras_bert, {name}": (["tensorflow"], ours, (folder, name)) for name in CLOSE},
        "ONNX Runtime, float32": (ONNX, onnx, (folder, "float32")),
        "ONNX Runtime, int8": (ONNX, onnx, (folder, "int8")),
        "OpenVINO, float32": (OPENVINO, openvino, (folder, "float32")),
        "OpenVINO, bfloat16": (OPENVINO, openvino, (folder, "bfloat16")),
        "OpenVINO, int8": (OPENVINO, openvino, (folder, "int8")),
        "transformers, float32": (TORCH, pytorch, (folder, "float32")),
        "transformers, bfloat16": (TORCH, pytorch, (folder, "bfloat16")),
    }


def report(rounds, texts):
    """Prints texts per second, latencies of a batch, and the speed of ours in each precision beside it."""
    speeds = {}
    for name, values in rounds.items():
        speeds[name] = texts / statistics.median(sum(seconds) for seconds in values)
    ours = [name for name in speeds if name.startswith("keras_bert")]
    print(f"{'':32} {'texts/s':>8} {'p50':>8} {'p99 ms':>8}   speedup of keras_bert in")
    print(f"{'':32} {'':26}  " + " ".join(f"{name.partition(', ')[2]:>15}" for name in ours))
    for name, values in rounds.items():
        p50, p99 = 1e3 * np.percentile(np.concatenate(values), [50, 99])
        ratios = " ".join(f"{speeds[own] / speeds[name]:15.2f}" for own in ours)
        print(f"{name:32} {speeds[name]:8.1f} {p50:8.1f} {p99:8.1f}   {ratios}", flush=True)


def measure(setting, folder, data_dir):
    contest.in_own_process("models", _prepared, write_models, folder, setting, data_dir)
    if not contest.missing(ONNX):
        contest.in_own_process("ONNX file", _prepared, write_onnx, folder)
    texts = len(np.load(folder / "expected.npy"))
    print(f"\n{setting}: {texts} texts, medians of {_ROUNDS.value} rounds", flush=True)
    for name in CLOSE:
        size = sum(path.stat().st_size for path in (folder / "exported" / name).rglob("*") if path.is_file())
        print(f"SavedModel, {name}: {size / 1e6:.1f} MB")
    report(contest.in_turn(contenders(folder), _ROUNDS.value), texts)


def _prepared(function, *arguments):
    function(*arguments)


def main(_):
    data_dir = _DATA.value or os.path.join(os.environ.get("KERAS_BERT_DATA", "."), "glue")
    print(contest.machine())
    for setting in _SETTINGS.value:
        with tempfile.TemporaryDirectory() as folder:
            measure(setting, pathlib.Path(folder), data_dir)


if __name__ == "__main__":
    app.run(main)

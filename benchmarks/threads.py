"""The same work with other settings of TensorFlow's threads, in turn, and short texts beside ONNX Runtime.

    python -m benchmarks.threads --turns=9 --max_isa=AVX2

Each job runs in a process for each setting, in turn; the ratio to TensorFlow's own setting is the median of those of
the rounds, beside the smallest and the largest. `--max_isa=AVX2` is the `--isa` of `benchmarks.onednn`. ONNX Runtime
(`make convert`) gets token ids, the SavedModels text. Takes a quarter of an hour on two cores.
"""

import concurrent.futures
import os
import pathlib
import statistics
import tempfile

import numpy as np
from absl import app, flags

from benchmarks import contest, onednn

# Other names than those of the scripts whose jobs it runs.
_JOBS = flags.DEFINE_list("chosen", None, "Names, or parts of names, of the jobs; default: all.")
_ROUNDS = flags.DEFINE_integer("turns", 9, "Rounds to time.", lower_bound=1)
_ISA = flags.DEFINE_string("max_isa", None, "The newest instructions to use, such as AVX2; default: all.")

# TensorFlow reads these when it starts. The thread that calls oneDNN computes a part, rather than wait for the others.
CALLER = {"TF_ONEDNN_THREADPOOL_USE_CALLER_THREAD": "1"}
ONE_INTER_OP = {"TF_NUM_INTEROP_THREADS": "1"}
ONE_THREAD = {"TF_NUM_INTEROP_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
SETTINGS = {
    "TensorFlow's own": {},
    "caller": CALLER,
    "one inter-op": ONE_INTER_OP,
    "caller, one inter-op": {**CALLER, **ONE_INTER_OP},
    "one thread": ONE_THREAD,
}
LINE = "The committee, which met on Thursday, wouldn't say when the report will be published. "


def with_variables(variables, isa, prepare, *arguments):
    """Prepares a job in a process with the variables of the environment."""
    os.environ.update(variables)
    return onednn.with_setting("1", isa, prepare, *arguments)


def clients(folder, count, times):
    """Answers of a SavedModel to one text at a time, asked by several threads at once."""
    ask = onednn.served(folder, [LINE], times)

    def run():
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            for asked in [pool.submit(ask) for _ in range(count)]:
                asked.result()

    return run


def write(folder):
    """Exports MiniLM as a SavedModel and as a file of ONNX."""
    import keras_bert

    bert = keras_bert.load(contest.minilm())
    bert.export(folder / "1")
    keras_bert.export_onnx(bert.model(), bert.preprocessor(256), folder / "onnx")


def onnx_runtime(folder, texts, times, threads):
    import onnxruntime

    import keras_bert

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    (path,) = (folder / "onnx").rglob("*.onnx")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    preprocessor = keras_bert.load(contest.minilm()).preprocessor(256, padding="longest")
    inputs = {name: np.array(ids, "int32") for name, ids in preprocessor(texts).items()}

    def run():
        for _ in range(times):
            session.run(None, inputs)

    return run


def jobs(folder):
    """Returns `{name: (prepare, arguments)}`, and of those that ONNX Runtime does too `{name: arguments}`."""
    saved = folder / "1"
    texts = {
        "one text of 20 tokens x 50": ([LINE], 50),
        "one text of 240 tokens x 8": ([LINE * 12], 8),
        "32 texts of 5 to 20 tokens x 3": ([LINE[: 10 + 2 * number] for number in range(32)], 3),
    }
    return {
        **{f"SavedModel of MiniLM, {name}": (onednn.served, (saved, *asked)) for name, asked in texts.items()},
        "SavedModel of MiniLM, 4 clients, one text x 20": (clients, (saved, 4, 20)),
        "forward, BASE, float32": (onednn.prediction, ("float32",)),
        "train_step, BASE, float32": (onednn.training, ("float32",)),
        "train_step, BASE, mixed bfloat16": (onednn.training, ("mixed_bfloat16",)),
    }, {f"SavedModel of MiniLM, {name}": asked for name, asked in texts.items()}


def main(_):
    print(f"{contest.machine()}, ISA {_ISA.value or 'all'}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        contest.in_own_process("export", write, folder)
        ours, theirs = jobs(folder)
        for job, (prepare, arguments) in ours.items():
            if _JOBS.value and not any(part in job for part in _JOBS.value):
                continue
            contenders = {
                name: (["tensorflow"], with_variables, (variables, _ISA.value, prepare, *arguments))
                for name, variables in SETTINGS.items()
            }
            if job in theirs:
                for threads in {1, os.cpu_count()}:
                    asked = (folder, *theirs[job], threads)
                    contenders[f"ONNX Runtime, threads: {threads}"] = (["onnxruntime"], onnx_runtime, asked)
            report(job, contest.in_turn(contenders, _ROUNDS.value))


def report(job, times):
    print(job)
    before = times["TensorFlow's own"]
    for name, seconds in times.items():
        ratios = [old / new for old, new in zip(before, seconds, strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"    {name:28} {1000 * statistics.median(seconds):8.1f} ms   {spread}", flush=True)


if __name__ == "__main__":
    app.run(main)

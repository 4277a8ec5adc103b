"""The same work with TensorFlow's oneDNN kernels off and on, in turn: training, prediction, tokenization, SavedModels.

    python -m benchmarks.onednn --repeats=9 --isa=AVX2

Each job runs in two processes in turn, with `TF_ENABLE_ONEDNN_OPTS` 0 and 1; the ratio is the median of those of the
rounds, beside the smallest and the largest. `--isa=AVX2` stands in for a processor without AVX-512: it limits
oneDNN and XLA, but not Eigen, which TensorFlow uses without oneDNN. Takes ten minutes on two cores and needs no peers.
Without `--data` it reads from `$KERAS_BERT_DATA`.
"""

import os
import pathlib
import statistics
import tempfile

from absl import app, flags

from benchmarks import contest

# Other names than those of the scripts whose jobs it runs.
_DATA = flags.DEFINE_string("data", None, "Folder of the data sets.")
_JOBS = flags.DEFINE_list("jobs", None, "Names, or parts of names, of the jobs; default: all.")
_REPEATS = flags.DEFINE_integer("repeats", 9, "Rounds to time.", lower_bound=1)
_ISA = flags.DEFINE_string("isa", None, "The newest instructions to use, such as AVX2; default: all that there are.")

SHAPE = (8, 128)
LINES = 2000


def with_setting(setting, isa, prepare, *arguments):
    """Prepares a job in a process whose TensorFlow has the setting."""
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = setting
    if isa:
        os.environ["ONEDNN_MAX_CPU_ISA"] = isa
        os.environ["XLA_FLAGS"] = f"--xla_cpu_max_isa={isa}"
    return prepare(*arguments)


def training(precision):
    from benchmarks import train_step

    return train_step.our_step(SHAPE, precision, "gelu")


def prediction(precision):
    from benchmarks import forward, models

    return forward.keras_forward(models.ours, precision, SHAPE, "gelu")


def fine_tuning(data_dir):
    """Eight steps of 32 rows of MRPC, from strings."""
    from benchmarks import glue_side_by_side

    job = glue_side_by_side.draw("mrpc", data_dir / "glue", contest.minilm(), 8)
    ready = glue_side_by_side.ours(job, "float32")

    def fit():
        ready(0)()

    return fit


def tokenization(data_dir, offsets):
    import tensorflow as tf

    import keras_bert

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    vocabulary = keras_bert.Vocabulary(data_dir / "vocab" / "bert-base-uncased-vocab.txt")
    tokenizer = keras_bert.TextPreprocessor(vocabulary, 128).tokenizer
    lines = tf.constant((data_dir / "corpus" / "books" / "books-00.txt").read_text("utf-8").split("\n")[:LINES])
    run = tf.function(tokenizer.with_offsets if offsets else tokenizer)

    def tokenize():
        tf.nest.map_structure(lambda ids: ids.flat_values.numpy(), run(lines))

    return tokenize


def write(folder):
    """Exports MiniLM as a sentence encoder."""
    import keras_bert

    bert = keras_bert.load(contest.minilm())
    bert.export(folder)


def served(folder, texts, times):
    """Answers of a SavedModel to `texts`, from strings."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  Registers the tokenizer ops.

    loaded = tf.saved_model.load(str(folder))
    answer = loaded.signatures["serving_default"]
    (name,) = answer.structured_input_signature[1]

    def run():
        for _ in range(times):
            answer(**{name: tf.constant(texts)})["embedding"].numpy()

    return run


def jobs(data_dir, folder):
    """Returns `{name: (prepare, arguments)}`."""
    line = "The committee, which met on Thursday, wouldn't say when the report will be published. "
    texts = [line[: 10 + 2 * number] for number in range(32)]
    return {
        "train_step, BASE, float32": (training, ("float32",)),
        "train_step, BASE, mixed bfloat16": (training, ("mixed_bfloat16",)),
        "forward, BASE, float32": (prediction, ("float32",)),
        "forward, BASE, mixed bfloat16": (prediction, ("mixed_bfloat16",)),
        "fine-tuning MiniLM on MRPC": (fine_tuning, (data_dir,)),
        "tokenization, English": (tokenization, (data_dir, False)),
        "tokenization, English, offsets": (tokenization, (data_dir, True)),
        "SavedModel of MiniLM, one sentence x 20": (served, (folder, [line], 20)),
        "SavedModel of MiniLM, one text of 60 tokens x 15": (served, (folder, [line * 3], 15)),
        "SavedModel of MiniLM, one text of 240 tokens x 8": (served, (folder, [line * 12], 8)),
        "SavedModel of MiniLM, 32 sentences": (served, (folder, texts, 1)),
        "SavedModel of MiniLM, 8 texts of 240 tokens": (served, (folder, [line * 12] * 8, 1)),
    }


def main(_):
    data_dir = pathlib.Path(_DATA.value or os.environ.get("KERAS_BERT_DATA", "."))
    print(f"oneDNN off and on, batch {SHAPE[0]} x {SHAPE[1]}; {contest.machine()}, ISA {_ISA.value or 'all'}")
    print(f"{'':42} {'off, s':>8} {'on, s':>8}   off / on (smallest to largest)")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "1"
        contest.in_own_process("export", write, folder)
        for name, (prepare, arguments) in jobs(data_dir, folder).items():
            if _JOBS.value and not any(part in name for part in _JOBS.value):
                continue
            pair = {key: (["tensorflow"], with_setting, (key, _ISA.value, prepare, *arguments)) for key in "01"}
            off, on = contest.in_turn(pair, _REPEATS.value).values()
            ratios = [before / after for before, after in zip(off, on, strict=True)]
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            print(f"{name:42} {statistics.median(off):8.3f} {statistics.median(on):8.3f}   {spread}", flush=True)


if __name__ == "__main__":
    app.run(main)

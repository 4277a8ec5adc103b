"""Padding: computed tokens per real token in GLUE, and the speed of `Batches` compared with `tf.data` bucketing.

    python -m benchmarks.batching --data=data

For CoLA, SST-2 and MRPC, prints the computed tokens with padding to 128, to the longest of 32 random sentences, and to
fitted boundaries; [CLS] and [SEP] count as real tokens. Then prints the rows per second of `Batches.dataset` and of
`bucket_by_sequence_length` on the same rows, shuffled and padded to the same boundaries, including the start of the
epoch. Takes a minute. Without the flag it reads from `$KERAS_BERT_DATA`.
"""

import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from absl import app, flags

import keras_bert
from benchmarks import contest
from keras_bert.data.bucketing import Batches

_DATA = flags.DEFINE_string("data", None, "Folder that contains glue/ and vocab/.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Epochs to time.")

LENGTH = 128
BATCH = 32
TASKS = {"CoLA": (0, [3]), "SST-2": (1, [0]), "MRPC": (1, [3, 4])}  # Number of header lines, text columns.


def read(path, header, columns):
    """Reads columns of a TSV file as a tuple of lists of strings."""
    with open(path, encoding="utf-8-sig") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][header:]
    texts = []
    for column in columns:
        texts.append([row[column] for row in rows])
    return tuple(texts)


def tokenize(preprocessor, texts):
    """Returns the inputs as ragged tensors, and their lengths."""
    inputs = preprocessor(texts if len(texts) == 2 else texts[0])
    lengths = tf.reduce_sum(inputs["padding_mask"], axis=1)
    return {name: tf.RaggedTensor.from_tensor(ids, lengths) for name, ids in inputs.items()}, lengths.numpy()


def padded_to_longest(lengths):
    """Counts the tokens of random batches, each padded to its longest row."""
    lengths = np.random.default_rng(0).permutation(lengths)
    batches = np.split(lengths, range(BATCH, len(lengths), BATCH))
    return sum(batch.size * batch.max() for batch in batches)


def bucket_by_sequence_length(inputs, boundaries):
    """Returns the same rows in batches of the same shapes, made by `tf.data`."""
    dataset = tf.data.Dataset.from_tensor_slices(inputs).shuffle(inputs["token_ids"].shape[0])
    dataset = dataset.map(lambda row: row)  # Converts ragged rows to dense tensors, which can be padded.
    dataset = dataset.bucket_by_sequence_length(
        lambda row: tf.shape(row["token_ids"])[0],
        [boundary + 1 for boundary in boundaries],
        [BATCH] * (len(boundaries) + 1),
        pad_to_bucket_boundary=True,
    )
    return dataset.prefetch(tf.data.AUTOTUNE)


def measure(functions, rounds):
    """Returns the median seconds of an epoch of each dataset, with interleaved rounds."""
    times = {name: [] for name in functions}
    for _ in range(rounds + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in function():
                pass
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def main(_):
    data = _DATA.value or os.environ.get("KERAS_BERT_DATA", ".")
    vocabulary = f"{data}/vocab/bert-base-uncased-vocab.txt"
    preprocessor = keras_bert.TextPreprocessor(vocabulary, LENGTH, padding="longest")
    print(contest.machine())
    print("\ncomputed tokens per real one  mean length     to 128  of batch    fitted  boundaries")
    speeds = []
    for task, (header, columns) in TASKS.items():
        inputs, lengths = tokenize(preprocessor, read(f"{data}/glue/{task}/train.tsv", header, columns))
        batches = Batches(inputs, batch_size=BATCH)
        real = lengths.sum()
        ratios = [LENGTH * len(lengths) / real, padded_to_longest(lengths) / real, batches.computed / real]
        print(
            f"{task:8} {len(lengths):8} rows {real / len(lengths):18.1f}  "
            + "".join(f"{ratio:10.3f}" for ratio in ratios)
            + f"  {len(batches.boundaries)}: {' '.join(map(str, batches.boundaries))}"
        )
        assert ratios[-1] < 1.15
        functions = {
            "Batches": batches.dataset,
            "tf.data": lambda inputs=inputs, batches=batches: bucket_by_sequence_length(inputs, batches.boundaries),
        }
        seconds = measure(functions, _ROUNDS.value)
        speeds.append((task, *(len(lengths) / value for value in seconds.values())))
    print("\nrows per second                  Batches   bucket_by_sequence_length                     speedup")
    for task, ours, theirs in speeds:
        print(f"{task:20} {ours:19.0f} {theirs:27.0f} {ours / theirs:27.1f}")


if __name__ == "__main__":
    app.run(main)

"""Checks the result of `make demo`: the score and two predictions.

    python -m pipelines.demo --output_dir=runs/demo

`make demo` runs this after `pipelines.run_glue` with `recipes/demo.txt`. Exits with status 2 unless the accuracy
exceeds the majority-label baseline by 10 points.
"""

import collections
import pathlib

from absl import flags

from keras_bert.files import read_json
from keras_bert.tasks.glue import data as glue

from . import command

command.section("data")
_RUN = flags.DEFINE_string("output_dir", "runs/demo", "--output_dir of run_glue.")
_DATA = flags.DEFINE_string("data_dir", "pipelines/sample_data/sentiment", "--data_dir of run_glue.")
_SENTENCES = ("I would see it again tomorrow.", "Two hours that I will not get back.")
_MARGIN = 0.1


def main():
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 (The SavedModel uses its ops.)

    run = pathlib.Path(_RUN.value)
    best = read_json(run / "results.json")["best"]
    labels = glue.read(glue.TASKS["sst2"], _DATA.value, "dev").labels
    majority = collections.Counter(labels).most_common(1)[0][1] / len(labels)
    accuracy = best["scores"]["accuracy"]
    print(f"accuracy on {len(labels)} sentences: {accuracy:.3f}; majority-label baseline: {majority:.3f}")
    served = tf.saved_model.load(run / "saved_model" / "1").signatures["serving_default"]
    answers = served(text=tf.constant(_SENTENCES))
    for sentence, label, probabilities in zip(_SENTENCES, answers["label"], answers["probabilities"], strict=True):
        print(f"{label.numpy().decode()} ({probabilities.numpy().max():.2f}): {sentence}")
    if accuracy < majority + _MARGIN:
        raise ValueError(f"the accuracy does not exceed the majority-label baseline by {_MARGIN}")


if __name__ == "__main__":
    command.run(main)

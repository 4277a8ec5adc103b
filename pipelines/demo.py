"""Checks the result of `make demo`: the score and two predictions.

    python -m pipelines.demo --output_dir=runs/demo

`make demo` runs this after `pipelines.run_glue` with `recipes/demo.txt`. Exits with status 2 unless the accuracy
exceeds the majority-label baseline by 10 points.
"""

import pathlib

from keras_bert.files import read_json

from . import command
from .arguments import CommandArguments, flag

_SENTENCES = ("I would see it again tomorrow.", "Two hours that I will not get back.")
_MARGIN = 0.1


class Arguments(CommandArguments):
    output_dir: str = flag("runs/demo", "--output_dir of run_glue.", section="data")


def main(arguments):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 (The SavedModel uses its ops.)

    run = pathlib.Path(arguments.output_dir)
    results = read_json(run / "results.json")
    accuracy, majority = results["best"]["scores"]["accuracy"], results["data"]["majority"]["accuracy"]
    count = results["data"]["dev"]["classification"]
    print(f"accuracy on {count} sentences: {accuracy:.1%}; majority-label baseline: {majority:.1%}")
    served = tf.saved_model.load(run / "saved_model" / "1").signatures["serving_default"]
    answers = served(text=tf.constant(_SENTENCES))
    for sentence, label, probabilities in zip(_SENTENCES, answers["label"], answers["probabilities"], strict=True):
        print(f"{label.numpy().decode()} ({probabilities.numpy().max():.2f}): {sentence}")
    if accuracy < majority + _MARGIN:
        raise ValueError(f"the accuracy does not exceed the majority-label baseline by {_MARGIN}")


if __name__ == "__main__":
    command.run(__doc__, Arguments, main)

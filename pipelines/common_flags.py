"""Shared code of the commands: startup, error handling and the training flags."""

import codecs
import dataclasses
import sys
import types

from absl import app, flags

import keras_bert
from keras_bert.files import write_text

flags.disclaim_key_flags()  # Makes `--help` of a command list the flags defined here.

# Errors caused by the user; any other error is a bug and keeps its traceback.
MISTAKES = (ValueError, OSError, MemoryError, FloatingPointError)


def run(main, with_arguments=False):
    """Parses the flags and runs `main()`. User errors print one line and exit with status 2.

    Args:
        main: function to run; called with the list of positional arguments if `with_arguments`.
        with_arguments: bool, whether positional arguments are allowed. Defaults to `False`.
    """

    def guarded(argv):
        if len(argv) > 1 and not with_arguments:
            sys.exit(_complain(f"unexpected argument(s) {' '.join(argv[1:])}. Expected only flags, see --help"))
        try:
            with keras_bert.explain_out_of_memory():
                main(argv[1:]) if with_arguments else main()
        except MISTAKES as error:
            sys.exit(_complain(error))

    app.run(guarded, flags_parser=_parse)


def _parse(arguments):
    try:
        return flags.FLAGS(arguments)
    except flags.Error as error:
        sys.exit(_complain(error))


def _complain(message):
    print(f"error: {' '.join(str(message).split())}", file=sys.stderr)
    return 2


def text_lines(content):
    """Splits a file's bytes into texts, one per line; invalid UTF-8 becomes U+FFFD."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("the texts are UTF-16. Save the file as UTF-8")
    lines = content.decode("utf-8", "replace").removesuffix("\n").split("\n") if content else []
    return [line.removesuffix("\r") for line in lines]


def training(warmup, bias_correction):
    """Defines the flags of all training and returns their holders by name. The arguments are defaults."""
    precisions = ["float32", "mixed_bfloat16", "mixed_float16"]
    return types.SimpleNamespace(
        output_dir=flags.DEFINE_string("output_dir", None, "Output directory.", required=True),
        warmup=flags.DEFINE_float("warmup", warmup, "Fraction of the steps used for warmup.", 0, 1),
        bias_correction=flags.DEFINE_bool(
            "bias_correction", bias_correction, "Bias correction of the optimizer; Google's BERT has none."
        ),
        gradient_accumulation=flags.DEFINE_integer("gradient_accumulation", 1, "Micro-batches per batch.", 1),
        precision=flags.DEFINE_enum("precision", "float32", precisions, "Computation precision."),
        strategy=flags.DEFINE_string("strategy", "auto", "Distribution: auto, one, mirrored, multi_worker or tpu."),
    )


def finetuning(learning_rates):
    """Defines the fine-tuning flags and returns their holders by name.

    Args:
        learning_rates: list of strings, the default grid.
    """
    return types.SimpleNamespace(
        **vars(training(warmup=0.1, bias_correction=True)),
        model=flags.DEFINE_string("model", None, "Directory or name of the model to start from."),
        learning_rate=flags.DEFINE_list("learning_rate", learning_rates, "Peak learning rate(s)."),
        batch_size=flags.DEFINE_list("batch_size", None, "Batch size(s); default: the task's."),
        epochs=flags.DEFINE_list("epochs", None, "Number(s) of epochs; default: the task's."),
        seed=flags.DEFINE_list("seed", ["1"], "Random seed(s)."),
        ensemble=flags.DEFINE_integer("ensemble", 1, "Number of the best runs whose predictions are averaged.", 1),
        layer_decay=flags.DEFINE_float("layer_decay", None, "Learning rate factor from each block to the one below."),
        weight_decay=flags.DEFINE_float("weight_decay", 0.01, "Weight decay, except on biases and LayerNorms."),
        epsilon=flags.DEFINE_float("epsilon", 1e-6, "Epsilon of AdamW; PyTorch's default is 1e-8."),
        freeze_layers=flags.DEFINE_integer(
            "freeze_layers", None, "Freezes the embeddings and this many of the lowest blocks."
        ),
        group_by_length=flags.DEFINE_bool("group_by_length", True, "Batches rows of similar length, which is faster."),
        max_train_examples=flags.DEFINE_integer("max_train_examples", None, "Number of training examples to use.", 1),
    )


def choices(holders, batch_size, epochs):
    """Returns the grid of the `finetuning` flags; `batch_size` and `epochs` are the task's defaults."""
    return {
        "learning_rate": numbers(holders.learning_rate, float),
        "batch_size": numbers(holders.batch_size, int) or [batch_size],
        "epochs": numbers(holders.epochs, int) or [epochs],
        "seed": numbers(holders.seed, int),
    }


def instance(kind, **given):
    """Returns an instance of a dataclass; fields that are not given are set from the flags of the same name."""
    names = [field.name for field in dataclasses.fields(kind) if field.name not in given]
    return kind(**{name: flags.FLAGS[name].value for name in names}, **given)


def numbers(holder, kind):
    """Returns the values of a list flag as numbers, or `None` if it is not given."""
    try:
        return None if holder.value is None else [kind(value) for value in holder.value]
    except ValueError:
        raise ValueError(f"--{holder.name} must be comma-separated numbers. Received: {holder.value}") from None


def write_given(path):
    """Writes the given flags to a file for `--flagfile`, except those of absl and TensorFlow."""
    own = flags.FLAGS.flags_by_module_dict()
    given = [flag for module in (sys.argv[0], "__main__") for flag in own.get(module, []) if flag.present]
    write_text(path, "".join(f"{flag.serialize()}\n" for flag in given))

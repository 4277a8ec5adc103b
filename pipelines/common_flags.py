"""Flags that several commands share, and their values."""

import codecs
import dataclasses
import types

from absl import flags

from .command import section


def text_lines(content):
    """Splits a file's bytes into texts, one per line; invalid UTF-8 becomes U+FFFD."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("the texts are UTF-16. Save the file as UTF-8")
    lines = content.decode("utf-8", "replace").removesuffix("\n").split("\n") if content else []
    return [line.removesuffix("\r") for line in lines]


def training(warmup, bias_correction):
    """Defines the flags of all training and returns their holders by name. The arguments are defaults."""
    precisions = ["float32", "mixed_bfloat16", "mixed_float16"]
    section("training")
    holders = {
        "warmup": flags.DEFINE_float("warmup", warmup, "Fraction of the steps used for warmup.", 0, 1),
        "bias_correction": flags.DEFINE_bool(
            "bias_correction", bias_correction, "Bias correction of the optimizer; Google's BERT has none."
        ),
        "gradient_accumulation": flags.DEFINE_integer("gradient_accumulation", 1, "Micro-batches per batch.", 1),
        "precision": flags.DEFINE_enum("precision", "float32", precisions, "Computation precision."),
        "strategy": flags.DEFINE_string("strategy", "auto", "Distribution: auto, one, mirrored, multi_worker or tpu."),
    }
    section("output")
    output = flags.DEFINE_string("output_dir", None, "Output directory.", required=True)
    return types.SimpleNamespace(output_dir=output, **holders)


def finetuning(learning_rates):
    """Defines the fine-tuning flags and returns their holders by name.

    Args:
        learning_rates: list of strings, the default grid.
    """
    section("model")
    model = flags.DEFINE_string("model", None, "Directory or name of the model to start from.")
    section("training")
    return types.SimpleNamespace(
        model=model,
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
        **vars(training(warmup=0.1, bias_correction=True)),
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

"""What all command lines share: how they start and how they end; and the flags of those that fine-tune."""

import codecs
import pathlib
import sys
import types

from absl import app, flags

import keras_bert

# A user's mistakes; anything else is ours and keeps its traceback.
_MISTAKES = (ValueError, OSError, MemoryError, FloatingPointError)


def run(main, with_arguments=False):
    """Runs `main()` after the flags are parsed; a user's mistake ends in one line and exit status 2.

    Args:
        main: the function; `with_arguments`, it is called with the list of what stands beside the flags.
        with_arguments: whether there may be anything beside the flags.
    """

    def guarded(argv):
        if len(argv) > 1 and not with_arguments:
            sys.exit(_complain(f"unexpected argument(s) {' '.join(argv[1:])}. Expected flags alone, see --help"))
        try:
            with keras_bert.explain_out_of_memory():
                main(argv[1:]) if with_arguments else main()
        except _MISTAKES as error:
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
    """The texts of a file's bytes, one a line; bytes that are no UTF-8 become U+FFFD."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("the texts are UTF-16. Save the file as UTF-8")
    lines = content.decode("utf-8", "replace").removesuffix("\n").split("\n") if content else []
    return [line.removesuffix("\r") for line in lines]


def finetuning(learning_rates):
    """Defines the flags of fine-tuning; returns their holders by name.

    Args:
        learning_rates: the default grid, a list of strings.
    """
    precisions = ["float32", "mixed_bfloat16", "mixed_float16"]
    return types.SimpleNamespace(
        model=flags.DEFINE_string("model", None, "Directory or name of the model to start from."),
        output_dir=flags.DEFINE_string("output_dir", None, "Where everything is written.", required=True),
        learning_rate=flags.DEFINE_list(
            "learning_rate", learning_rates, "Highest learning rates, by default the paper's."
        ),
        batch_size=flags.DEFINE_list("batch_size", None, "Batch sizes, by default the task's."),
        epochs=flags.DEFINE_list("epochs", None, "Epochs, by default the task's."),
        seed=flags.DEFINE_list("seed", ["1"], "Seeds, of the head, the order of the data and the dropout."),
        ensemble=flags.DEFINE_integer("ensemble", 1, "How many of the best runs predict together.", lower_bound=1),
        warmup=flags.DEFINE_float("warmup", 0.1, "Share of the steps that the learning rate rises.", 0, 1),
        layer_decay=flags.DEFINE_float(
            "layer_decay", None, "Factor of the learning rate from each block to the one below."
        ),
        weight_decay=flags.DEFINE_float("weight_decay", 0.01, "Of AdamW; biases and LayerNorms have none."),
        epsilon=flags.DEFINE_float("epsilon", 1e-6, "Of AdamW; that of PyTorch is 1e-8."),
        bias_correction=flags.DEFINE_bool("bias_correction", True, "False is Google's optimizer."),
        freeze_layers=flags.DEFINE_integer(
            "freeze_layers", None, "Freezes the embeddings and so many of the lowest blocks."
        ),
        group_by_length=flags.DEFINE_bool("group_by_length", True, "Whether a batch has rows of like length: faster."),
        gradient_accumulation=flags.DEFINE_integer(
            "gradient_accumulation", 1, "In how many parts a batch is computed.", 1
        ),
        max_train_examples=flags.DEFINE_integer(
            "max_train_examples", None, "The first so many training examples alone.", 1
        ),
        precision=flags.DEFINE_enum("precision", "float32", precisions, "Of the computation."),
        strategy=flags.DEFINE_string("strategy", "auto", "auto, one, mirrored, multi_worker or tpu."),
    )


def choices(of, batch_size, epochs):
    """What `finetuning` flags make a grid of; `batch_size` and `epochs` are those of the task, where none are given."""
    return {
        "learning_rate": numbers(of.learning_rate, float),
        "batch_size": numbers(of.batch_size, int) or [batch_size],
        "epochs": numbers(of.epochs, int) or [epochs],
        "seed": numbers(of.seed, int),
    }


def shared(of):
    """What the runs of a grid have in common, by name."""
    names = ("warmup", "weight_decay", "epsilon", "layer_decay", "bias_correction", "freeze_layers", "group_by_length")
    return {name: getattr(of, name).value for name in (*names, "gradient_accumulation", "precision")}


def trainer(of, setting, steps, model_fn, loss, **options):
    """The `Trainer` of one run; `steps` are those of an epoch, `options` further arguments of `Trainer`."""
    total = setting["epochs"] * steps

    def model():
        built = model_fn()
        if of.freeze_layers.value is not None:
            keras_bert.freeze_layers(built, of.freeze_layers.value)
        return built

    def optimizer(model):
        return keras_bert.create_optimizer(
            model,
            setting["learning_rate"],
            total,
            round(of.warmup.value * total),
            weight_decay=of.weight_decay.value,
            epsilon=of.epsilon.value,
            bias_correction=of.bias_correction.value,
            layer_decay=of.layer_decay.value,
        )

    accumulation = of.gradient_accumulation.value
    return keras_bert.Trainer(model, optimizer, loss, micro_batches=accumulation, seed=setting["seed"], **options)


def numbers(holder, kind):
    """The values of a list flag as numbers, `None` if it is not given."""
    try:
        return None if holder.value is None else [kind(value) for value in holder.value]
    except ValueError:
        raise ValueError(f"--{holder.name} must be numbers with commas between. Received: {holder.value}") from None


def write_given(path):
    """Writes the flags that were given to a file for `--flagfile`; those of absl and TensorFlow aside."""
    ours = (__name__, sys.argv[0], "__main__")
    given = [
        flag
        for module, found in flags.FLAGS.flags_by_module_dict().items()
        if module in ours
        for flag in found
        if flag.present
    ]
    pathlib.Path(path).write_text("".join(f"{flag.serialize()}\n" for flag in given))

"""Flags that several commands share, and their values."""

import dataclasses
import os
import pathlib
import shlex
import types

from absl import flags

import keras_bert
from keras_bert.checkpoints import locations
from keras_bert.files import write_text
from keras_bert.tasks import table_files

from .command import given_flags, section, spelling
from .wings import explain_names, is_new, named_baseline


def text_lines(content, name):
    """Splits the bytes of a UTF-8 file into texts, one per line; `name` is that of the file."""
    lines = table_files.split_lines(table_files.decoded(content, name))
    return lines if lines[-1] else lines[:-1]


def check_paths(model=None, **files):
    """Raises an error if a file or pipe, by the name of its flag, or the path of a model does not exist."""
    for name, path in files.items():
        if path and (not os.path.exists(path) or os.path.isdir(path)):
            raise ValueError(f"--{name}={path}: no such file")
    if model:
        locations.find(model)


def only(condition, purpose, *names):
    """Raises an error if flags of these names are given that would do nothing, since a condition is false."""
    given = [flags.FLAGS[name] for name in names if flags.FLAGS[name].present]
    if given and not condition:
        raise ValueError(f"--{given[0].name}: only {purpose}. Received: {given[0].serialize()}")


def schedule(warmup, bias_correction):
    """Defines the flags of BERT's optimizer and returns their holders by name. The arguments are defaults."""
    section("training")
    return {
        "warmup": flags.DEFINE_float("warmup", warmup, "Fraction of the steps used for warmup.", 0, 1),
        "bias_correction": flags.DEFINE_bool(
            "bias_correction", bias_correction, "Bias correction of the optimizer; Google's BERT has none."
        ),
    }


def training(**more):
    """Defines the flags of all training and returns their holders by name, with `more`."""
    precisions = ["float32", "mixed_bfloat16", "mixed_float16"]
    section("training")
    holders = {
        **more,
        "gradient_accumulation": flags.DEFINE_integer("gradient_accumulation", 1, "Micro-batches per batch.", 1),
        "precision": flags.DEFINE_enum("precision", "float32", precisions, "Computation precision."),
        "strategy": flags.DEFINE_string("strategy", "auto", "Distribution: auto, one, mirrored, multi_worker or tpu."),
    }
    section("output")
    holders["output_dir"] = flags.DEFINE_string("output_dir", None, "Output directory.", required=True)
    holders["report_to"] = flags.DEFINE_list(
        "report_to", ["tensorboard"], "Where to log: tensorboard, wandb, mlflow; empty for none."
    )
    return types.SimpleNamespace(**holders)


def finetuning(learning_rate, batch_size="32", epochs="3"):
    """Defines the fine-tuning flags and returns their holders by name. The arguments describe the task's defaults."""
    section("model")
    model = flags.DEFINE_string("model", None, "Directory or name of the model to start from. Required.")
    section("training")
    return types.SimpleNamespace(
        model=model,
        learning_rate=flags.DEFINE_list("learning_rate", None, f"Peak learning rate(s); default: {learning_rate}."),
        batch_size=flags.DEFINE_list("batch_size", None, f"Batch size(s); default: {batch_size}."),
        epochs=flags.DEFINE_list("epochs", None, f"Number(s) of epochs; default: {epochs}."),
        seed=flags.DEFINE_list("seed", ["1"], "Random seed(s)."),
        best=flags.DEFINE_bool(
            "best", True, "Keeps the best epoch on dev by the task's metric; --nobest the last one, as in the paper."
        ),
        patience=flags.DEFINE_integer(
            "patience",
            None,
            "Epochs without a better score on dev, or an equal one with a lower loss, after which a run stops.",
            1,
        ),
        log_every=flags.DEFINE_integer("log_every", 1, "Steps between lines of metrics.jsonl.", 1),
        ensemble=flags.DEFINE_integer("ensemble", 1, "Number of the best runs whose predictions are averaged.", 1),
        layer_decay=flags.DEFINE_float("layer_decay", None, "Learning rate factor from each block to the one below."),
        weight_decay=flags.DEFINE_float("weight_decay", 0.01, "Weight decay, except on biases and LayerNorms."),
        epsilon=flags.DEFINE_float("epsilon", 1e-6, "Epsilon of AdamW; PyTorch's default is 1e-8."),
        freeze_layers=flags.DEFINE_integer(
            "freeze_layers", None, "Freezes the embeddings and this many of the lowest blocks."
        ),
        lora_rank=flags.DEFINE_integer(
            "lora_rank",
            None,
            "Trains LoRA adapters of this rank, such as 8, and the head; --learning_rate: about ten times the default.",
            1,
        ),
        lora_alpha=flags.DEFINE_float("lora_alpha", None, "Scale of the adapters; default: twice the rank.", 0),
        group_by_length=flags.DEFINE_bool("group_by_length", True, "Batches rows of similar length, which is faster."),
        pack=flags.DEFINE_bool("pack", False, "Packs several texts into each row; for classification and tagging."),
        max_train_examples=flags.DEFINE_integer("max_train_examples", None, "Number of training examples to use.", 1),
        **vars(training(**schedule(warmup=0.1, bias_correction=True))),
    )


def baselines():
    """Defines the flags of the models that BERT is compared with, and returns their holders by the names for `load`."""
    section("model")
    return {
        "vocabulary": flags.DEFINE_string("vocab", None, "vocab.txt of a new model, such as --model=bilstm."),
        "lowercase": flags.DEFINE_bool("lowercase", None, "Whether --vocab is uncased; default: judged by its pieces."),
        "language_model": flags.DEFINE_string(
            "language_model", None, "A bilm of run_pretraining, whose states are features of a new model: ELMo."
        ),
    }


def distillation(teacher):
    """Defines the flags of distillation and returns their holders by name; `teacher` describes the teacher."""
    section("distillation")
    return types.SimpleNamespace(
        teacher=flags.DEFINE_string("teacher", None, f"Directory or name of the teacher, {teacher}."),
        temperature=flags.DEFINE_float("temperature", 2.0, "Divisor of the teacher's and the student's logits.", 0.01),
        alpha=flags.DEFINE_float("alpha", 0.5, "Weight of the teacher in the loss; the labels have the rest.", 0, 1),
        student_layers=flags.DEFINE_integer(
            "student_layers", None, "Starts from this number of evenly spaced layers of the model.", 1
        ),
    )


def check_distillation(holders, **more):
    """Raises an error if flags that need a teacher, also those in `more`, are given without one."""
    given = {"temperature": holders.temperature.present, "alpha": holders.alpha.present, **more}
    if not holders.teacher.value and (names := [f"--{name}" for name, value in given.items() if value]):
        raise ValueError(f"{', '.join(names)}: only with --teacher. Received: no --teacher")
    check_paths(holders.teacher.value)


def load_options(holders, models, kind):
    """Returns the options of `wings.load` from the flags of `baselines`.

    Raises an error if new models and others are mixed, or for a new model of another kind than `kind`.
    """
    options = {name: holder.value for name, holder in holders.items() if holder.value is not None}
    missing = [model for model in models if not locations.find(model)]
    new = [model for model in missing if is_new(model)]
    for model in missing:
        if model not in new and (sentence := explain_names(model)):
            raise ValueError(f"--model={model}: no such model{sentence}")
    if new and len(new) < len(models):
        raise ValueError(f"--model: new models are trained on their own. Received: --model={','.join(models)}")
    if wrong := [model for model in new if named_baseline(model, 1).kind != kind]:
        raise ValueError(f"--model must be a {kind} for this task, such as {kind}_H-256. Received: --model={wrong[0]}")
    names = [f"--{holders[name].name}" for name in options]
    if new:
        check_paths(options.get("language_model"), vocab=options.get("vocabulary"))
        if not {"vocabulary", "language_model"} & options.keys():
            raise ValueError(f"--model={models[0]}: a new model needs --vocab=vocab.txt, or --language_model")
    elif options:
        raise ValueError(
            f"{', '.join(names)}: only for new models, such as --model={kind}. Received: --model={models[0]}"
        )
    return options


def new_model_rates(task):
    """Returns the default learning rates of a task whose model is new, or `None` for other models."""
    return [1e-3] if set(task.load_options) - {"num_layers"} else None


def choices(holders, learning_rates, batch_size, epochs):
    """Returns the grid of the `finetuning` flags; the other arguments are the task's defaults."""
    for holder in (holders.batch_size, holders.epochs):
        if any(value < 1 for value in numbers(holder, int) or ()):
            raise ValueError(f"--{holder.name} must be at least 1. Received: {','.join(holder.value)}")
    return {
        "learning_rate": numbers(holders.learning_rate, float) or list(learning_rates),
        "batch_size": numbers(holders.batch_size, int) or [batch_size],
        "epochs": numbers(holders.epochs, int) or [epochs],
        "seed": numbers(holders.seed, int),
    }


def check_pack(holders):
    """Raises an error for flags that packed rows ignore."""
    if holders.pack.value and flags.FLAGS["group_by_length"].present:
        raise ValueError("--group_by_length: not with --pack, whose rows have one length. Received: both")


def check_lora(holders, models):
    """Raises an error if LoRA cannot adapt the models, or its flags contradict others."""
    rank, alpha = holders.lora_rank.value, holders.lora_alpha.value
    if rank is None:
        if alpha is not None:
            raise ValueError(f"--lora_alpha is only for --lora_rank. Received: --lora_alpha={alpha}")
        return
    if alpha == 0:
        raise ValueError("--lora_alpha must be above 0. Received: --lora_alpha=0")
    if holders.freeze_layers.value is not None:
        raise ValueError("--freeze_layers: not with --lora_rank, which freezes the whole encoder. Received: both")
    for model in models:
        path = locations.find(model)
        if path is not None and (path / "adapter_config.json").is_file():
            raise ValueError(
                f"--lora_rank starts from a whole model, such as model/ beside adapter/. Received: --model={model}, an "
                "adapter"
            )
        if path is None and is_new(model):
            raise ValueError(f"--lora_rank adapts the attention of BERT. Received: --model={model}")


def check_model(model, example="google-bert/bert-base-uncased"):
    """Raises an error if no model is given, or if it does not exist."""
    if not model:
        raise ValueError(f"--model is required: a directory or a name such as {example}")
    check_paths(model)


def begin(holders):
    """Returns the output folder and the strategy of training; finds missing loggers before models are loaded."""
    from keras_bert.training.callbacks import check_report_to

    check_report_to(holders.report_to.value)
    return pathlib.Path(holders.output_dir.value), keras_bert.create_strategy(holders.strategy.value)


def finetune(holders, task, choices, strategy, texts, predictions=None):
    """Runs the grid of `choices` and prints the results; `texts` and `predictions` as for `print_next`."""
    from keras_bert.experiments.finetuning import Finetuning
    from keras_bert.experiments.hyperparameters import Hyperparameters
    from keras_bert.training.distribution import is_chief

    output = pathlib.Path(holders.output_dir.value)
    options = {"log_every": holders.log_every.value, "report_to": holders.report_to.value}
    finetuning = Finetuning(
        task, choices, instance(Hyperparameters), output, holders.ensemble.value, strategy, **options
    )
    if is_chief(strategy):
        write_text(output / "flags.txt", given_flags())
    finetuning.run()
    if is_chief(strategy):
        print(finetuning.finish())
        print_next(output, texts, predictions)


def print_next(output, texts, predictions=None):
    """Prints where the results of fine-tuning are, and the next two commands; `texts` are arguments of `predict`."""
    folder = shlex.quote(str(output))
    if predictions:
        print(f"predictions:  {output / predictions}")
    print(f"report:       {output / 'report.html'}")
    print(f"model:        {output / 'model'}")
    if (output / "adapter").is_dir():
        print(f"adapter:      {output / 'adapter'}")
    print(f"saved model:  {output / 'saved_model'}")
    print(f"next:         {spelling('predict')} --model={shlex.quote(str(output / 'model'))} {texts}")
    print(f"              {spelling('serve')} --saved_models={folder}")


def instance(kind, **given):
    """Returns an instance of a dataclass; fields that are not given are set from the flags of the same name."""
    names = [field.name for field in dataclasses.fields(kind) if field.name not in given]
    return kind(**{name: flags.FLAGS[name].value for name in names}, **given)


def numbers(holder, kind):
    """Returns the values of a list flag as numbers, or `None` if it is not given."""
    try:
        return None if holder.value is None else [kind(value) for value in holder.value]
    except ValueError:
        received = ",".join(holder.value)
        raise ValueError(f"--{holder.name} must be comma-separated numbers. Received: {received}") from None


def phases(holder):
    """Returns the values of a flag such as `length:128,steps:1000,batch:32` as dicts."""
    return [_phase(holder.name, text) for text in holder.value or ()]


def _phase(name, text):
    try:
        phase = {part: int(value) for part, value in (part.split(":") for part in text.split(","))}
    except ValueError:
        phase = {}
    if set(phase) != {"length", "steps", "batch"} or min(phase.values()) < 1:
        raise ValueError(f"--{name} must look like length:128,steps:90000,batch:256. Received: {text!r}")
    return phase

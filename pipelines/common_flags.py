"""Flags that several commands share, as dataclasses, and what the commands do with them."""

import functools
import inspect
import pathlib
import shlex
import typing

import keras_bert
from keras_bert import other_models
from keras_bert.checkpoints.folder import find
from keras_bert.data import text_files
from keras_bert.data.formats import source
from keras_bert.data.splits import Folds
from keras_bert.files import check_writable, write_text
from keras_bert.runs.hyperparameters import Hyperparameters
from keras_bert.tasks.methods import FULL, METHODS, check_method
from keras_bert.text.long_texts import LONG_TEXTS

from .arguments import CommandArguments, flag
from .command import spelling

# The public ones.
__all__ = [
    "Distillation",
    "Files",
    "FinetuningFlags",
    "LongTextFlags",
    "PredictFile",
    "TaskFlags",
    "Training",
    "check_task",
    "finetune",
    "phase_settings",
]
NARROW = " (models of width 512 or less: 3 times, of 256 or less: 10 times that)"  # After a default learning rate.
_ADAPTED = "lora_rank, whose adapter needs the whole model"


class Training(CommandArguments):
    """Flags of all training, besides the settings of its runs."""

    strategy: str = flag(
        "auto", "Distribution.", values=["auto", "one", "mirrored", "multi_worker", "tpu"], section="training"
    )
    output_dir: str = flag(None, "Output directory.", required=True, section="output")
    report_to: list[str] = flag(("tensorboard",), "Where to log: tensorboard, wandb, mlflow; empty for none.")

    @property
    def output(self):
        """The output directory as a path."""
        return pathlib.Path(self.output_dir)

    def create_strategy(self):
        """Returns the strategy of training; finds folders that cannot be written before models are loaded."""
        check_writable(self.output)
        return keras_bert.create_strategy(self.strategy)


class LongTextFlags(CommandArguments):
    """Flags that tell how a trained model reads longer texts; by default, as in training."""

    long_texts: str = flag(
        None,
        "Tokens to read of longer texts: the first, the last, a quarter first and the rest last, or all, in windows; "
        "default: as in training.",
        values=list(LONG_TEXTS),
        section="long texts",
    )
    overlap: int = flag(None, "Tokens that windows share; default: as in training, or an eighth of a window.", least=0)
    max_windows: int = flag(None, "Maximum number of windows of a text.", least=1)


class FinetuningFlags(Hyperparameters, Training):
    """Flags of fine-tuning. `wording` of a subclass has the task's defaults."""

    wording: typing.ClassVar = {
        "rates": f"5e-5{NARROW}",
        "batches": "32",
        "epochs": "3",
        "teacher": "a model of the same task",
        "train": "",
        "dev": "",
        "predict": "",
    }

    model: str = flag(None, "Directory or name of the model to start from.", required=True, section="model")
    learning_rate: list[float] = flag(None, "Peak learning rate(s); default: {rates}.", least=0, section="training")
    batch_size: list[int] = flag(None, "Batch size(s); default: {batches}.", least=1)
    epochs: list[int] = flag(None, "Number(s) of epochs; default: {epochs}.", least=1)
    seed: list[int] = flag((1,), "Random seed(s).", least=0)
    log_every: int = flag(1, "Steps between lines of metrics.jsonl.", least=1)
    ensemble: int = flag(1, "Number of the best runs whose predictions are averaged.", least=1)
    max_train_examples: int = flag(None, "Number of training examples to use.", least=1)

    @property
    def models(self):
        """The models to start from."""
        return [self.model]

    def check_conditions(self):
        """Same as for other commands; raises an error, too, if LoRA cannot adapt the models."""
        super().check_conditions()
        if self.lora_alpha == 0:
            raise ValueError("--lora_alpha must be above 0. Received: --lora_alpha=0")
        if self.lora_rank:
            for model in self.models:
                _check_start_of_lora(model)

    def load_options(self, models):
        """Returns options of `load` for the models to start from; commands for other models have some."""
        return {}

    def settings_of_runs(self, model, sequence_length, **changes):
        """Returns settings that all runs share, of those in `Finetuning.common`; `changes` are hyperparameters."""
        settings = {"model": model}
        if sequence_length:
            settings["sequence_length"] = sequence_length
        settings.update(self.fill(Hyperparameters, **changes).to_dict())
        return settings

    def choices(self, task):
        """Returns the grid of the runs; flags that are not given have the task's defaults."""
        return task.training.choices(self.learning_rate, self.batch_size, self.epochs, self.seed)

    def runs(self, task, folder, strategy, teacher=None):
        """Returns the `Finetuning` of a task, with folds the `CrossValidation`."""
        from keras_bert.runs.cross_validation import CrossValidation
        from keras_bert.runs.finetuning import Finetuning, Plan

        folds = None
        if self.divides:
            folds = self.create_folds(task.splits["dev"][0].examples)
        if self.is_full:
            few_examples = None
            choices = self.choices(task)
        else:
            few_examples = self._few_examples(task, folds)
            choices = few_examples.choices(self.learning_rate, self.batch_size, self.epochs, self.seed)
        plan = Plan(
            task,
            choices,
            self.fill(Hyperparameters, **self.changes),
            folder,
            ensemble=self.ensemble,
            strategy=strategy,
            log_every=self.log_every,
            report_to=self.report_to,
            teacher=teacher,
            folds=folds,
            few_examples=few_examples,
            source=self.divided_source if self.divides else None,
        )
        if self.divides:
            return CrossValidation(plan)
        return Finetuning(plan)

    def _few_examples(self, task, folds):
        """Returns what trains models on few texts by another method than steps of the whole model."""
        from keras_bert.tasks.few_examples import FewExamples

        return FewExamples(task, self.method, folds)

    @property
    def divides(self):
        """Whether the rows to train on are divided into folds."""
        return bool(getattr(self, "folds", None))

    @property
    def divided_source(self):
        """The `Source` of the rows that folds divide."""
        return getattr(self, "open", source)(self.train_file)

    @property
    def changes(self):
        """The hyperparameters that other flags set: without dev data, or without epochs, there is none to choose."""
        if self.divides or not self.is_full:
            return {"best": False}
        return {}

    @property
    def is_full(self):
        """Whether the whole model is trained in steps; commands with `FewExamplesFlags` have other methods."""
        return getattr(self, "method", FULL) == FULL

    @functools.cached_property
    def groups_of_file(self):
        """The file whose rows are divided, and the values of `--group_column` of all its rows."""
        path = self.train_file
        if isinstance(path, list):  # A command with several training files has folds of one alone.
            path = path[-1]
        return path, read_column(path, self.group_column)

    def create_folds(self, rows, is_whole=None):
        """Returns the `Folds` of rows to train on.

        `is_whole` tells whether these are all rows of their file, and not the first ones. Defaults to what
        `--max_train_examples` says.
        """
        if self.group_column is None:
            return Folds(self.folds)
        if is_whole is None:
            is_whole = self.max_train_examples is None
        groups = self._groups_of(rows, is_whole)
        for group in groups:
            if isinstance(group, ValueError):  # A row that cannot be read has no group.
                raise group
        return Folds(self.folds, groups)

    def _groups_of(self, rows, is_whole):
        """Returns the groups of rows to train on; raises an error if these may be others than those of the file."""
        path, groups = self.groups_of_file
        if rows.file_rows is not None:
            groups_of_rows = [groups[number] for number in rows.file_rows]
            return groups_of_rows[: len(rows)]
        if is_whole and len(groups) != len(rows):
            raise ValueError(
                f"--group_column: only for files with a row for each example. Received: {path} with {len(groups):,} "
                f"rows, which make {len(rows):,} examples"
            )
        return groups[: len(rows)]

    def divided(self, data):
        """Returns the first rows of data; with folds, dev is what is trained on, after a check that they divide it."""
        first = data.first(self.max_train_examples)
        if not self.divides:
            return first
        self.create_folds(data.divided, is_whole=True)  # Raises an error for rows whose groups are not known.
        self.create_folds(first.divided).check(first.divided)
        return first.on_train()


def _check_start_of_lora(model):
    """Raises an error if a model to start from is one that LoRA cannot adapt, or that `peft.check_base` refuses.

    That is imported with the models, and asked when they are saved; this is said before they are trained.
    """
    path = find(model)
    if path is not None and (path / "adapter_config.json").is_file():
        raise ValueError(
            "--lora_rank starts from a whole model, such as model/ beside adapter/. "
            f"Received: --model={model}, an adapter"
        )
    if path is None and other_models.creating(model):
        raise ValueError(f"--lora_rank adapts the attention of BERT. Received: --model={model}")


class CrossValidationFlags(CommandArguments):
    """Folds of the rows to train on, instead of dev data."""

    folds: int = flag(
        None,
        "Folds of cross-validation, instead of --dev_file; such as 5.",
        least=2,
        section="data",
        excludes=("dev_file", "teacher, which may have seen the rows of every fold"),
    )
    group_column: str = flag(
        None, "Column of groups, such as authors, whose rows are in the same fold.", section="data", needs="folds"
    )

    def check_conditions(self):
        """Same as for other commands; raises an error, too, for an ensemble of folds."""
        super().check_conditions()
        ensemble = getattr(self, "ensemble", 1)
        self.only(not self.folds or ensemble == 1, "without --folds, which keep one model", "ensemble")


class ValidationSplit(CommandArguments):
    """A share of the training data instead of a dev file."""

    validation_split: float = flag(
        None,
        "Share of the rows of --train_file, drawn at random, to select the best run on, such as 0.1.",
        least=0,
        most=1,
        section="data",
        excludes=("dev_file", "folds", "document_context, which reads sentences in their order"),
    )


class Files(CrossValidationFlags, ValidationSplit):
    """The files of a task. `wording` of the command says what they are."""

    train_file: str = flag(None, "Training data{train}.", is_file=True, required=True, section="data")
    dev_file: str = flag(
        None,
        "File to select the best run on{dev}; or --validation_split.",
        is_file=True,
        required="validation_split or folds",
    )


class PredictFile(CommandArguments):
    """The file to predict."""

    predict_file: str = flag(None, "File to predict{predict}.", is_file=True)


class BadRows(CommandArguments):
    """How many rows may be unreadable."""

    skip_bad_rows: int = flag(0, "Maximum number of unreadable rows to skip in train and dev each.", least=0)


class TaskFlags(FinetuningFlags):
    """Flags of a command that fine-tunes on one task, whose settings are a base of the subclass, too.

    Attributes:
        task: the name of the task.
        Settings: the class of its settings, which read the files.
        texts: arguments of `predict` for a model of the task; `None` shows no such command.
    """

    task: typing.ClassVar[str | None] = None
    Settings: typing.ClassVar[type]
    texts: typing.ClassVar[str | None] = None
    open: typing.ClassVar = staticmethod(source)  # Returns the source of a path.

    @functools.cached_property
    def settings(self):
        """The settings of the task."""
        return self.fill(self.Settings)

    @functools.cached_property
    def data(self):
        """The data of all files."""
        files = self.train_and_dev()
        if hasattr(self, "predict_file"):
            files.append(self.predict_file)
        options = {}
        if hasattr(self, "skip_bad_rows"):
            options["skip_bad_rows"] = self.skip_bad_rows
        return self.parted(self.settings.read(*files, **options))

    def train_and_dev(self):
        """Returns the files of both, the same one if it is to be split or divided into folds."""
        if self.validation_split is None and not self.divides:
            return [self.train_file, self.dev_file]
        train = self.open(self.train_file)
        return [train, train]

    def parted(self, data):
        """Returns the rows to train on, the first of those that are not held out, and those to select on."""
        if self.validation_split is not None:
            data = data.split(self.validation_split, self.seed[0])
        return self.divided(data)

    def known_settings(self):
        """Returns settings of the runs by the folder of their output, see `check_known_settings`."""
        is_shared = len(self.models) == 1  # Else the runs differ in it.
        model = self.models[0] if is_shared else None
        settings = self.settings_of_runs(model, self.settings.sequence_length, **self.changes)
        return {self.output: settings}

    def start(self):
        """Returns the `Start` of the runs."""
        head = None
        if not self.is_full:
            head = self.head_of(keras_bert.tasks.task_named(self.task))
        load_options = {}
        if getattr(self, "student_layers", None):
            load_options["num_layers"] = self.student_layers
        return keras_bert.tasks.Start(
            self.model,
            keras_bert.load(self.model, **load_options),
            load_model,
            load_options,
            new_head=bool(getattr(self, "teacher", None)),  # The student learns its head from the teacher's answers.
            head=head,
        )

    def create_task(self):
        """Returns the task."""
        return keras_bert.tasks.task_named(self.task)(self.data, self.start(), self.settings)

    def create_teacher(self, task):
        """Returns the `Teacher` of the task, `None` without one."""
        if not getattr(self, "teacher", None):
            return None
        from keras_bert.tasks.teacher import Teacher

        return Teacher(
            task,
            self.teacher,
            keras_bert.load(self.teacher),
            self.output / "teacher",
            temperature=self.temperature,
            alpha=self.alpha,
        )

    def more(self):
        """Returns more commands to run next."""
        return []


class Distillation(CommandArguments):
    """Flags of distillation. `wording` of a subclass describes the teacher."""

    teacher: str = flag(None, "Directory or name of the teacher, {teacher}.", section="distillation")
    temperature: float = flag(
        2.0, "Divisor of the teacher's and the student's logits.", least=0.01, most=10_000, needs="teacher"
    )
    alpha: float = flag(
        0.5, "Weight of the teacher in the loss; the labels have the rest.", least=0, most=1, needs="teacher"
    )
    student_layers: int = flag(
        None, "Starts from this number of evenly spaced layers of the model.", least=1, excludes=(_ADAPTED,)
    )


class FewExamplesFlags(CommandArguments):
    """How classifiers of few texts are trained."""

    method: str = flag(
        FULL,
        "How to train: the whole model (full); its head alone, in a second (probe); the encoder on pairs of texts, "
        "then the head (contrastive); or the better one of these two on dev or in cross-validation (auto).",
        values=METHODS,
        section="training",
    )

    def check_conditions(self):
        """Same as for other commands; raises an error, too, for flags that the method does not use."""
        super().check_conditions()
        check_method(self.method, self.given)

    def head_of(self, task):
        """Returns the name of the head to train of a class of tasks, `None` for its own."""
        from keras_bert.tasks.few_examples import head_of

        return head_of(task, self.method)


class TableColumns(CommandArguments):
    """Columns of a table of texts with labels."""

    text_column: str = flag(
        None, "Column with the text; default: `text`, or names of GLUE on the hub, such as `sentence1`.", section="data"
    )
    pair_column: str = flag(None, "Column with the second text.")
    label_column: str = flag(
        "label", "Column with the label; for multi_label, with labels separated by |, or columns of 0 and 1."
    )


def load_model(path_or_name, **options):
    """Loads a checkpoint of any model: as `keras_bert.load`, or by the `load` that other models have registered."""
    try:
        return keras_bert.load(path_or_name, **options)
    except other_models.OtherModelError as error:
        load_other = error.models.load
    given = {name: value for name, value in options.items() if value}
    unknown = given.keys() - inspect.signature(load_other).parameters
    if unknown:
        raise ValueError(f"{path_or_name} is not a BERT and does not take {', '.join(sorted(unknown))}")
    return load_other(path_or_name, **given)


def check_task(arguments):
    """Finds mistakes in the files of a task."""
    _ = arguments.data


def finetune(arguments):
    """Trains a task over the grid of `TaskFlags`, and prints the results."""
    strategy = arguments.create_strategy()
    task = arguments.create_task()
    teacher = arguments.create_teacher(task)
    runs = arguments.runs(task, arguments.output, strategy, teacher=teacher)
    predictions = None
    if getattr(arguments, "predict_file", None):
        predictions = task.report.predictions_file
    run_and_print(arguments, runs, arguments.texts, predictions, arguments.more())


def run_and_print(arguments, finetuning, *next_steps):
    """Runs a `Finetuning`, and prints the results; for `next_steps` see `print_next`."""
    if finetuning.grid_runs.write:
        write_text(arguments.output / "flags.txt", arguments.flagfile)
    finetuning.run()
    if finetuning.grid_runs.write:
        print(finetuning.finish())
        print_next(arguments.output, *next_steps)


def print_next(output, texts, predictions=None, more=()):
    """Prints where the results of fine-tuning are, and the next commands; `texts` are arguments of `predict`,
    `None` without such a command.
    """
    if predictions:
        print(f"predictions:  {output / predictions}")
    print(f"report:       {output / 'report.html'}")
    print(f"model:        {output / 'model'}")
    if (output / "adapter").is_dir():
        print(f"adapter:      {output / 'adapter'}")
    print(f"saved model:  {output / 'saved_model'}")
    above = output if output.name in ("", "..") else output.parent  # So that the model has the name of its folder.
    commands = [f"{spelling('serve')} --saved_models={shlex.quote(str(above))}"]
    if texts:
        commands.insert(0, f"{spelling('predict')} --model={shlex.quote(str(output / 'model'))} {texts}")
    label = "next:"
    for text in [*commands, *more]:
        print(f"{label:13} {text}")
        label = ""  # The others stand below the first one.


def read_column(path, name):
    """Returns the values of a column of a file of rows, a ValueError for rows that cannot be read."""
    values = []
    for _, row in source(path).stream([name]):
        values.append(row if isinstance(row, ValueError) else row[name])
    return values


def text_lines(content, name):
    """Splits the bytes of a UTF-8 file into texts, one per line; `name` is that of the file."""
    lines = text_files.split_lines(text_files.decoded(content, name))
    if not lines[-1]:  # What follows the last line break.
        del lines[-1]
    return lines


def words(path):
    """Returns the words of a file, one per line, or `None` without a file."""
    if not path:
        return None
    words_of_file = []
    for _, line in text_files.read_lines(path):
        if line.strip():
            words_of_file.append(line.strip())
    if not words_of_file:
        raise ValueError(f"{path}: the file is empty. Expected one word per line")
    return words_of_file


def phase_settings(texts):
    """Returns the values of `--phases`, such as `length:128,steps:1000,batch:32`, as dicts."""
    return [_one_phase(text) for text in texts or ()]


def _one_phase(text):
    """Returns one phase as a dict with `length`, `steps` and `batch`."""
    phase = {}
    try:
        for setting in text.split(","):
            name, value = setting.split(":")
            phase[name] = int(value)
    except ValueError:
        phase = {}
    if phase.keys() != {"length", "steps", "batch"} or min(phase.values()) < 1:
        raise ValueError(f"--phases must look like length:128,steps:90000,batch:256. Received: {text!r}")
    return phase

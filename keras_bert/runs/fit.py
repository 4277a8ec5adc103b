"""`LoadedBert.fit` and `evaluate`: the tasks and the runs of the commands, on data in Python."""

import contextlib
import copy
import dataclasses
import itertools
import logging
import math
import os
import pathlib
import random
import sys
import tempfile
import threading
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.checkpoints.load import load_models, open_checkpoint
from keras_bert.checkpoints.loaded import LoadedModels
from keras_bert.checks import (
    check_choice,
    check_count,
    check_not_negative,
    hint,
    is_ours,
    plain_number,
    with_plain_numbers,
)
from keras_bert.data import in_memory
from keras_bert.data.batch_source import as_source
from keras_bert.data.sources import PythonRows
from keras_bert.data.splits import Folds, group_values, split_numbers
from keras_bert.files import check_writable, one_writer
from keras_bert.heads.class_settings import placeholders
from keras_bert.heads.confidence import Confidence, checked_confidence
from keras_bert.heads.registry import NO_HEAD, describe, head_named
from keras_bert.metadata import answer_length
from keras_bert.models.tuning import check_frozen
from keras_bert.progress import LogHandler, hidden, quiet_tensorflow
from keras_bert.runs.cross_validation import CrossValidation, FoldsAlone
from keras_bert.runs.finetuning import Finetuning, Plan, Run
from keras_bert.runs.grid import setting_text
from keras_bert.runs.hyperparameters import Hyperparameters
from keras_bert.settings import LongTextSettings, WindowSettings, keywords, needing_held_out
from keras_bert.tasks import confidence, registry
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Start
from keras_bert.tasks.class_names import class_name
from keras_bert.tasks.few_examples import FewExamples, head_of
from keras_bert.tasks.methods import FULL, check_method
from keras_bert.tasks.rows import first_known
from keras_bert.tasks.teacher import Teacher
from keras_bert.text.long_texts import READING, WINDOWS
from keras_bert.training import loss_names
from keras_bert.training.callbacks import check_callbacks
from keras_bert.training.distillation import check_distillation
from keras_bert.training.distribution import KINDS, create_strategy, is_chief
from keras_bert.training.evaluation import Evaluator
from keras_bert.training.seeds import keras_seed, restore_keras_seed, restore_tensorflow_seed, tensorflow_seed

_TRAINED = ", fine-tuned"  # The end of the name of a model that is in no folder.
_LOG = logging.getLogger("keras_bert")
_LOCK = threading.RLock()
_SHOWING, _THREADS, _CONTEXT = threading.Lock(), [], contextlib.ExitStack()  # Of messages.
# Names that other programs use, and what there is in their place.
_HINTS = {name: "`bert.encoder` builds models to compile with your own" for name in ("optimizer", "loss", "metrics")}
_HINTS |= {name: "The classes are those of the targets" for name in ("num_labels", "num_classes", "labels")}
_HINTS |= {
    "remat": "It is one of keras_bert.load(name, remat=True)",
    "stride": "With long_texts='windows', `overlap` is what windows share; for questions it is `doc_stride`",
    "doc_stride": "With long_texts='windows', `overlap` is the number of tokens that windows share",
    "answer_at_precision": "It is for one class or one choice of each text; `calibrate` is for tags and labels, too",
    "threshold": "`answer_at_precision` finds one below which a model of classes does not answer",
    "n_shot": "All rows are trained on; for a few of each class see `method`",
    "cv": "It is called `folds`",
}
_OUT_OF_FOLD = "`check_labels` makes its own predictions, each by a model that was not trained on the row"
_HINTS |= dict.fromkeys(("predictions", "pred_probs", "probabilities", "logits", "model"), _OUT_OF_FOLD)
_DISTILLATION = ("temperature", "alpha")  # Options of `Teacher`.
_DATA = {**dict.fromkeys(("train", "train_file"), "texts"), **dict.fromkeys(("dev", "dev_file"), "validation")}
_FIELDS = tuple(field.name for field in dataclasses.fields(Hyperparameters) if field.name not in ("best", "patience"))


def choices(**values):
    """Returns the values of a grid as lists by name, of `None` an empty one; raises for those that no run can have."""
    listed = {name: _listed(value) for name, value in values.items()}
    for name, numbers in listed.items():
        for value in numbers:
            if name == "learning_rate":
                if callable(value):
                    wanted = "numbers; schedules are for `create_optimizer`"
                    raise ValueError(f"`{name}` must be {wanted}. Received: {name}={value}")
                check_not_negative(name, value)
            else:
                check_count(name, value, least=0 if name == "seed" else 1)
    return listed


def _listed(value):
    value = value.tolist() if hasattr(value, "tolist") else value  # Of NumPy.
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


@dataclasses.dataclass(frozen=True)
class FitData:
    """Texts and targets of `LoadedBert.fit`."""

    task: type  # One of `TASKS`.
    train: PythonRows
    dev: PythonRows  # That of `train` without validation.
    facts: dict  # What to tell about the texts.
    columns: dict = dataclasses.field(default_factory=dict)  # `columns` of the metadata, if the rows have none of them.

    @property
    def held_out(self):
        """Whether the rows of dev are others than those to train on."""
        return self.dev is not self.train


def task_rows(task, place, texts, targets):
    """Returns texts and targets as the rows of a task; messages call them `place`."""
    targets = [None] * len(texts) if targets is None else targets
    pairs = enumerate(zip(texts, targets, strict=True))
    return [task.rows.row(f"{place}[{number}]", *pair) for number, pair in pairs]


def _data_set(texts, targets):
    """Returns the rows of a data set, in the columns of any task; `None` for other data."""
    if in_memory.is_frame(texts) and len(texts) and _is_of_own_task(texts):
        return in_memory.frame_dicts(texts)
    columns, with_targets = [], []
    for task in registry.TASKS:
        columns += task.rows.columns
        for name in task.rows.target_columns:
            with_targets += [{*names, name} for names in task.rows.columns]
    return in_memory.data_set_rows(texts, targets, columns, with_targets)


def _is_of_own_task(frame):
    """Whether a data frame has the columns of a user's task, whatever else they are called."""
    names = set(map(str, frame.columns))
    own = [task for task in registry.TASKS if not is_ours(task)]
    return any(known <= names for task in own for known in task.rows.columns)


def _with_targets(task, place, rows, targets):
    """Returns the rows of a data set, dicts by column, with their targets where the task reads them.

    `targets` are a list, the name of a column, or `None` for those that the task finds.
    """
    if targets is None:
        return rows
    if isinstance(targets, str):
        return [task.rows.with_named_target(row, targets) for row in rows]
    return task_rows(task, place, rows, in_memory.targets_of(rows, targets, place))


def infer_rows(rows, targets=None):
    """Returns the task of rows of a data set, dicts by column: by their columns, or else by their targets.

    `targets` are as in `_with_targets`. Where they are elsewhere, the columns of other targets do not count.
    """
    first = rows[0]
    sizes = {}
    for task in registry.in_order_of_recognition():
        names = first.keys() - _unused_targets(task, targets)
        fitting = [len(known) for known in task.rows.columns if known <= names]
        sizes[task] = max(fitting, default=0)
    best = max(sizes, key=sizes.__getitem__)  # The first one of the largest.
    if sizes[best]:
        return best
    if targets is None or isinstance(targets, str):
        found = [row.get(targets or "label") for row in rows]
    else:
        found = in_memory.targets_of(rows, targets)
        task = registry.recognized(first, found)
        if task is not None:
            return task
    return infer([str(first)[:50]], found)


def _unused_targets(task, targets):
    """Returns the columns of a task that do not count as targets, since the targets are elsewhere."""
    if targets is None:
        return set()
    return {*task.rows.target_columns} - ({targets} if isinstance(targets, str) else set())


def infer(texts, targets):
    """Returns the task of texts and targets."""
    first, example = texts[0], first_known(targets)
    if isinstance(first, str | tuple) and isinstance(example, str | int | float) and None in targets:
        raise ValueError(
            f"targets[{targets.index(None)}] is missing. Expected a target for each text: leave out or fill rows "
            "without one"
        )
    task = registry.recognized(first, targets)
    if task is not None:
        return task
    received = "no targets" if targets is None else f"targets such as {targets[0]!r:.50}"
    raise ValueError(
        f"the task does not follow from the data. Received: texts such as {first!r:.50} with {received}. Expected "
        + "; ".join(f"{task.rows.expects}, task={task.name!r}" for task in registry.TASKS)
    )


def read_data(texts, targets, task, validation, split, seed):
    """Returns the `FitData` of the arguments of `LoadedBert.fit`; `seed` draws the rows of validation."""
    if validation is not None and split is not None:
        raise ValueError("`validation` and `validation_split` exclude each other. Received: both")
    texts = in_memory.listed(texts)
    if (found := _data_set(texts, targets)) is not None:
        return _of_rows(found, targets, task, validation, split, seed)
    column = targets if isinstance(targets, str | int) else None  # Of data frames.
    train = in_memory.read(texts, targets)
    if task is None and targets is None and in_memory.is_frame(texts) and isinstance(train[0][0], tuple):
        raise ValueError(
            "`texts` is a data frame of two columns without targets. Expected the name of the column of the targets, "
            f"fit(frame, {texts.columns[-1]!r}), or task='embedding' for a sentence encoder of pairs"
        )
    task = registry.task_named(task) if task else infer(*train)
    dev = train
    if validation is not None:
        parts = validation if isinstance(validation, tuple) else (validation, column)
        if len(parts) > 2:
            raise ValueError(f"`validation` must be a tuple of texts and targets. Received: {len(parts)} parts")
        if in_memory.is_frame(texts) and in_memory.is_frame(parts[0]):
            parts = (_like(parts[0], texts), *parts[1:])
        dev = in_memory.read(*parts, place="validation")
        if dev[1] is None and train[1] is not None:
            raise ValueError(
                "`validation` must be a tuple of texts and targets. Received: only texts, as "
                f"{type(validation).__name__}"
            )
    elif split is not None:
        train, dev = _split(*train, split, seed)
    are_pairs = in_memory.is_frame(texts) and isinstance(train[0][0], tuple)
    facts = {}
    if are_pairs:
        first, second = in_memory.text_columns(texts, column)
        facts["texts"] = f"pairs of the columns {first!r} and {second!r}"
    source = PythonRows("texts", task_rows(task, "texts", *train))
    return FitData(
        task,
        source,
        source if dev is train else PythonRows("validation", task_rows(task, "validation", *dev)),
        facts,
        {"columns": _frame_columns(task, texts, column, train[0][0])},
    )


def read_intermediate(parts):
    """Returns the `FitData` to train on before: of a tuple of texts and targets, of a list of them, or of `None`."""
    parts = () if parts is None else parts
    if not isinstance(parts, tuple | list):
        expected = "a tuple of texts and targets, or a list of such tuples"
        raise ValueError(f"`intermediate` must be {expected}. Received: {type(parts).__name__}")
    parts = [parts] if isinstance(parts, tuple) and parts else list(parts)
    found = []
    for number, part in enumerate(parts):
        if not isinstance(part, tuple) or len(part) != 2:
            raise ValueError(
                f"`intermediate[{number}]` must be a tuple of texts and targets. Received: {type(part).__name__}"
            )
        found.append(read_data(*part, None, None, None, 1))
    return found


def _frame_columns(task, texts, target, first):
    """Returns the columns of the texts of a data frame by input; `None` for other data."""
    if not in_memory.is_frame(texts):
        return None
    names = list(map(str, in_memory.text_columns(texts, target)))
    if isinstance(first, str) and len(names) == 1:
        return {"text": names[0]}
    if isinstance(first, tuple) and len(names) == 2 and head_named(task.head).takes_pair:
        return {"text": names[0], "pair": names[1]}
    return None


def _of_rows(rows, targets, task, validation, split, seed):
    """Returns the `FitData` of rows of a data set, which the task reads as those of a file."""
    task = registry.task_named(task) if task else infer_rows(rows, targets)
    train = dev = _with_targets(task, "texts", rows, targets)
    if validation is not None:
        column = targets if isinstance(targets, str) else None
        texts, own = validation if isinstance(validation, tuple) and len(validation) == 2 else (validation, column)
        dev = _data_set(in_memory.listed(texts), own)
        if dev is None or (own is None and targets is not None):
            kind = type(validation).__name__
            raise ValueError(f"`validation` must have rows with targets, like `texts`. Received: {kind}")
        dev = list(_with_targets(task, "validation", dev, own))  # Held out, even if it is the list to train on.
    elif split is not None:
        (train, _), (dev, _) = _split(train, None, split, seed)
    source = PythonRows("texts", train)
    return FitData(task, source, source if dev is train else PythonRows("validation", dev), {})


def _like(frame, train):
    """Returns a data frame of validation with the columns of the one to train on, in the same order."""
    names = list(train.columns)
    if [name for name in names if name not in frame.columns]:
        raise ValueError(
            f"`validation` must have the columns of `texts`, {', '.join(map(repr, names))}. Received: "
            f"{', '.join(map(repr, frame.columns))}"
        )
    return frame[names]


def _split(rows, targets, share, seed):
    """Returns the texts and targets to train on, and those of a share of the rows, drawn at random."""
    parts = []
    for numbers in split_numbers(len(rows), share, seed):
        part_targets = None if targets is None else [targets[number] for number in numbers]
        parts.append(([rows[number] for number in numbers], part_targets))
    return parts


@with_plain_numbers
@dataclasses.dataclass(frozen=True, kw_only=True)
class FitArguments:
    """The arguments of `LoadedBert.fit`."""

    texts: Any
    targets: Any
    validation: Any
    validation_split: float | None
    task: str | None
    output_dir: Any
    learning_rate: Any
    batch_size: Any
    epochs: Any
    seed: Any
    sequence_length: int | None
    patience: int | None
    callbacks: Any
    strategy: Any
    teacher: Any
    intermediate: Any
    folds: int | None
    groups: Any
    method: str
    verbose: bool
    options: dict  # Those of `Hyperparameters`, of the task and of a teacher.


def fit(bert, given):
    """Returns the trained model, see `LoadedBert.fit`; `given` are the `FitArguments`."""
    with _prepared(bert, given) as finetuning:
        finetuning.run()
        if given.output_dir and finetuning.grid_runs.write:
            _LOG.info("%s", finetuning.finish())
        name = f"{bert.name.removesuffix(_TRAINED)}{_TRAINED}"
        trained = _trained(type(bert), finetuning, str(finetuning.output / "model") if given.output_dir else name)
        evaluated_on = "training data" if isinstance(finetuning, FinetuningOnAll) else "validation"
        trained.results["evaluated_on"] = evaluated_on if finetuning.plan.folds is None else finetuning.evaluated_on
        return trained


def check_labels(bert, given):
    """Returns the labels as dicts, the most doubtful first, see `LoadedBert.check_labels`."""
    for name in ("validation", "validation_split", "patience"):
        if name in given.options:
            raise ValueError(
                f"`{name}`: `check_labels` predicts each text by a model that was trained on others of the texts. "
                f"Expected no `{name}`; `folds` is the number of parts"
            )
    with _prepared(bert, given, FoldsAlone) as finetuning:
        finetuning.run()
        _tell_scores_of_folds(finetuning)
        return [check.to_dict() for check in finetuning.label_checks()]


def _tell_scores_of_folds(finetuning):
    """Logs the scores of predictions by which labels are ranked, and warns if they are no better than guesses."""
    _, scores = _best(finetuning)
    _LOG.info("  scores on %s: %s", finetuning.evaluated_on, data_summary.listed(scores))
    report = finetuning.task.report
    warning = data_summary.beside_guesses(report.summary, report.metric, scores, finetuning.is_held_out)
    if warning:
        _LOG.warning("the order of the labels says little: %s", warning)


def _best(finetuning):
    """Returns the best result of finished runs, with folds that of all of them, and its scores without losses."""
    first = finetuning.grid_runs.best()[0]  # With folds, the first one.
    best = finetuning.grid_runs.to_json()["best"] if finetuning.plan.folds else first
    losses = loss_names.names_of(first, first["scores"])
    return best, {name: value for name, value in best["scores"].items() if name not in losses}


@contextlib.contextmanager
def _prepared(bert, given, cross_validation=CrossValidation):
    """Yields the `Finetuning` of `LoadedBert.fit`, with folds one of the class `cross_validation`."""
    grid = choices(learning_rate=given.learning_rate, batch_size=given.batch_size, epochs=given.epochs, seed=given.seed)
    texts, groups = without_groups(given.texts, given.groups, given.targets)
    first_seed = (grid["seed"] or [1])[0]
    data = read_data(texts, given.targets, given.task, given.validation, given.validation_split, first_seed)
    if isinstance(given.groups, str) and given.groups not in in_memory.column_names(texts):
        data = dataclasses.replace(
            data, facts={**data.facts, "groups": f"the column {given.groups!r}, which is no text"}
        )
    intermediate = read_intermediate(given.intermediate)
    given = dataclasses.replace(given, groups=groups)
    with _planned(bert, data, intermediate, grid, given) as plan:
        yield _finetuning(plan, data.held_out, cross_validation)


@contextlib.contextmanager
def _planned(bert, data, intermediate, grid, given):
    """Yields the `Plan` of training on a `FitData`, before on a list of others, with the settings of a grid."""
    output_dir, patience, strategy = given.output_dir, given.patience, given.strategy
    sequence_length, options = given.sequence_length, given.options
    callbacks = keras.tree.flatten(given.callbacks or [])
    check_callbacks(callbacks)
    _check_trainable(bert)
    if patience is not None and not data.held_out:
        raise ValueError(f"`patience` needs `validation` or `validation_split`. Received: patience={patience}")
    distillation = {}
    if given.teacher is not None:
        distillation = {name: options[name] for name in _DISTILLATION if name in options}
        options = {name: value for name, value in options.items() if name not in distillation}
        check_distillation(**distillation)
        _check_is_model(given.teacher)
    shared, own = _split_options(data.task, options, bert)
    if not data.held_out and given.folds is None:
        _check_no_held_out(data.task.Settings(**own))
    folds = _folds(data, given)
    head = _head_of_method(data.task, given)
    shared = {
        "precision": bert.encoder.get_layer("token_embedding").dtype_policy.name,
        "best": data.held_out and given.method == FULL,
        "patience": patience,
        **shared,
    }
    hyperparameters = Hyperparameters(**shared)
    _check_precision(hyperparameters.precision)
    check_frozen(hyperparameters.freeze_layers or 0, bert.config.num_hidden_layers)
    if sequence_length:
        bert.preprocessor(sequence_length, long_texts=None)  # Raises an error if the model has fewer positions.
    if isinstance(strategy, str):
        check_choice("strategy", strategy, KINDS)
        strategy = create_strategy(strategy)
    if output_dir:
        output_dir = pathlib.Path(output_dir).expanduser()
        check_writable(output_dir)
    write = strategy is None or is_chief(strategy)
    with (
        _kept_random_numbers(),
        messages(given.verbose),
        one_writer(output_dir, write),
        tempfile.TemporaryDirectory() as folder,
    ):
        made = make_task(data, bert, sequence_length, own, new_head=given.teacher is not None, head=head)
        few_examples = None
        if given.method != FULL:
            few_examples = FewExamples(made, given.method, folds)
            folds = few_examples.folds
        output = output_dir or pathlib.Path(folder) / "run"
        teacher = None
        if given.teacher is not None:
            teacher = _teacher(made, given.teacher, output / "teacher", distillation)
        yield Plan(
            made,
            (few_examples or made.training).choices(**grid),
            hyperparameters,
            output,
            strategy=strategy,
            report_to=("tensorboard",) if output_dir else (),
            callbacks=tuple(callbacks),
            save_every=None if output_dir else 0,
            counts_earlier=False,
            data_names=_DATA,
            columns=data.columns,
            teacher=teacher,
            folds=folds,
            few_examples=few_examples,
            intermediate=tuple(make_task(part, bert, sequence_length, _reading_of(part, own)) for part in intermediate),
            source=data.train,
        )


def _check_no_held_out(settings):
    """Raises for a setting that is chosen on rows that the model is not trained on, without such rows."""
    names = needing_held_out(settings)
    if names:
        raise ValueError(
            f"`{names[0]}` needs rows that the model is not trained on: `validation`, `validation_split` or `folds`. "
            f"Received: {names[0]}={getattr(settings, names[0])!r}"
        )


def _head_of_method(task, given):
    """Returns the name of the head that the method of `LoadedBert.fit` trains, `None` for the task's own."""
    arguments = dict(given.options)
    for name in ("learning_rate", "batch_size", "epochs", "teacher", "intermediate", "patience"):
        arguments[name] = getattr(given, name)
    check_method(given.method, [name for name, value in arguments.items() if _is_given(value)])
    return head_of(task, given.method)


def _is_given(value):
    """Whether the value of an argument is another than that of one that is left out."""
    return value is not None and value is not False and not (isinstance(value, list | tuple) and not value)


def _folds(data, given):
    """Returns the `Folds` of `LoadedBert.fit`, `None` without them."""
    if given.folds is None:
        if given.groups is not None:
            raise ValueError("`groups` are those of a cross-validation. Expected `folds`, too, such as folds=5")
        return None
    if data.held_out:
        raise ValueError("`folds` and `validation` exclude each other. Received: both")
    return Folds(given.folds, given.groups)


def _finetuning(plan, held_out, cross_validation):
    """Returns the `Finetuning` of a plan, with folds one of the class `cross_validation`."""
    if plan.folds is not None:
        return cross_validation(plan)
    return Finetuning(plan) if held_out else FinetuningOnAll(plan)


def without_groups(texts, groups, targets=None):
    """Returns the texts, and the groups as a list of values of JSON or `None`; groups may be a column of the texts.

    The column stays in the texts if it has a usual name of texts, or if it is the only one but that of the targets.
    """
    if not isinstance(groups, str):
        return texts, None if groups is None else group_values(groups)
    texts = in_memory.listed(texts)
    names = in_memory.column_names(texts)
    if groups not in names:
        raise ValueError(f"`groups` must be a column of `texts`, or a list. Received: groups={groups!r}")
    values = group_values(in_memory.column(texts, groups))
    text_names, target_names = set(in_memory.TEXTS), set()
    for task in registry.TASKS:
        text_names.update(*task.rows.columns)
        target_names.update(task.rows.target_columns)
    text_names -= target_names
    if targets is not None:
        target_names = {targets} if isinstance(targets, str) else set()
    others = set(names) - {groups} - target_names
    if groups in text_names | target_names or not others:
        return texts, values
    return in_memory.without_column(texts, groups), values


def _check_precision(precision):
    try:
        keras.dtype_policies.get(precision)
    except (ValueError, TypeError):
        known = "the name of a dtype policy of Keras, such as 'float32' or 'mixed_bfloat16'"
        raise ValueError(f"`precision` must be {known}. Received: precision={precision!r}") from None


def _check_trainable(bert):
    if "trainable" in vars(bert) or not all(layer.trainable for layer in bert.encoder.layers):
        raise ValueError("`fit` trains a new model, which does not know of `trainable`. Expected freeze_layers=...")
    if any(layer.quantization_mode for layer in bert.encoder._flatten_layers()):
        raise ValueError("`fit` trains floats. Expected a model without quantize(), and a dtype other than int8")


def _check_is_model(teacher):
    if not isinstance(teacher, str | os.PathLike | LoadedModels):
        expected = "a trained model, as `fit` and `load` return it, or its directory or name"
        raise ValueError(f"`teacher` must be {expected}. Received: teacher={teacher!r:.100}")


def _teacher(task, teacher, folder, options):
    """Returns the `Teacher` of a task, a model or its name; its outputs are kept in a folder."""
    if isinstance(teacher, str | os.PathLike):
        teacher = load_models(teacher)
    return Teacher(task, teacher.name, teacher, folder, **options)


def make_task(data, bert, length, options, new_head=False, head=None):
    """Returns the task of `fit`, whose runs start from the model in its present state."""
    if bert.head != NO_HEAD and not data.task.trains(bert.head) and head is None:
        _LOG.info("  head: a new one, %s, in place of %s", data.task.head, bert.head)
    for title, text in data.facts.items():
        _LOG.info("  %s: %s", title, text)
    start = LoadedModels(bert.checkpoint())
    settings = _settings(data.task, bert, length, options)
    read = data.task.rows.read(data.train, data.dev, settings, name=data.task.name)
    return data.task(read, Start(bert.name, start, _loader(bert, start), new_head=new_head, head=head), settings)


def _reading_of(data, options):
    """Returns how the texts of intermediate data are read that are too long: as those of the task, if they can be."""
    if not issubclass(data.task.Settings, LongTextSettings):
        return {}
    if options.get("long_texts") == WINDOWS and not issubclass(data.task.Settings, WindowSettings):
        return {}
    known = keywords(data.task.Settings)
    return {name: options[name] for name in READING if name in options and name in known}


def _settings(task, bert, length, options):
    """Returns the settings of a task; by default, sequences have at most the positions of the model."""
    settings = task.Settings(**{name: plain_number(value) for name, value in options.items()})
    own = settings.sequence_length and min(settings.sequence_length, bert.config.max_position_embeddings)
    return dataclasses.replace(settings, sequence_length=plain_number(length) or own)


def _trained(kind, finetuning, name):
    """Returns the best model of finished runs, an object of the class `kind`, under a name."""
    grid_runs = finetuning.grid_runs
    first = grid_runs.best()[0]  # With folds, the first one.
    best, scores = _best(finetuning)
    found = data_summary.listed(scores)
    if finetuning.hyperparameters.best:
        found += f"; best epoch {best['epoch']} of {best['setting']['epochs']}"
    if len(grid_runs.results) > 1 and finetuning.plan.folds is None:
        found += f"; the best of {len(grid_runs.results)} runs, {setting_text(best['setting'])}"
    if finetuning.results is None:  # Which `finish` has not shown.
        _LOG.info("  scores on %s: %s", finetuning.evaluated_on, found)
        report = finetuning.task.report
        warning = data_summary.beside_guesses(report.summary, report.metric, scores, finetuning.is_held_out)
        if warning:
            _LOG.warning("%s", warning)
    curves = grid_runs.curves()[grid_runs.folder(first["setting"]).name]
    trained = kind(open_checkpoint(finetuning.output / "model"), dtype=finetuning.hyperparameters.precision)
    trained.keep_in_memory(name)
    trained.results = {**best, "history": _history(curves, first), "runs": grid_runs.results}
    return trained


def _history(lines, result):
    """Returns a dict for each epoch: the mean `loss` of training and, after an evaluation, its results as `val_...`.

    `lines` are those of the `metrics.jsonl` of a run, given its result.
    """
    epochs = result.get("epoch", 1)  # A head alone has none.
    losses = loss_names.names_of(result, result["scores"])
    train = [line for line in lines if line["kind"] == "train"]
    evaluations = [line for line in lines if line["kind"] == "evaluation"]
    ends = [line["step"] for line in evaluations]
    ends = ends or [max(line["step"] for line in train) * epoch // epochs for epoch in range(1, epochs + 1)]
    history = []
    for epoch, (start, end) in enumerate(itertools.pairwise([0, *ends]), 1):
        logged = [line for line in train if start < line["step"] <= end]
        values = [loss_names.with_total(line, losses)["loss"] for line in logged]
        results = loss_names.with_total(evaluations[epoch - 1], losses) if evaluations else {}
        results = {f"val_{name}": value for name, value in results.items() if name not in ("step", "kind")}
        history.append({"epoch": epoch, "loss": sum(values) / len(values) if values else math.nan, **results})
    return history


def evaluate(bert, texts, targets=None, *, sequence_length=None, verbose=True, **options):
    """See `LoadedBert.evaluate`."""
    task = registry.task_of(bert)
    if task is None:
        raise ValueError(
            "`evaluate` needs a model with the head of a task, which was fine-tuned, see `fit`. "
            f"Received: head={bert.head!r}"
        )
    texts = in_memory.listed(texts)
    if task.rows.convert is None:  # Which decides itself what it reads.
        texts = in_memory.with_known_texts(texts, targets, bert.columns)
    rows = _data_set(texts, targets)
    if rows is None:
        texts, targets = in_memory.read(texts, targets)
        if targets is None and task.rows.needs_targets:
            raise ValueError("`evaluate` needs `targets`, one for each text, as in `fit`. Received: targets=None")
        rows = task_rows(task, "texts", texts, targets)
    else:
        rows = _with_targets(task, "texts", rows, targets)
    labels = _classes(bert) if head_named(bert.head).has_classes else None
    if unknown := options.keys() - set(keywords(task.Settings)):
        known = sorted(keywords(task.Settings))
        raise ValueError(f"the task {task.name} has no option {sorted(unknown)[0]!r}. Expected one of: {known}")
    # Nothing is trained: if the classes are known, two rows do.
    few = slice(None if task.rows.needs_train or "class_weight" in options else 2)
    options = {
        **(bert.task_settings or {}),
        **({} if bert.thresholds is None else {"threshold": bert.thresholds}),
        **options,
    }
    settings = _settings(task, bert, answer_length(bert, sequence_length), options)
    if names := needing_held_out(settings):
        raise ValueError(f"`{names[0]}` is an option of `fit`, which stores what it chooses. Received: {options}")
    if hasattr(settings, "null_threshold"):  # Without one, `predict` answers every question.
        threshold = math.inf if bert.null_threshold is None else bert.null_threshold
        settings = dataclasses.replace(settings, null_threshold=threshold)
    with messages(verbose):
        train, dev = PythonRows("texts", rows[few]), PythonRows("texts", rows)
        bert = copy.copy(bert)
        bert.labels = labels  # Tasks keep the head of a model with the same classes.
        made = task(task.rows.read(train, dev, settings, labels, task.name), Start(bert.name, bert), settings)
        training, report = made.training, made.report
        sure = None
        if bert.confidence is not None:
            fields = head_named(bert.head).confidence_fields(describe(bert.model()))
            sure = Confidence.of(checked_confidence(bert.confidence, fields))
        evaluator = Evaluator(training.own_model(bert), tf.distribute.get_strategy(), training.losses)
        outputs, golds, results = evaluator.outputs(as_source(made.dev, finite=True), with_losses=True)
        judged = outputs
        if bert.multi_label:  # Thresholds are those of the answered probabilities.
            judged = confidence.scaled(outputs, head_named(bert.head).classes, sure)
        found = {**results, **report.score(golds, judged)}
        if sure is not None:
            found |= confidence.scores(sure, report.decisions(report.dev_logits(lambda _: outputs)))
        return {name: float(value) for name, value in found.items()}


class _TrainedOnAll(Run):
    """Keeps the weights of the last epoch; the scores are those on the training data."""

    def finish(self):
        stages = self.stages()
        dev = stages[-1].dev
        stages[-1] = dataclasses.replace(stages[-1], dev=None)
        trainer, result = self.train(stages)
        result["scores"], outputs = trainer.evaluate_with_outputs(dev)
        kept = {id(dev): outputs, id(self.task.dev): outputs}

        def predict(batches):
            return kept.get(id(batches)) or trainer.predict(batches)

        return trainer, result, {"dev": self.task.report.dev_logits(predict), "test": {}}


class FinetuningOnAll(Finetuning):
    """Runs without validation: all rows are trained on."""

    run_class, evaluated_on = _TrainedOnAll, "the training data"


def _loader(bert, start):
    """Returns the function that loads the start model from memory, and everything else by its name."""

    def load_again(name, dtype=None, **options):
        if name == bert.name:
            return LoadedModels(start.checkpoint(), dtype=dtype, **bert.encoder_options, **options)
        return load_models(name, dtype=dtype, **options)

    return load_again


def _classes(bert):
    """Returns the classes of a model, as tasks name them; `None` for regression."""
    logits = bert.model().output.get("logits")
    count = len(bert.labels or ()) if logits is None else logits.shape[-1]
    return list(map(class_name, bert.labels or placeholders(count))) if count > 1 or bert.multi_label else None


def _split_options(task, options, bert):
    """Returns the options of all runs and those of the task; raises for others."""
    shared = {name: value for name, value in options.items() if name in _FIELDS}
    own = {name: value for name, value in options.items() if name in keywords(task.Settings)}
    if unknown := sorted(options.keys() - shared.keys() - own.keys()):
        known = ["targets", *type(bert).fit.__kwdefaults__, *_FIELDS, *sorted(keywords(task.Settings))]
        more = hint(unknown[0], known, _HINTS)
        raise ValueError(f"`fit` has no option {unknown[0]!r} for the task {task.name}. {more}")
    return shared, own


@contextlib.contextmanager
def _kept_random_numbers():
    """Keeps the random numbers of Python, NumPy, Keras and TensorFlow for the program.

    Ops of TensorFlow that have a seed of their own start again from it, as after `tf.random.set_seed`. Random numbers
    belong to the whole program: of several threads, one is in the block.
    """
    with _LOCK:
        python, numpy = random.getstate(), np.random.get_state()
        of_keras, of_tensorflow = keras_seed(), tensorflow_seed()
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
            restore_tensorflow_seed(of_tensorflow)
            restore_keras_seed(of_keras)


@contextlib.contextmanager
def messages(verbose):
    """Shows what the commands show, on standard output; without `verbose` only warnings."""
    with _shown() if verbose else hidden(), quiet_tensorflow():
        yield


@contextlib.contextmanager
def _shown():
    """Shows messages and progress on standard output, until the last of several threads leaves the block."""
    with _SHOWING:
        if not _THREADS:
            _CONTEXT.enter_context(_on_standard_output())
        _THREADS.append(True)
    try:
        yield
    finally:
        with _SHOWING:
            _THREADS.pop()
            if not _THREADS:
                _CONTEXT.close()


@contextlib.contextmanager
def _on_standard_output():
    level, propagates, handler = _LOG.level, _LOG.propagate, LogHandler(sys.stdout)
    # A handler alone shows nothing: TensorFlow adds one when it first saves a model in a program that has none.
    configured = _LOG.hasHandlers() and _LOG.isEnabledFor(logging.INFO)  # By the user.
    with contextlib.redirect_stderr(sys.stdout):
        if not configured:
            _LOG.addHandler(handler)
            _LOG.setLevel(logging.INFO)
            _LOG.propagate = False
        try:
            yield
        finally:
            _LOG.removeHandler(handler)
            _LOG.setLevel(level)
            _LOG.propagate = propagates

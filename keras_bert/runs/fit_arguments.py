"""Checks of the arguments of `LoadedBert.fit`, before a task is made of its data."""

import dataclasses
import pathlib
from typing import Any

import keras

from keras_bert.checks import check_choice, check_count, check_not_negative, hint
from keras_bert.data.splits import Folds
from keras_bert.files import check_writable
from keras_bert.models.tuning import check_frozen
from keras_bert.runs.fit_task import check_teacher
from keras_bert.runs.hyperparameters import Hyperparameters
from keras_bert.settings import keywords, needing_held_out
from keras_bert.tasks.few_examples import head_of
from keras_bert.tasks.methods import FULL, check_method
from keras_bert.training.callbacks import check_callbacks
from keras_bert.training.distillation import check_distillation
from keras_bert.training.distribution import KINDS, create_strategy, is_chief

# Names that other programs use, and what there is in their place.
_HINTS = {
    "optimizer": "`bert.encoder` builds models to compile with your own",
    "loss": "`bert.encoder` builds models to compile with your own",
    "metrics": "`bert.encoder` builds models to compile with your own",
    "num_labels": "The classes are those of the targets",
    "num_classes": "The classes are those of the targets",
    "labels": "The classes are those of the targets",
    "remat": "It is one of keras_bert.load(name, remat=True)",
    "stride": "With long_texts='windows', `overlap` is what windows share; for questions it is `doc_stride`",
    "doc_stride": "With long_texts='windows', `overlap` is the number of tokens that windows share",
    "answer_at_precision": "It is for one class or one choice of each text; `calibrate` is for tags and labels, too",
    "threshold": "`answer_at_precision` finds one below which a model of classes does not answer",
    "n_shot": "All rows are trained on; for a few of each class see `method`",
    "cv": "It is called `folds`",
}
_OUT_OF_FOLD = "`check_labels` makes its own predictions, each by a model that was not trained on the row"
_PREDICTIONS = ("predictions", "pred_probs", "probabilities", "logits", "model")
_HINTS |= dict.fromkeys(_PREDICTIONS, _OUT_OF_FOLD)
_DISTILLATION = ("temperature", "alpha")  # Options of `Teacher`.
# Fields of `Hyperparameters` that `fit` decides or takes as an argument of its own.
_NO_OPTIONS = ("best", "patience")
_ALL_FIELDS = [field.name for field in dataclasses.fields(Hyperparameters)]
_FIELDS = [name for name in _ALL_FIELDS if name not in _NO_OPTIONS]


def grid_choices(**values):
    """Returns the values of a grid as lists by name, of `None` an empty one; raises for those that no run can have."""
    choices = {}
    for name, value in values.items():
        choices[name] = _as_list(value)
    for name, numbers in choices.items():
        for number in numbers:
            _check_grid_number(name, number)
    return choices


def _as_list(value):
    """Returns the values of one argument of the grid, a number, a list, an array or `None`, as a list."""
    if hasattr(value, "tolist"):  # Of NumPy.
        value = value.tolist()
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return list(value)
    return [value]


def _check_grid_number(name, number):
    """Raises for a number of the grid that no run can have."""
    if name != "learning_rate":
        check_count(name, number, least=0 if name == "seed" else 1)
        return
    if callable(number):
        expected = "numbers; schedules are for `create_optimizer`"
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={number}")
    check_not_negative(name, number)


@dataclasses.dataclass(frozen=True)
class CheckedArguments:
    """Arguments of `LoadedBert.fit` that were checked, and its options by what they are for."""

    callbacks: tuple
    hyperparameters: Hyperparameters
    task_options: dict
    teacher_options: dict
    folds: Folds | None
    head: str | None  # That of the method, `None` for the task's own.
    strategy: Any
    output_dir: pathlib.Path | None

    @property
    def writes(self):
        """Whether this process writes files: of several workers, one does."""
        return self.strategy is None or is_chief(self.strategy)


def check_arguments(bert, data, arguments):
    """Returns the `CheckedArguments` of `FitArguments` for a `FitData`; raises for those that do not fit it."""
    callbacks = keras.tree.flatten(arguments.callbacks or [])
    check_callbacks(callbacks)
    _check_trainable(bert)
    patience = arguments.patience
    if patience is not None and not data.held_out:
        raise ValueError(f"`patience` needs `validation` or `validation_split`. Received: patience={patience}")
    teacher_options = {}
    if arguments.teacher is not None:
        teacher_options = _teacher_options(arguments)
    shared, task_options = _split_options(bert, data.task, arguments.options, teacher_options)
    if not data.held_out and arguments.folds is None:
        _check_no_held_out(data.task.Settings(**task_options))
    folds = _folds(data, arguments)
    head = _head_of_method(data.task, arguments)
    hyperparameters = _hyperparameters(bert, data, arguments, shared)
    if arguments.sequence_length:
        # Raises an error if the model has fewer positions.
        bert.preprocessor(arguments.sequence_length, long_texts=None)
    return CheckedArguments(
        callbacks=tuple(callbacks),
        hyperparameters=hyperparameters,
        task_options=task_options,
        teacher_options=teacher_options,
        folds=folds,
        head=head,
        strategy=_strategy(arguments.strategy),
        output_dir=_output_dir(arguments.output_dir),
    )


def _check_trainable(bert):
    """Raises for a model that `fit` would train otherwise than it is set."""
    if "trainable" in vars(bert) or not all(layer.trainable for layer in bert.encoder.layers):
        raise ValueError("`fit` trains a new model, which does not know of `trainable`. Expected freeze_layers=...")
    if any(layer.quantization_mode for layer in bert.encoder._flatten_layers()):
        raise ValueError("`fit` trains floats. Expected a model without quantize(), and a dtype other than int8")


def _teacher_options(arguments):
    """Returns the options of the teacher; raises for what is no teacher."""
    options = {name: arguments.options[name] for name in _DISTILLATION if name in arguments.options}
    check_distillation(**options)
    check_teacher(arguments.teacher)
    return options


def _split_options(bert, task, options, teacher_options):
    """Returns the options of all runs and those of the task, besides those of the teacher; raises for others."""
    known_of_task = keywords(task.Settings)
    shared = {}
    task_options = {}
    unknown = []
    for name, value in options.items():
        if name in teacher_options:
            continue
        if name in _FIELDS:
            shared[name] = value
        if name in known_of_task:
            task_options[name] = value
        if name not in _FIELDS and name not in known_of_task:
            unknown.append(name)
    if unknown:
        first = min(unknown)
        known = ["targets", *type(bert).fit.__kwdefaults__, *_FIELDS, *sorted(known_of_task)]
        more = hint(first, known, _HINTS)
        raise ValueError(f"`fit` has no option {first!r} for the task {task.name}. {more}")
    return shared, task_options


def _check_no_held_out(settings):
    """Raises for a setting that is chosen on rows that the model is not trained on, without such rows."""
    names = needing_held_out(settings)
    if names:
        raise ValueError(
            f"`{names[0]}` needs rows that the model is not trained on: `validation`, `validation_split` or `folds`. "
            f"Received: {names[0]}={getattr(settings, names[0])!r}"
        )


def _folds(data, arguments):
    """Returns the `Folds` of `LoadedBert.fit`, `None` without them."""
    if arguments.folds is None:
        if arguments.groups is not None:
            raise ValueError("`groups` are those of a cross-validation. Expected `folds`, too, such as folds=5")
        return None
    if data.held_out:
        raise ValueError("`folds` and `validation` exclude each other. Received: both")
    return Folds(arguments.folds, arguments.groups)


def _head_of_method(task, arguments):
    """Returns the name of the head that the method of `LoadedBert.fit` trains, `None` for the task's own."""
    values = dict(arguments.options)
    for name in ("learning_rate", "batch_size", "epochs", "teacher", "intermediate", "patience"):
        values[name] = getattr(arguments, name)
    given = [name for name, value in values.items() if _is_given(value)]
    check_method(arguments.method, given)
    return head_of(task, arguments.method)


def _is_given(value):
    """Whether the value of an argument is another than that of one that is left out."""
    if value is None or value is False:
        return False
    is_empty = isinstance(value, list | tuple) and not value
    return not is_empty


def _hyperparameters(bert, data, arguments, shared):
    """Returns the `Hyperparameters` of all runs, given the options that are theirs."""
    defaults = {
        "precision": bert.encoder.get_layer("token_embedding").dtype_policy.name,
        "best": data.held_out and arguments.method == FULL,
        "patience": arguments.patience,
    }
    hyperparameters = Hyperparameters(**(defaults | shared))
    _check_precision(hyperparameters.precision)
    check_frozen(hyperparameters.freeze_layers or 0, bert.config.num_hidden_layers)
    return hyperparameters


def _check_precision(precision):
    """Raises for what is no dtype policy of Keras."""
    try:
        keras.dtype_policies.get(precision)
    except (ValueError, TypeError):
        expected = "the name of a dtype policy of Keras, such as 'float32' or 'mixed_bfloat16'"
        raise ValueError(f"`precision` must be {expected}. Received: precision={precision!r}") from None


def _strategy(strategy):
    """Returns a strategy that may be given by its name."""
    if not isinstance(strategy, str):
        return strategy
    check_choice("strategy", strategy, KINDS)
    return create_strategy(strategy)


def _output_dir(path):
    """Returns the folder of the runs, `None` without one; raises if it cannot be written to."""
    if not path:
        return None
    folder = pathlib.Path(path).expanduser()
    check_writable(folder)
    return folder

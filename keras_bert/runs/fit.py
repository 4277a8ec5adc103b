"""`LoadedBert.fit` and `check_labels`: the runs of the commands, on data in Python."""

import contextlib
import dataclasses
import logging
import pathlib
import tempfile
from typing import Any

from keras_bert.checks import with_plain_numbers
from keras_bert.data import in_memory
from keras_bert.files import one_writer
from keras_bert.runs.cross_validation import CrossValidation, FoldsAlone
from keras_bert.runs.finetuning import Finetuning, Plan
from keras_bert.runs.fit_arguments import check_arguments, grid_choices
from keras_bert.runs.fit_data import read_data, read_intermediate, without_groups
from keras_bert.runs.fit_messages import kept_random_numbers, messages
from keras_bert.runs.fit_results import log_scores_of_folds, trained_model
from keras_bert.runs.fit_task import make_intermediate_task, make_task, make_teacher
from keras_bert.runs.without_validation import FinetuningOnAll
from keras_bert.tasks.few_examples import FewExamples
from keras_bert.tasks.methods import FULL

_LOG = logging.getLogger("keras_bert")
# What messages call the data, by their names among the settings that all runs share.
_DATA_NAMES = {
    "train": "texts",
    "train_file": "texts",
    "dev": "validation",
    "dev_file": "validation",
}


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


def fit(bert, arguments):
    """Returns the trained model, see `LoadedBert.fit`; `arguments` are the `FitArguments`."""
    with _prepared(bert, arguments, CrossValidation) as finetuning:
        finetuning.run()
        if arguments.output_dir and finetuning.grid_runs.write:
            _LOG.info("%s", finetuning.finish())
        return trained_model(bert, finetuning, arguments.output_dir)


def check_labels(bert, arguments):
    """Returns the labels as dicts, the most doubtful first, see `LoadedBert.check_labels`."""
    for name in ("validation", "validation_split", "patience"):
        if name in arguments.options:
            raise ValueError(
                f"`{name}`: `check_labels` predicts each text by a model that was trained on others of the texts. "
                f"Expected no `{name}`; `folds` is the number of parts"
            )
    with _prepared(bert, arguments, FoldsAlone) as finetuning:
        finetuning.run()
        log_scores_of_folds(finetuning)
        return [check.to_dict() for check in finetuning.label_checks()]


@contextlib.contextmanager
def _prepared(bert, arguments, cross_validation):
    """Yields the `Finetuning` of `LoadedBert.fit`, with folds one of the class `cross_validation`."""
    grid = grid_choices(
        learning_rate=arguments.learning_rate,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        seed=arguments.seed,
    )
    texts, groups = without_groups(arguments.texts, arguments.groups, arguments.targets)
    first_seed = grid["seed"][0] if grid["seed"] else 1
    data = _read_data(arguments, texts, first_seed)
    intermediate = read_intermediate(arguments.intermediate)
    checked = check_arguments(bert, data, dataclasses.replace(arguments, groups=groups))
    with (
        kept_random_numbers(),
        messages(arguments.verbose),
        one_writer(checked.output_dir, checked.writes),
        tempfile.TemporaryDirectory() as temporary,
    ):
        output = checked.output_dir or pathlib.Path(temporary) / "run"
        plan = _plan(bert, data, intermediate, grid, arguments, checked, output)
        if plan.folds is not None:
            yield cross_validation(plan)
        elif data.held_out:
            yield Finetuning(plan)
        else:
            yield FinetuningOnAll(plan)


def _read_data(arguments, texts, seed):
    """Returns the `FitData` of the arguments, whose texts may have lost the column of the groups."""
    data = read_data(
        texts,
        arguments.targets,
        arguments.task,
        validation=arguments.validation,
        split=arguments.validation_split,
        seed=seed,
    )
    groups = arguments.groups
    if isinstance(groups, str) and groups not in in_memory.column_names(texts):
        facts = data.facts | {"groups": f"the column {groups!r}, which is no text"}
        data = dataclasses.replace(data, facts=facts)
    return data


def _plan(bert, data, intermediate, grid, arguments, checked, output):
    """Returns the `Plan` of training on a `FitData`, before on a list of others, with the settings of a grid."""
    has_teacher = arguments.teacher is not None
    task = make_task(
        data,
        bert,
        arguments.sequence_length,
        checked.task_options,
        new_head=has_teacher,
        head=checked.head,
    )
    if arguments.method == FULL:
        few_examples = None
        folds = checked.folds
    else:
        few_examples = FewExamples(task, arguments.method, checked.folds)
        folds = few_examples.folds
    teacher = None
    if has_teacher:
        teacher = make_teacher(task, arguments.teacher, output / "teacher", checked.teacher_options)
    choosing = task.training if few_examples is None else few_examples
    choices = choosing.choices(**grid)
    earlier = []
    for part in intermediate:
        options = checked.task_options
        earlier.append(make_intermediate_task(part, bert, arguments.sequence_length, options))
    keeps_files = checked.output_dir is not None
    return Plan(
        task,
        choices,
        checked.hyperparameters,
        output,
        strategy=checked.strategy,
        report_to=("tensorboard",) if keeps_files else (),
        callbacks=checked.callbacks,
        save_every=None if keeps_files else 0,
        counts_earlier=False,
        data_names=_DATA_NAMES,
        columns=data.columns,
        teacher=teacher,
        folds=folds,
        few_examples=few_examples,
        intermediate=tuple(earlier),
        source=data.train,
    )

"""The list of tasks, in the order in which messages name them and in which data is recognized."""

import dataclasses
import functools

from keras_bert.checks import is_ours, similar
from keras_bert.heads.registry import NO_HEAD
from keras_bert.tasks.base import Task
from keras_bert.tasks.classification.multi_label_task import MultiLabelTask
from keras_bert.tasks.classification.task import ClassificationTask, RegressionTask
from keras_bert.tasks.embedding.task import EmbeddingTask
from keras_bert.tasks.multiple_choice.task import MultipleChoiceTask
from keras_bert.tasks.questions.task import QuestionAnsweringTask
from keras_bert.tasks.rows import not_registered
from keras_bert.tasks.tagging.task import TaggingTask

TASKS: list[type[Task]] = [
    QuestionAnsweringTask,
    MultipleChoiceTask,
    TaggingTask,
    EmbeddingTask,
    MultiLabelTask,
    RegressionTask,
    ClassificationTask,
]
_BUILT_IN = len(TASKS)


def in_order_of_recognition():
    """Returns the tasks in the order in which they are asked whether data are theirs: those of users first."""
    return TASKS[_BUILT_IN:] + TASKS[:_BUILT_IN]


def recognized(text, targets):
    """Returns the task whose are a text, the first one, and the targets of all texts; `None` for no task.

    Texts that are no dicts are those of a user's task only if it has `recognizes` itself: else its rows, which may be
    a subclass of built-in ones, would take the place of these wherever its file is imported.
    """
    for task in in_order_of_recognition():
        is_inherited = not is_ours(task) and is_ours(task.rows.recognizes)
        if (isinstance(text, dict) or not is_inherited) and task.rows.recognizes(text, targets):
            return task
    return None


def register_task(cls):
    """Adds a task to those of `fit`, `evaluate` and the commands; usable as a decorator.

    Args:
        cls: subclass of `Task`. One of the same name and module takes the place of an earlier one.

    Returns:
        `cls`.

    Example:
        @keras_bert.register_task
        class Relations(keras_bert.tasks.ClassificationTask):
            name = "relations"
    """
    if not (isinstance(cls, type) and issubclass(cls, Task)):
        raise ValueError(f"`cls` must be a subclass of `Task`. Received: {cls!r}")
    missing = [name for name in ("name", "head", "Settings") if not hasattr(cls, name)]
    if missing:
        raise ValueError(f"a task needs the attributes name, head and Settings. Received: no {missing[0]}")
    if not cls.rows.target_columns:
        raise ValueError(
            f"`rows` of the task {cls.name!r} must have `target_columns`, such as ('label',). Received: ()"
        )
    same = next((number for number, task in enumerate(TASKS) if task.name == cls.name), None)
    if same is None:
        TASKS.append(cls)
    elif (TASKS[same].__module__, TASKS[same].__qualname__) == (cls.__module__, cls.__qualname__):
        TASKS[same] = cls  # Of a module that is loaded again.
    else:
        raise ValueError(f"`name` must be that of no other task. Received: name={cls.name!r}, which is {TASKS[same]!r}")
    return cls


def task_named(name):
    """Returns a task; raises for a name that none has."""
    found = next((task for task in TASKS if task.name == name), None)
    if found is None:
        names = {task.head: task.name for task in TASKS} | {task.name: task.name for task in TASKS}
        alike = names.get(similar(str(name), names))
        known = "; ".join(f"{task.name!r}" if alike else f"{task.name!r}: {task.rows.expects}" for task in TASKS)
        fix = f". Did you mean {alike!r}?" if alike else ""
        raise ValueError(f"`task` must be one of {known}. Received: task={name!r}{fix}")
    return found


def task_of(bert):
    """Returns the task that a loaded model was trained on, by its stored name, or by its head; `None` for no task."""
    own = bert.task_settings or {}
    is_known = bert.head == NO_HEAD or any(task.name == bert.task for task in TASKS)  # Encoders need no task.
    named = [task for task in TASKS if task.name == bert.task and task.trains(bert.head)]
    if not is_known and bert.task_settings == {}:  # Of a task with rows of its own.
        raise not_registered(bert.task, bert.name)
    for task in named or [task for task in TASKS if task.trains(bert.head) and task.fits(bert)]:
        if own.keys() <= {field.name for field in dataclasses.fields(task.Settings)}:
            return task
    if own and not is_known:
        raise not_registered(bert.task, bert.name, own)
    return None


def stored_settings(task, bert):
    """Returns the settings of a model's task that its checkpoint keeps."""
    return task.Settings(**(bert.task_settings or {}))


def exported_task(facts, model):
    """Returns the task that an exported model names and its stored settings, `None` twice if it is not registered.

    `facts` are those that `export` stores. Raises for such a task that makes the texts of the rows; messages have the
    name of the `model`.
    """
    stored = facts.get("task") or {}
    named = [task for task in TASKS if task.name == stored.get("name") and task.trains(facts["head"])]
    task = next(iter(named), None)
    if task is not None:
        return task, task.Settings(**stored["settings"])
    if stored.get("converts"):
        raise not_registered(stored["name"], model, stored["settings"])
    return None, None


def own_signatures(bert):
    """Returns the option `add_signatures` of `export` for a model of a task, no option for another one."""
    if (task := task_of(bert)) is None:
        return {}
    return {"add_signatures": functools.partial(task.signatures, settings=stored_settings(task, bert))}

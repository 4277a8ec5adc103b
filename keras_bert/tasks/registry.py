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
from keras_bert.tasks.question_answering.task import QuestionAnsweringTask
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
        if is_inherited and not isinstance(text, dict):
            continue
        if task.rows.recognizes(text, targets):
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
    for number, task in enumerate(TASKS):
        if task.name == cls.name:
            _check_reloaded(cls, task)
            TASKS[number] = cls
            return cls
    TASKS.append(cls)
    return cls


def _check_reloaded(cls, task):
    """Raises an error unless a class with the name of a registered task is the same one of a module loaded again."""
    same_module = cls.__module__ == task.__module__
    if not same_module or cls.__qualname__ != task.__qualname__:
        raise ValueError(f"`name` must be that of no other task. Received: name={cls.name!r}, which is {task!r}")


def task_named(name):
    """Returns a task; raises for a name that none has."""
    for task in TASKS:
        if task.name == name:
            return task
    raise _unknown_task(name)


def _unknown_task(name):
    """Returns an error with the task that a wrong name may mean, or else with what the rows of all tasks are."""
    tasks_by_name = {task.head: task.name for task in TASKS}
    tasks_by_name.update({task.name: task.name for task in TASKS})
    alike = tasks_by_name.get(similar(str(name), tasks_by_name))
    if alike:
        known = "; ".join(repr(task.name) for task in TASKS)
        return ValueError(f"`task` must be one of {known}. Received: task={name!r}. Did you mean {alike!r}?")
    known = "; ".join(f"{task.name!r}: {task.rows.expects}" for task in TASKS)
    return ValueError(f"`task` must be one of {known}. Received: task={name!r}")


def task_of(bert):
    """Returns the task that a loaded model was trained on, by its stored name, or by its head; `None` for no task."""
    needs_task = bert.head != NO_HEAD
    is_known = not needs_task or any(task.name == bert.task for task in TASKS)
    if not is_known and bert.task_settings == {}:  # Of a task with rows of its own.
        raise not_registered(bert.task, bert.name)
    trained = [task for task in TASKS if task.trains(bert.head)]
    candidates = [task for task in trained if task.name == bert.task]
    if not candidates:
        candidates = [task for task in trained if task.fits(bert)]
    stored = bert.task_settings or {}
    for task in candidates:
        if stored.keys() <= {field.name for field in dataclasses.fields(task.Settings)}:
            return task
    if stored and not is_known:
        raise not_registered(bert.task, bert.name, stored)
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
    for task in TASKS:
        if task.name == stored.get("name") and task.trains(facts["head"]):
            return task, task.Settings(**stored["settings"])
    if stored.get("converts"):
        raise not_registered(stored["name"], model, stored["settings"])
    return None, None


def own_signatures(bert):
    """Returns the option `add_signatures` of `export` for a model of a task, no option for another one."""
    task = task_of(bert)
    if task is None:
        return {}
    add_signatures = functools.partial(task.signatures, settings=stored_settings(task, bert))
    return {"add_signatures": add_signatures}

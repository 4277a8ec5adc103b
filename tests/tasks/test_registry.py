"""The list of tasks: names, what is recognized first, and the task that a model was trained on."""

import dataclasses
import types

import numpy as np
import pytest

from keras_bert.heads.registry import NO_HEAD
from keras_bert.tasks import registry
from keras_bert.tasks.base import Task
from keras_bert.tasks.classification.multi_label_task import MultiLabelTask
from keras_bert.tasks.classification.rows import TextRows
from keras_bert.tasks.classification.settings import ClassificationSettings
from keras_bert.tasks.classification.task import ClassificationTask, RegressionTask
from keras_bert.tasks.rows import RowFormat


class TurnRows(TextRows):
    """Rows with `turns`."""

    columns = ({"turns"},)


class ReplyTask(ClassificationTask):
    """A task of a user."""

    name = "replies"
    rows = TurnRows()


def variant(**changes):
    return type("Variant", (ClassificationTask,), {"name": "replies"} | changes)


def model(head="classification", **facts):
    """Returns what the list asks of a loaded model."""
    known = {"name": "model/1", "task": None, "task_settings": None}
    known |= {"multi_label": False, "labels": ["x", "y"]}
    known |= facts
    width = len(known["labels"] or ["value"])
    graph = types.SimpleNamespace(output={"logits": np.zeros([1, width])})
    return types.SimpleNamespace(head=head, model=lambda: graph, **known)


def test_a_task_by_its_name():
    assert registry.task_named("multi_label") is MultiLabelTask


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("clasification", "Did you mean 'classification'"),
        ("Regression", "Did you mean 'regression'"),
        (ClassificationTask.head, None),
        ("summarization", "'classification': texts or pairs with classes"),
    ],
)
def test_a_name_that_no_task_has(name, hint):
    if hint is None:
        assert registry.task_named(name) is ClassificationTask
        return
    with pytest.raises(ValueError, match="`task` must be one of") as error:
        registry.task_named(name)
    assert hint in str(error.value)


def test_a_task_of_a_user_is_added_and_asked_first():
    assert registry.register_task(ReplyTask) is ReplyTask
    assert registry.task_named("replies") is ReplyTask
    assert registry.TASKS[-1] is ReplyTask
    assert registry.in_order_of_recognition()[0] is ReplyTask


def test_a_module_that_is_loaded_again_replaces_its_task():
    registry.register_task(ReplyTask)
    count = len(registry.TASKS)
    again = type("ReplyTask", (ReplyTask,), {"__module__": ReplyTask.__module__, "__qualname__": "ReplyTask"})
    registry.register_task(again)
    assert registry.task_named("replies") is again
    assert len(registry.TASKS) == count


def test_a_name_belongs_to_one_task():
    with pytest.raises(ValueError, match="`name` must be that of no other task"):
        registry.register_task(variant(name="regression"))


def test_a_task_without_a_class_or_a_target():
    with pytest.raises(ValueError, match="`cls`"):
        registry.register_task(ReplyTask.__new__(ReplyTask))
    with pytest.raises(ValueError, match="`target_columns`"):
        registry.register_task(variant(rows=type("Rows", (RowFormat,), {"target_columns": ()})()))


def test_a_task_that_lacks_an_attribute():
    with pytest.raises(ValueError, match="name, head and Settings. Received: no name"):
        registry.register_task(type("Nameless", (Task,), {"head": "classification"}))


def test_texts_are_not_those_of_a_task_whose_rows_are_dicts():
    """Its rows are a subclass of built-in ones, which recognize texts, too."""
    registry.register_task(ReplyTask)
    assert registry.recognized("a", ["x", "y"]) is ClassificationTask
    assert registry.recognized({"turns": ["a"]}, ["x", "y"]) is ReplyTask
    assert registry.recognized("a", [1.5, 2.0]) is RegressionTask
    assert registry.recognized(7, ["x"]) is None


@pytest.mark.parametrize(
    ("facts", "task"),
    [
        ({}, ClassificationTask),
        ({"multi_label": True}, MultiLabelTask),
        ({"labels": None}, RegressionTask),
        ({"task": "multi_label"}, MultiLabelTask),
        ({"task": "classification", "task_settings": {}}, ClassificationTask),
        ({"task_settings": {"number_of_turns": 3}, "task": "classification"}, None),
    ],
)
def test_the_task_of_a_model(facts, task):
    assert registry.task_of(model(**facts)) is task


@pytest.mark.parametrize("settings", [{}, {"turns": 2}])
def test_a_model_of_a_task_that_is_not_registered(settings):
    with pytest.raises(ValueError, match="'replies' of model/1 is not registered"):
        registry.task_of(model(task="replies", task_settings=settings))


@dataclasses.dataclass(frozen=True)
class TurnSettings(ClassificationSettings):
    turns: int = 1


def test_stored_settings():
    task = registry.register_task(variant(Settings=TurnSettings))
    bert = model(task="replies", task_settings={"turns": 2})
    assert registry.task_of(bert) is task
    assert registry.stored_settings(task, bert) == TurnSettings(turns=2)
    assert registry.stored_settings(task, model()) == TurnSettings()


def test_the_task_of_an_exported_model():
    facts = {"head": "classification", "task": {"name": "replies", "settings": {"turns": 2}, "converts": True}}
    with pytest.raises(ValueError, match="'replies' of model/1 is not registered"):
        registry.exported_task(facts, "model/1")
    task = registry.register_task(variant(Settings=TurnSettings))
    assert registry.exported_task(facts, "model/1") == (task, TurnSettings(turns=2))
    assert registry.exported_task({"head": "classification"}, "model/1") == (None, None)


def test_signatures_of_a_task_get_its_settings():
    def signatures(cls, signatures, settings):
        return {"turns": settings.turns}

    registry.register_task(variant(Settings=TurnSettings, signatures=classmethod(signatures)))
    options = registry.own_signatures(model(task="replies", task_settings={"turns": 2}))
    assert options["add_signatures"]({}) == {"turns": 2}
    assert registry.own_signatures(model(head=NO_HEAD)) == {}

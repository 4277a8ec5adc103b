"""Which tasks are rehearsed. tests/extending and tests/tasks rehearse tasks and heads of a user as a whole."""

import types

from keras_bert.runs.rehearsal import RehearsalError, is_own
from keras_bert.tasks import registry


class OwnTask:
    """A user's task with a head of the package."""

    head = "classification"

    def __init__(self):
        part = types.SimpleNamespace()
        self.training = part
        self.report = part
        self.rows = part


def test_a_task_that_is_not_registered_is_not_rehearsed():
    assert not is_own(OwnTask())


def test_a_registered_task_of_a_user_is_rehearsed(monkeypatch):
    monkeypatch.setattr("keras_bert.runs.rehearsal.TASKS", [*registry.TASKS, OwnTask])
    assert is_own(OwnTask())


def test_an_error_names_the_promise_that_fails():
    error = RehearsalError("score", "the message")
    assert isinstance(error, ValueError)
    assert error.promise == "score"
    assert str(error) == "the message"

"""A head of a user and its task, which are right, and texts for them."""

import contextlib

from keras_bert.heads.registry import HEADS
from keras_bert.tasks.registry import TASKS
from keras_bert.testing.promises import promises_of
from tests.extending.conftest import registered

OPTIONS = {"num_classes": 3, "num_categories": 2}
LABELS = ["sport/tennis", "sport/golf", "art/film"]
TEXTS = ["a b c", "d e", "f g h i", "j", "b c", "e d", "h i k", "j j l", "k a", "l m", "a m", "b k"]
TOPICS = LABELS * 4
# Promises that start a process, which takes most of the time: checked of what users write, and of one built-in head.
PROCESSES = {"shell", "server", "verify"}


@contextlib.contextmanager
def unregistered():
    """The module of the head and of its task, which are not registered: wrong ones take their place."""
    with registered("topics_head") as module:
        HEADS[:] = [head for head in HEADS if type(head) is not module.Topics]
        TASKS[:] = [task for task in TASKS if task is not module.TopicTask]
        yield module


def without_processes(checks):
    """Returns the names of the promises of a class that start no process."""
    names = []
    for promise in promises_of(checks):
        names.extend(name for name in promise.names if name not in PROCESSES)
    return names

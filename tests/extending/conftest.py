"""What a user's file registers is registered during the tests of that file alone."""

import contextlib
import importlib
import pathlib
import sys

from keras_bert.heads.registry import HEADS
from keras_bert.tasks.registry import TASKS

FOLDER = pathlib.Path(__file__).parent


@contextlib.contextmanager
def registered(name):
    """Imports a module of this folder as a user does."""
    before, tasks = HEADS[:], TASKS[:]
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module(name)
    HEADS[:], TASKS[:] = before, tasks
    sys.path.remove(str(FOLDER))
    del sys.modules[name]

"""What a user's file registers is registered during the tests of that file alone."""

import contextlib
import importlib
import pathlib
import sys

from tests.conftest import forgetting_registrations

FOLDER = pathlib.Path(__file__).parent


@contextlib.contextmanager
def registered(name):
    """Imports a module of this folder as a user does."""
    sys.path.insert(0, str(FOLDER))
    try:
        with forgetting_registrations():
            yield importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop(name, None)

"""What research registers is known in its own tests alone."""

import pytest

from keras_bert import other_models
from keras_bert.heads.registry import HEADS
from keras_bert.reports import comparisons

_LISTS = (HEADS, comparisons._REGISTERED, other_models._REGISTERED)
_BEFORE = [list(registered) for registered in _LISTS]

import research.feature_tagging  # noqa: E402, F401

_AFTER = [list(registered) for registered in _LISTS]


def _set(values):
    for registered, value in zip(_LISTS, values, strict=True):
        registered[:] = value


_set(_BEFORE)


@pytest.fixture(scope="module", autouse=True)
def _registered():
    _set(_AFTER)
    yield
    _set(_BEFORE)

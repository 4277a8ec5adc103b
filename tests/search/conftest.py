"""Small models, and an index of a few passages."""

import pytest

import keras_bert
from tests.conftest import HEADS, eagerly

TEXTS = ["a b c", "", "d e f g h a b c d e", "b", "a b c", "x y z", "c d", "q", "r s t"]


@pytest.fixture(scope="session")
def saved(config, pieces, shared_folder):
    """Returns the folder of a saved model, by the name of its head and its labels."""

    def folder(head, labels=None, **options):
        def save(path):
            model = HEADS[head].build(keras_bert.build_encoder(config))
            keras_bert.save(model, path, pieces, labels=labels, **options)

        chosen = [head, *(labels or ()), *(f"{name}={value}" for name, value in options.items())]
        return shared_folder("_".join(["search", *chosen]), save)

    return folder


@pytest.fixture(scope="module")
def eager_module():
    """See `eagerly`; for all tests of a module and its fixtures."""
    with eagerly():
        yield


@pytest.fixture(scope="session")
def bert(saved):
    return keras_bert.load(saved("encoder"))

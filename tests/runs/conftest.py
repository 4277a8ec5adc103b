"""The model that tests of `fit` start from."""

import pytest

import keras_bert


@pytest.fixture(scope="session")
def start(tmp_path_factory, config, pieces):
    """A folder with the model to start from."""
    folder = tmp_path_factory.mktemp("start")
    keras_bert.save(keras_bert.build_encoder(config), folder, pieces)
    return folder


@pytest.fixture(scope="session")
def loaded(start):
    """The model to start from, of tests that do not change it."""
    return keras_bert.load(start)

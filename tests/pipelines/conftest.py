"""Models with one layer, which is enough for testing the commands."""

import dataclasses

import pytest


@pytest.fixture(scope="session")
def config(config):
    return dataclasses.replace(config, num_hidden_layers=1)

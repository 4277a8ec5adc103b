"""One layer is enough for what the commands promise."""

import dataclasses

import pytest


@pytest.fixture(scope="session")
def config(config):
    return dataclasses.replace(config, num_hidden_layers=1)

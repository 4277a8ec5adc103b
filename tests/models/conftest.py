"""Models with a single block, which is enough for these tests."""

import dataclasses

import pytest


@pytest.fixture(scope="session")
def config(config):
    return dataclasses.replace(config, num_hidden_layers=1)

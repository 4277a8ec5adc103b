"""Models with one block, where two prove nothing more."""

import dataclasses

import pytest


@pytest.fixture(scope="session")
def config(config):
    return dataclasses.replace(config, num_hidden_layers=1)

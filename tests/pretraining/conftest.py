"""Examples that are generated once for the tests of pairs and masks."""

import json

import pytest

from keras_bert.pretraining.example_builder import Settings
from tests.pretraining import numbered


@pytest.fixture(scope="session")
def passes(shared_folder):
    """Returns the manifest and the masked examples of 20 passes over `numbered.small()`: 260,000 tokens."""

    def fill(folder):
        folder.mkdir()
        numbered.small().generate(folder / "data", Settings(64, duplicates=20, static=True), shards=3)

    folder = shared_folder("passes", fill) / "data"
    return json.loads((folder / "manifest.json").read_text()), numbered.arrays(folder)

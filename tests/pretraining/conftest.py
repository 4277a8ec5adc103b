"""Half a million tokens, generated once for the tests of pairs and masks."""

import pytest

from keras_bert.pretraining.generate import generate
from keras_bert.pretraining.settings import Settings
from tests.pretraining import numbered


@pytest.fixture(scope="session")
def half_million(tmp_path_factory):
    """Returns the manifest and the masked examples of 43 passes over `numbered.small()`."""
    folder, source = tmp_path_factory.mktemp("text"), numbered.small()
    numbered.write(folder / "text.txt", source.text)
    settings = Settings(sequence_length=64, duplicates=43, static=True)
    manifest = generate(folder / "text.txt", folder / "data", source.pieces, settings, shards=3)
    return manifest, numbered.arrays(folder / "data")

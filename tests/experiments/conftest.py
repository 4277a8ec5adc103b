"""A checkpoint with one layer."""

import dataclasses

import pytest

import keras_bert


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory, config, pieces):
    """A folder with a question answering model."""
    folder = tmp_path_factory.mktemp("checkpoint")
    encoder = keras_bert.build_encoder(dataclasses.replace(config, num_hidden_layers=1))
    keras_bert.save(keras_bert.build_span_labeler(encoder), folder, pieces)
    return folder

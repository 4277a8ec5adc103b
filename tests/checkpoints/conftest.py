"""Models that are built, saved and loaded once for all tests of checkpoints."""

import dataclasses
import functools
import json
import shutil

import numpy as np
import pytest
import safetensors.numpy

import keras_bert
from keras_bert.layers.registry import positions_of
from tests.conftest import HEADS, to_numpy

# The names of inputs in transformers.
NAMES = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
# The settings of other model types.
RELATIVES = {
    "distilbert": {"type_vocab_size": 0, "pooler_activation": "relu"},
    "electra": {"embedding_size": 12, "pooler_activation": "gelu"},
    "roberta": {"type_vocab_size": 1, "position_padding_id": 1},
    "mpnet": {"type_vocab_size": 0, "position_padding_id": 1},
}


def randomize(model):
    """Returns a model with random weights."""
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(scale=0.2, size=variable.shape).astype("float32"))
    return model


@pytest.fixture(scope="session")
def models(config):
    """The model of each head, with random weights. Tests must not change them."""
    return functools.cache(lambda head: randomize(HEADS[head].build(keras_bert.build_encoder(config))))


@pytest.fixture(scope="session")
def saved(models, pieces, tmp_path_factory):
    """Folders of these models. Tests must not change them."""

    @functools.cache
    def save(head, format="huggingface"):
        folder = tmp_path_factory.mktemp(head) / "bert"
        keras_bert.save(models(head), folder, pieces, format=format)
        return folder

    return save


@pytest.fixture(scope="session")
def relatives(config, tmp_path_factory):
    """Folders of encoders of other model types, by name. Tests must not change them."""

    @functools.cache
    def save(name):
        own = dataclasses.replace(config, hidden_act="gelu", **RELATIVES[name])
        encoder = randomize(keras_bert.build_encoder(own, positions=positions_of(name) or "learned"))
        folder = tmp_path_factory.mktemp(name) / name
        keras_bert.save(encoder, folder, None, model_type=name)
        return folder

    return save


@pytest.fixture
def copy(saved, tmp_path):
    """Returns a copy of the folder of a head, whose files can be changed."""
    return lambda head, **options: shutil.copytree(saved(head, **options), tmp_path / "bert")


@pytest.fixture
def folder(copy):
    """The folder of a pre-training model, whose files can be changed."""
    return copy("pretraining")


@pytest.fixture(scope="session")
def loaded(golden):
    """Golden checkpoints, loaded once. Tests must not change them."""
    return functools.cache(lambda name, **options: keras_bert.load(golden / name, **options))


@pytest.fixture(scope="session")
def loaded_model(loaded):
    """The models of golden checkpoints with heads. Tests must not change them."""
    return functools.cache(lambda name, **options: loaded(name, **options).model())


def edit(path, **values):
    """Changes keys of a JSON file, or creates one; None removes a key."""
    content = {}
    if path.exists():
        content = json.loads(path.read_text())
    content.update(values)
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def rewrite(folder, change):
    """Changes the tensors of a checkpoint on disk."""
    values = safetensors.numpy.load_file(folder / "model.safetensors")
    safetensors.numpy.save_file(change(values), folder / "model.safetensors")


def without(part):
    """Returns a change that leaves out tensors whose names have this part."""
    return lambda values: {name: value for name, value in values.items() if part not in name}


def token_table(bert):
    """Returns the table of word embeddings."""
    return to_numpy(bert.encoder.get_layer("token_embedding").embeddings)


def shorten(name, length):
    """Keeps the first bytes of a file, or drops the last ones."""
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:length])


@pytest.fixture
def saved_table(models):
    """The token table of the saved model."""
    return to_numpy(models("pretraining").get_layer("token_embedding").embeddings)

"""Unigram vocabularies, SentencePiece's, beside the files of transformers."""

import json
import shutil

import pytest

import keras_bert
from keras_bert.checkpoints import tokenizer_files
from keras_bert.checkpoints.folder import Folder
from keras_bert.metadata import Metadata
from keras_bert.pretraining.example_builder import ExampleBuilder, Settings
from keras_bert.text.tokenizer import build_tokenizer
from tests.checkpoints.conftest import edit
from tests.text.unigrams import SCORES, unigram


def read_folder(folder):
    return tokenizer_files.read(Folder(folder), Metadata()).vocabulary


@pytest.fixture(scope="module")
def folder(golden):
    return golden / "hf_world" / "unigram_bert"


@pytest.fixture(scope="module")
def known(folder):
    return read_folder(folder)


@pytest.fixture
def without_json(folder, tmp_path):
    """A folder with the `.model` and the settings, without `tokenizer.json`."""
    for name in ("sentencepiece.bpe.model", "tokenizer_config.json", "config.json"):
        shutil.copy(folder / name, tmp_path)
    return tmp_path


def test_a_model_file_alone_has_the_same_ids(folder, known, without_json):
    alone = read_folder(without_json)
    texts = json.loads((folder / "texts.json").read_text())["texts"]
    assert build_tokenizer(alone)(texts).to_list() == build_tokenizer(known)(texts).to_list()


def test_the_class_adds_pieces(without_json):
    roberta = read_folder(without_json)
    edit(without_json / "tokenizer_config.json", tokenizer_class="CamembertTokenizer")
    camembert = read_folder(without_json)
    assert camembert.pieces[5:7] == ("<s>", "</s>")
    assert camembert.id("▁the") == roberta.id("▁the") + 3


def test_settings_return_from_files(known, tmp_path):
    tokenizer_files.write(known, False, 128, tmp_path)
    assert read_folder(tmp_path) == known
    assert keras_bert.Vocabulary(tmp_path / "tokenizer.json").pieces == known.pieces


def test_settings_that_contradict_the_file(known, tmp_path):
    tokenizer_files.write(known, False, 128, tmp_path)
    edit(tmp_path / "tokenizer_config.json", cls_token="<cls>")
    with pytest.raises(ValueError, match="`cls_token` must be '<s>'"):
        read_folder(tmp_path)


def test_pre_training_data_is_refused():
    with pytest.raises(
        ValueError, match="expected a vocabulary of WordPiece. Received: a Unigram model of SentencePiece"
    ):
        ExampleBuilder(unigram(SCORES), Settings(16))

"""The folder of a checkpoint and the formats that read it; where names are found; the bundled checkpoints.

The latter are found by name, are small and have a card; tests/test_wheel.py finds one in a wheel.
"""

import collections
import functools
import hashlib
import pathlib
import shutil
import tomllib
import types

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert import files
from keras_bert.checkpoints import load
from keras_bert.checkpoints.folder import Folder, find
from tests.checkpoints.conftest import edit

ROOT = pathlib.Path(__file__).parents[2]
SHIPPED = sorted(path.parent.name for path in (ROOT / "saved_models").glob("*/config.json"))
HUB = "https://tfhub.dev/tensorflow/bert/4"
KAGGLE = "tensorflow/bert/tensorFlow2/bert-en/2"


@pytest.mark.parametrize("head", ["classification", "embedding"])
def test_each_json_file_is_parsed_once(saved, monkeypatch, head):
    parsed = collections.Counter()
    read_json = files.read_json

    def counted(path):
        parsed[str(path)] += 1
        return read_json(path)

    monkeypatch.setattr(files, "read_json", counted)
    keras_bert.load(saved(head))
    assert {f"{saved(head)}/{name}" for name in ("config.json", "tokenizer_config.json")} <= parsed.keys()
    assert set(parsed.values()) == {1}


def test_a_format_is_a_line(saved, monkeypatch, tmp_path):
    """With functions that tell whether it fits a folder, and that read one."""
    (tmp_path / "place.txt").write_text(str(saved("classification")))
    inner = types.SimpleNamespace(
        fits=lambda folder: folder.has("place.txt"),
        read=lambda folder, options: load.open_checkpoint((folder / "place.txt").read_text(), head=options.head),
    )
    monkeypatch.setattr(load, "FORMATS", (*load.FORMATS, inner))
    assert keras_bert.load(tmp_path).head == "classification"
    assert keras_bert.load(tmp_path, head="encoder").head == "encoder"


def test_errors_name_the_file(tmp_path):
    folder = Folder(tmp_path)
    assert folder.json("config.json") == folder.config == {}
    with pytest.raises(FileNotFoundError, match="pooling.json"):
        folder.json("pooling.json", needed=True)
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"list.json: expected a JSON object. Received: list"):
        folder.json("list.json")
    (tmp_path / "modules.json").write_text('[{"idx": 0}]')
    with pytest.raises(ValueError, match=r"modules.json: not a list of modules: 'type'"):
        folder.transformer  # noqa: B018


def test_the_folder_with_the_config(tmp_path):
    modules = [{"idx": 1, "type": "a.Pooling"}, {"idx": 0, "path": "0_Transformer", "type": "a.Transformer"}]
    (tmp_path / "modules.json").write_text(str(modules).replace("'", '"'))
    assert Folder(tmp_path).transformer.path == tmp_path / "0_Transformer"
    edit(tmp_path / "config.json", keras_bert={})
    folder = Folder(tmp_path)
    assert folder.transformer is folder
    assert folder.is_ours


@pytest.fixture(scope="module")
def shipped():
    return functools.cache(keras_bert.load)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_checkpoint_is_complete_and_small(shipped, name):
    folder = ROOT / "saved_models" / name
    assert sum(path.stat().st_size for path in folder.iterdir()) < 20e6
    card = (folder / "README.md").read_text()
    assert all(title in card for title in ("# Data", "# Settings", "# Scores", "# Limitations"))
    bert = shipped(name)
    assert bert.vocabulary is not None
    assert bert.left_out(bert.pretrainer()) == []


@pytest.mark.tensorflow
def test_it_predicts_masked_words_of_books(eager, shipped):
    bert = shipped("bert_tiny_books")
    text = "He opened the [MASK] and went into the room."
    inputs = bert.preprocessor(32, padding="longest", keep_special_tokens=("[MASK]",))([text])
    places = np.argwhere(inputs["token_ids"] == bert.vocabulary.id("[MASK]"))[:, 1:]
    outputs = bert.pretrainer()(inputs | {"mask_positions": keras.ops.convert_to_tensor(places, "int32")})
    best = np.argsort(-np.array(outputs["mlm_logits"])[0, 0])[:5]
    assert "door" in [bert.vocabulary.pieces[piece] for piece in best]


def test_a_wheel_has_every_package():
    """Each folder of Python files is one that setuptools finds, by its `__init__.py`; commands by their link."""
    setuptools = pytest.importorskip("setuptools")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    packages = setuptools.find_packages(ROOT, include=settings["include"])
    folders = set()
    for room in ("keras_bert", "pipelines"):
        folders.update(path.parent for path in (ROOT / room).rglob("*.py"))
    found = {".".join(folder.relative_to(ROOT).parts) for folder in folders} - {"pipelines"}
    assert set(packages) == found | {"keras_bert.pipelines"}
    for name in ("pipelines", "saved_models"):
        assert (ROOT / "keras_bert" / name).samefile(ROOT / name)


@pytest.fixture
def caches(golden, tmp_path, monkeypatch):
    """The caches of tensorflow_hub and of kagglehub, with the SavedModel of an encoder."""
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "hub"))
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "kaggle"))
    encoder = golden / "model_garden" / "cased" / "hub_encoder"
    folders = [tmp_path / "hub" / hashlib.sha1(HUB.encode()).hexdigest(), tmp_path / "kaggle" / "models" / KAGGLE]
    for folder in folders:
        shutil.copytree(encoder, folder)
    folders[1].with_name("2.complete").touch()
    folders[1].with_name("10").mkdir()  # A download that was interrupted.
    return folders


@pytest.mark.parametrize(
    ("handle", "place"),
    [
        (HUB, 0),
        (f"kaggle://{KAGGLE}", 1),
        (KAGGLE, 1),
        ("tensorflow/bert/tensorflow2/bert-en", 1),
        ("https://www.kaggle.com/models/tensorflow/bert/TensorFlow2/bert-en/2", 1),
        ("https://kaggle.com/models/tensorflow/bert/frameworks/TensorFlow2/variations/bert-en/versions/2", 1),
    ],
)
def test_handles_of_hubs(caches, handle, place):
    assert find(handle) == caches[place]


@pytest.mark.parametrize(
    ("handle", "message"),
    [
        (
            "https://tfhub.dev/x/4",
            "cache of tensorflow_hub, .*/hub/[0-9a-f]{40} .*tensorflow_hub.resolve\\('https://tfh",
        ),
        (
            "kaggle://a/bert/tensorFlow2/b/3",
            "cache of kagglehub, .*/a/bert/tensorFlow2/b/3 .*load\\('a/bert/tensorFlow2/b/3'",
        ),
        ("a/bert/tensorFlow2/b", "cache of kagglehub"),
        ("a/bert/runs/b", "no such checkpoint. Expected a directory"),
    ],
)
def test_missing_handles(caches, handle, message):
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        keras_bert.load(handle)


def test_an_encoder_without_its_vocabulary(caches, golden):
    """The casing is that of the SavedModel that preprocesses texts, which has no weights."""
    shutil.rmtree(caches[1] / "assets")
    assert keras_bert.load(KAGGLE).vocabulary is None
    for casing in ("cased", "uncased"):
        preprocessing = golden / "model_garden" / casing / "hub_preprocess"
        bert = keras_bert.load(KAGGLE, tokenizer=preprocessing)
        assert bert.vocabulary == keras_bert.Vocabulary(preprocessing / "assets" / "vocab.txt")
        assert bert.lowercase == (casing == "uncased")
    with pytest.raises(ValueError, match="a SavedModel that preprocesses texts goes with an encoder: load"):
        keras_bert.load(preprocessing)
    with pytest.raises(ValueError, match="expected a SavedModel that preprocesses texts for BERT"):
        keras_bert.load(KAGGLE, tokenizer=HUB)

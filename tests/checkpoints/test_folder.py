"""The folder of a checkpoint, and the formats that read it."""

import collections
import types

import pytest

import keras_bert
from keras_bert import files
from keras_bert.checkpoints import load
from keras_bert.checkpoints.folder import Folder
from tests.checkpoints.conftest import edit


@pytest.mark.parametrize("head", ["classification", "embedding"])
def test_each_json_file_is_parsed_once(saved, monkeypatch, head):
    parsed, read_json = collections.Counter(), files.read_json

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

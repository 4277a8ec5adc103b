"""The files of byte-level BPE: `tokenizer.json`, and `vocab.json` with `merges.txt`."""

import json

import pytest

import keras_bert
from keras_bert.checkpoints import tokenizer_files
from keras_bert.checkpoints.folder import Folder
from keras_bert.metadata import Metadata
from keras_bert.text import tokenizer_json
from keras_bert.text.byte_level_step import STEP
from tests.checkpoints.conftest import edit
from tests.text.byte_level import MERGES, vocabulary


def content(known=None):
    return json.loads(tokenizer_json.to_json(known or vocabulary(), False))


def read(folder):
    return tokenizer_files.read(Folder(folder), Metadata()).vocabulary


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"trim_offsets": False},
        {"pair_separators": 1, "pair_segments": True},
        {"pre_tokenizer": STEP | {"add_prefix_space": True}},
        {"added_tokens": [keras_bert.AddedToken("the", rstrip=True, single_word=True)], "further": ["the"]},
        {"merges": ()},
    ],
)
def test_a_folder_keeps_a_vocabulary(tmp_path, settings):
    known = vocabulary(**({"pre_tokenizer": STEP} | settings))
    tokenizer_files.write(known, False, 64, tmp_path)
    assert read(tmp_path) == known
    assert keras_bert.Vocabulary(tmp_path / "tokenizer.json").merges == known.merges
    assert keras_bert.Vocabulary(known.get_config()) == known


def write_older_files(known, folder):
    """Writes `vocab.json` with `merges.txt`, whose lines end as on Windows, and settings of RoBERTa's class."""
    tokenizer_files.write(known, False, 64, folder)
    (folder / "tokenizer.json").unlink()
    lines = (folder / "merges.txt").read_text().splitlines()
    assert lines == ["#version: 0.2", *MERGES]
    (folder / "merges.txt").write_bytes("\r\n".join(lines).encode())
    edit(folder / "tokenizer_config.json", tokenizer_class="RobertaTokenizer", add_prefix_space=True)


def test_the_older_files(tmp_path):
    """As the class of RoBERTa reads them."""
    known = vocabulary()
    write_older_files(known, tmp_path)
    found = read(tmp_path)
    assert found.pieces == known.pieces
    assert found.merges == known.merges
    assert found.special_tokens == known.special_tokens
    assert found.pre_tokenizer == STEP | {"add_prefix_space": True}
    assert found.pair_separators == 2
    assert not found.pair_segments
    assert found.trim_offsets
    assert found.added_tokens == tuple(token._replace(lstrip=False) for token in known.added_tokens)


def test_the_map_of_special_tokens_beside_the_older_files(tmp_path):
    known = vocabulary()
    write_older_files(known, tmp_path)
    mask = {"content": "<mask>", "lstrip": True, "normalized": False}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"mask_token": mask}))
    assert read(tmp_path).added_tokens == known.added_tokens


def test_older_files_without_merges(tmp_path):
    write_older_files(vocabulary(), tmp_path)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(FileNotFoundError, match="merges.txt: expected vocab.json and merges.txt in one folder"):
        read(tmp_path)


def test_forms_of_one_file(tmp_path):
    """Merges as strings, a sequence of one step, and a template beside the step that trims places."""
    values = content()
    values["model"]["merges"] = MERGES
    values["model"]["unk_token"] = "<unk>"
    values["model"]["byte_fallback"] = True  # Of bytes that are no pieces.
    values["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [STEP]}
    template = tokenizer_json.template_processor(vocabulary(), tokenizer_json.roberta_template())
    values["post_processor"] = {"type": "Sequence", "processors": [STEP, template]}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values))
    assert keras_bert.Vocabulary(path) == vocabulary(pre_tokenizer=STEP)


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("model", {"dropout": 0.1}, "expected model.dropout=None. Received: model.dropout=0.1"),
        ("model", {"ignore_merges": True}, "model.ignore_merges"),
        ("model", {"vocab": {"a": "0"}}, "ids must be integers that count from 0"),
        ("model", {"merges": [["Ġ"]]}, "a merge must be two pieces with a space between them"),
        ("model", {"merges": [3]}, "a merge must be a string or a list of two. Received: 3"),
        ("model", {"vocab": []}, r"expected a table of pieces with their ids. Received: \[\]"),
        ("pre_tokenizer", {"use_regex": False}, "pre_tokenizer"),
        ("pre_tokenizer", {"type": "Metaspace"}, "pre_tokenizer"),
        ("normalizer", {"type": "NFC"}, "byte-level BPE with a normalizer is not supported. Received: {'type': 'NFC'}"),
        ("post_processor", {"cls": ["<s>", 7]}, "expected the sequences <s> A </s>"),
        ("post_processor", {"cls": "<s>"}, "expected the sequences <s> A </s>"),
        ("post_processor", {"add_prefix_space": True}, "add_prefix_space must be that of the pre-tokenizer, False"),
    ],
)
def test_files_that_are_refused(tmp_path, section, change, message):
    values = content()
    values[section] = (values[section] or {}) | change
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=message):
        keras_bert.Vocabulary(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"further": ["[MASK]"], "added_tokens": ["[MASK]"]},
            "stands for '<mask>' here, and cannot be",
        ),
        ({"further": ["a\0"], "added_tokens": ["a\0"]}, "must have characters, but neither NUL nor U\\+0001"),
        ({"further": ["[no piece]", "a"], "added_tokens": ["zz"]}, "the vocabulary has no piece 'zz'"),
    ],
)
def test_added_tokens_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        vocabulary(**settings)

"""The files of an index: facts, lines of passages and their keys, and what is wrong with them."""

import dataclasses
import json

import numpy as np
import pytest

from keras_bert.search import index_files
from keras_bert.search.data import Passage
from keras_bert.search.index_files import Block, IndexFacts, Lines
from tests.search.small_indexes import build, content, facts_of, files_of, keys_of, passages_of

PASSAGES = [Passage("a", "text é", "title"), Passage("b", ""), Passage("c\u2028", "x\ny")]


def write(folder, passages=PASSAGES):
    """Writes the passages of a block, and returns it."""
    block = Block(number=0, rows=len(passages))
    index_files.write_lines(folder, block.number, [index_files.passage_line(passage) for passage in passages])
    return block


def edit(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_passages_are_lines_of_json(tmp_path):
    block = write(tmp_path)
    lines = Lines(tmp_path, block)
    assert len(lines) == 3
    assert lines.passage(0) == {"id": "a", "title": "title", "text": "text é"}
    assert json.loads(lines.line(2)) == {"id": "c\u2028", "title": "", "text": "x\ny"}
    whole = (tmp_path / "passages-00000.jsonl").read_bytes()
    assert whole == lines.line(0) + lines.line(1) + lines.line(2)


def test_lines_stay_readable_when_their_file_is_removed(tmp_path):
    lines = Lines(tmp_path, write(tmp_path))
    (tmp_path / "passages-00000.jsonl").unlink()
    assert lines.passage(1)["id"] == "b"


def test_keys_tell_ids_and_content(tmp_path):
    """In the file and of passages, they are the same."""
    block = write(tmp_path)
    facts = facts_of(PASSAGES, blocks=(block,))
    keys = index_files.read_keys(tmp_path, facts)
    np.testing.assert_array_equal(keys, keys_of(PASSAGES))
    changed = index_files.passage_keys(Passage("a", "another", "title"))
    assert changed[0] == keys[0, 0]
    assert changed[1] != keys[0, 1]


def test_the_fingerprint_is_that_of_passages_in_order():
    keys = keys_of(PASSAGES)
    assert index_files.fingerprint(keys) == index_files.fingerprint(keys.copy())
    assert index_files.fingerprint(keys) != index_files.fingerprint(keys[::-1])


def test_facts_return_from_their_file(tmp_path):
    facts = facts_of(PASSAGES, blocks=(Block(2, 1), Block(5, 2)), graph=3)
    index_files.write_facts(tmp_path, facts)
    assert index_files.find_facts(tmp_path) == facts
    assert IndexFacts.from_json(facts.as_json()) == facts


def test_the_next_number_is_behind_those_of_blocks_and_of_the_graph():
    facts = facts_of(PASSAGES, blocks=(Block(2, 1), Block(5, 2)))
    assert facts.next_number == 6
    assert dataclasses.replace(facts, graph=9).next_number == 10


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"blocks": 5}, "not the facts of an index"),
        ({"format": 1}, "its format is 1. Expected 3: build the index again"),
        ({"passages": 4}, "its blocks must have 4 passages together. The index is damaged"),
        ({"width": 0}, "its sizes positive integers"),
        ({"model": None}, "its model must be an object"),
        ({"other": 1}, "not the facts of an index"),
    ],
)
def test_facts_that_are_damaged(tmp_path, values, message):
    build(tmp_path, passages_of(range(3)))
    edit(tmp_path / "index.json", **values)
    with pytest.raises(ValueError, match=f"index.json: .*{message}"):
        index_files.find_facts(tmp_path)


def test_an_index_that_is_not_there_or_not_complete(tmp_path):
    assert index_files.read_facts(tmp_path) is None
    with pytest.raises(ValueError, match="no index, index.json is missing. Build it first"):
        index_files.find_facts(tmp_path)
    index_files.write_facts(tmp_path, facts_of(PASSAGES), index_files.PENDING)
    with pytest.raises(ValueError, match="not complete. Repeat the build, which continues"):
        index_files.find_facts(tmp_path)


def test_folders_for_an_index(tmp_path):
    """A new one, an empty one, or that of an index; nothing else is overwritten."""
    index_files.check_folder(tmp_path / "new")
    index_files.check_folder(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="must be a new folder. Received: .* with notes.txt, without index.json"):
        index_files.check_folder(tmp_path)
    with pytest.raises(ValueError, match="must be a folder. Received: the file"):
        index_files.check_folder(tmp_path / "notes.txt")
    (tmp_path / "index.json").write_text("{}")
    index_files.check_folder(tmp_path)


def test_files_that_no_facts_name_are_removed(tmp_path):
    """Also `pending.json`; the files of others stay."""
    facts = build(tmp_path, passages_of(range(7)), block=3)
    for name in ("passages-00009.jsonl", "float16-00000.npy", "graph-00004.faiss", "pending.json", "notes-00009.npy"):
        (tmp_path / name).write_text("")
    index_files.remove_others(tmp_path, facts)
    assert set(content(tmp_path)) == files_of(facts) | {"notes-00009.npy"}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("offsets-00000.npy", lambda offsets: offsets.astype("int32"), "expected int64 of shape"),
        ("offsets-00000.npy", lambda offsets: offsets[:-1], "expected int64 of shape"),
        ("offsets-00000.npy", lambda offsets: offsets + 1, "the offsets do not increase from 0"),
        ("offsets-00000.npy", lambda offsets: offsets[[0, 2, 1, 3]], "the offsets do not increase from 0"),
    ],
)
def test_offsets_that_are_damaged(tmp_path, name, change, message):
    block = write(tmp_path)
    path = tmp_path / name
    np.save(path, change(np.load(path)))
    with pytest.raises(ValueError, match=f"{name}: {message}.* The index is damaged"):
        Lines(tmp_path, block)


def test_passages_that_are_damaged(tmp_path):
    block = write(tmp_path)
    path = tmp_path / "passages-00000.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"title"', b'"titel"'))
    with pytest.raises(ValueError, match="passages-00000.jsonl:2: not a passage: 'title'"):
        Lines(tmp_path, block).passage(1)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="passages-00000.jsonl: expected .* bytes"):
        Lines(tmp_path, block)

"""Atomic writes of files and folders."""

import os

import pytest

from keras_bert.files import adding_to, read_json, replacing, write_json, write_text


def test_an_error_keeps_the_existing_files(tmp_path):
    write_text(tmp_path / "a.txt", "old")

    def fail():
        with replacing(tmp_path / "a.txt") as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


@pytest.mark.parametrize("is_link", [False, True])
def test_a_folder_replaces_a_folder_and_leftovers_of_a_killed_process(tmp_path, is_link):
    other = tmp_path / "writing-model"  # A folder of the user.
    other.mkdir()
    (other / "kept").touch()
    with replacing(tmp_path / "model") as leftover:
        leftover.mkdir()
        (leftover / "old").touch()
    leftover.symlink_to(other) if is_link else (leftover / "half").mkdir(parents=True)
    with replacing(tmp_path / "model") as temporary:
        temporary.mkdir()
        (temporary / "new").touch()
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    assert found == ["model", "model/new", "writing-model", "writing-model/kept"]


@pytest.mark.parametrize("name", ["a" * 250, "☃" * 85, "\udcff" * 250])
def test_names_have_up_to_255_bytes(tmp_path, name):
    write_text(tmp_path / name, "text")
    with adding_to(tmp_path / "folder" / name) as temporary:
        (temporary / "file").touch()
    assert [path.name for path in (tmp_path / "folder").iterdir()] == [name]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "folder"])


def test_a_file_does_not_replace_a_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").touch()
    with pytest.raises(OSError, match="directory"):
        write_text(tmp_path / "folder", "text")
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["kept"]


def test_links_permissions_and_pipes_are_kept(tmp_path):
    file, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    file.write_text("old")
    file.chmod(0o600)
    link.symlink_to(file)
    write_text(link, "new")
    assert (link.is_symlink(), file.read_text(), file.stat().st_mode & 0o777) == (True, "new", 0o600)
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        write_text(pipe, "sent")
        assert reader.read() == b"sent"
    assert pipe.is_fifo()


def test_files_are_added_to_a_folder(tmp_path):
    (tmp_path / "kept").touch()
    with adding_to(tmp_path) as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "new").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["inner", "kept", "new"]


def test_json_keeps_every_string(tmp_path):
    value = {"Büro": [os.fsdecode(b"caf\xe9.txt"), "☃"], "n": 1.5}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    write_json(tmp_path / "b.json", "☃")
    assert (tmp_path / "b.json").read_text(encoding="utf-8") == '"☃"\n'

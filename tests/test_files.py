"""Atomic writes of files and folders; JSON."""

import ast
import json
import math
import os
import pathlib
import subprocess
import sys
import time

import pytest

from keras_bert.files import adding_to, difference, json_text, read_json, read_lines, write_json, write_text

# What follows runs without this process, whose threads do not fork.
FORKS = """
import os, pathlib, signal, sys, time
from keras_bert.files import adding_to, one_writer, replacing

def start(function, *arguments):
    process = os.fork()
    if not process:
        function(*arguments)
        os._exit(0)
    return process

def end(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

folder = pathlib.Path(sys.argv[1])
"""


def run_forks(code, folder):
    """Runs a program that forks; an assertion that fails in it fails the test."""
    result = subprocess.run([sys.executable, "-c", FORKS + code, folder], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_two_processes_write_the_same(tmp_path):
    """Both succeed, 20 times, what one of them wrote is there whole, and nothing else."""
    code = """
def write(name):
    with replacing(folder / "swapped") as swapped, adding_to(folder / "filled") as filled:
        swapped.mkdir()
        for number in range(50):
            (swapped / str(number)).write_text(name)
            (filled / str(number)).write_text(name)
    with replacing(folder / "file") as file:
        file.write_text(name)

for _ in range(20):
    assert [end(process) for process in [start(write, name) for name in "ab"]] == [0, 0]
    for place in ("swapped", "filled"):
        files = list((folder / place).iterdir())
        assert (len(files), len({file.read_text() for file in files})) == (50, 1), place
assert sorted(path.name for path in folder.iterdir()) == ["file", "filled", "swapped"]
"""
    run_forks(code, tmp_path)


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    """The folder of the one that ends last replaces that of the other."""
    code = """
(folder / "kept").mkdir()
(folder / "kept" / "file").touch()

def die():
    with replacing(folder / "model") as temporary:
        temporary.mkdir()
        (temporary / "link").symlink_to(folder / "kept")  # A folder of the user.
        kill()

def write():
    with replacing(folder / "model") as temporary:
        temporary.mkdir()
        (temporary / "other").touch()

assert end(start(die)) == -signal.SIGKILL
assert len(list(folder.iterdir())) == 2
with replacing(folder / "model") as temporary:
    temporary.mkdir()
    (temporary / "half").touch()
    assert end(start(write)) == 0
    (temporary / "whole").touch()
"""
    run_forks(code, tmp_path)
    assert names(tmp_path) == ["kept", "kept/file", "model", "model/half", "model/whole"]


def test_folders_of_processes_killed_before_they_locked_them_are_removed_after_an_hour(tmp_path):
    """A process that lives may be about to lock its folder."""
    for name in ("empty", "noted"):
        for age in (0, 2 * 3600):
            folder = tmp_path / f".writing-{name}-{age}"
            folder.mkdir()
            if name == "noted":
                (folder / "lock").touch()
            os.utime(folder, (time.time() - age, time.time() - age))
    write_text(tmp_path / "a.txt", "a")
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", ".writing-empty-0", ".writing-noted-0"}


def test_a_killed_process_leaves_no_mixture_of_old_and_new_files(tmp_path):
    """At each move of a file: the folder has the old files, or none that opens it, or the new files."""
    code = """
from unittest import mock
from keras_bert import files

def fill(word):
    with adding_to(folder / "model", last=("config",), stale=("stale",)) as temporary:
        for name in ("config", "a", "b"):
            (temporary / name).write_text(word)

def die():
    moves = []
    def move(source, place, replace=os.replace):
        if len(moves) == count:
            kill()
        moves.append(place)
        replace(source, place)
    with mock.patch.object(files.os, "replace", move):
        fill("new")

for count in range(3):
    fill("old")
    (folder / "model" / "stale").touch()
    assert end(start(die)) == -signal.SIGKILL
    assert not (folder / "model" / "config").exists()
fill("new")
"""
    run_forks(code, tmp_path)
    texts = {path.name: path.read_text() for path in (tmp_path / "model").iterdir()}
    assert texts == {"a": "new", "b": "new", "config": "new"}


def test_a_folder_that_a_killed_process_had_taken_away_is_put_back(tmp_path):
    code = """
import pathlib
from unittest import mock

def die():
    def move(source, place, replace=pathlib.Path.replace):
        if source.name.startswith("new-"):
            kill()
        return replace(source, place)
    with mock.patch.object(pathlib.Path, "replace", move), replacing(folder / "model") as temporary:
        temporary.mkdir()

(folder / "model").mkdir()
(folder / "model" / "file").write_text("old")
assert end(start(die)) == -signal.SIGKILL
assert not (folder / "model").exists()
with replacing(folder / "sibling") as temporary:
    temporary.write_text("new")
"""
    run_forks(code, tmp_path)
    assert names(tmp_path) == ["model", "model/file", "sibling"]


def test_one_run_writes_to_a_folder(tmp_path):
    code = """
def hold():
    with one_writer(folder / "run"):
        (folder / "held").touch()
        time.sleep(60)

process = start(hold)
while not (folder / "held").exists():
    time.sleep(0.01)
with one_writer(folder / "run", write=False), one_writer(None), one_writer(folder / "other"):
    pass
try:
    with one_writer(folder / "run"):
        raise AssertionError
except ValueError as error:
    expected = f"another run writes to {folder / 'run'}: process {process} on "
    assert str(error).startswith(expected), error
    assert str(error).endswith(". Wait until it ends, or choose another folder"), error
os.kill(process, signal.SIGKILL)
end(process)
with one_writer(folder / "run"):
    pass
"""
    run_forks(code, tmp_path)


def test_a_full_disk_names_the_file_and_keeps_the_old_one(tmp_path):
    """The limit on the size of files stands in for a disk that is full in the middle of a file."""
    code = """
import resource
(folder / "file").write_text("old")
(folder / "swapped").mkdir()
(folder / "filled").mkdir()
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

def write(name, open_for_writing):
    with open_for_writing(folder / name) as temporary:
        if name == "file":
            file = temporary
        else:
            temporary.mkdir(exist_ok=True)
            file = temporary / "weights"
        file.write_bytes(bytes(2000))

for name, open_for_writing in {"file": replacing, "swapped": replacing, "filled": adding_to}.items():
    try:
        write(name, open_for_writing)
        raise AssertionError(name)
    except OSError as error:
        assert str(error) == f"[Errno 27] File too large, nothing was written: '{folder / name}'", error
"""
    run_forks(code, tmp_path)
    assert names(tmp_path) == ["file", "filled", "swapped"]
    assert (tmp_path / "file").read_text() == "old"


def test_a_full_device_is_named():
    with pytest.raises(OSError, match="'/dev/full'$"):
        write_text("/dev/full", "text")


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


def test_links_and_permissions_are_kept(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(file)
    write_text(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o600


def test_pipes_are_kept(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        write_text(pipe, "sent")
        assert reader.read() == b"sent"
    assert pipe.is_fifo()


def test_json_keeps_every_string(tmp_path):
    value = {"Büro": [os.fsdecode(b"caf\xe9.txt"), "☃"], "n": 1.5}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    write_json(tmp_path / "b.json", "☃")
    assert (tmp_path / "b.json").read_text(encoding="utf-8") == '"☃"\n'


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"train_file": "5f"}, {"train_file": "a1"}, "the content of `train_file` has changed"),
        ({"dev_file": {"own": "5f"}}, {"dev_file": {"own": "a1"}}, "the content of `dev_file` has changed"),
        ({"./a.b.txt": "5f"}, {"./a.b.txt": "a1"}, "the content of `./a.b.txt` has changed"),
        (["5f", "5e"], ["5f", "a1"], "the content of the data has changed"),
        (["5f"], ["5f"], None),
    ],
)
def test_hashes_are_not_shown(before, now, expected):
    assert difference({"content": before}, {"content": now}) == expected


NUMBERS = {"a": [1.5, math.nan], "b": ({"c": -math.inf}, "NaN"), "d": 1e308}


def strictly(text):
    """Parses JSON as other programs do, which know no NaN and no Infinity."""

    def refuse(name):
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


def test_json_has_finite_numbers_alone(tmp_path):
    expected = {"a": [1.5, None], "b": [{"c": None}, "NaN"], "d": 1e308}
    assert strictly(json_text(NUMBERS, measured=True)) == expected
    write_json(tmp_path / "scores.json", NUMBERS, measured=True)
    assert strictly((tmp_path / "scores.json").read_text()) == expected


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (NUMBERS, r"a\[1\]=nan"),
        ({"x": {"y": math.inf}}, "x.y=inf"),
        (-math.inf, "value=-inf"),
    ],
)
def test_json_has_no_other_numbers(value, found):
    with pytest.raises(ValueError, match=f"^JSON has no numbers but finite ones. Received: {found}$"):
        json_text(value)


def test_a_file_with_other_numbers_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"config.json: .*Received: b\[0\].c=-inf"):
        write_json(tmp_path / "config.json", {"b": NUMBERS["b"]})
    assert not (tmp_path / "config.json").exists()


def test_json_has_no_circles():
    circle = []
    circle.append(circle)
    with pytest.raises((ValueError, RecursionError)):
        json_text(circle)


def test_lines_of_measured_numbers(tmp_path):
    lines = [{"step": 1, "loss": math.nan, "time": {"rows": 2.0}}, {"step": 2, "loss": 0.5}]
    texts = [json_text(line, measured=True) for line in lines]
    (tmp_path / "log").write_text("\n".join(texts) + "\n")
    first, second = read_lines(tmp_path / "log")
    assert math.isnan(first.pop("loss"))
    assert first == {"step": 1, "time": {"rows": 2.0}}
    assert second == lines[1]


# Calls of `json` that write no file: messages, a check of characters, keys of traced programs, responses like those of
# TensorFlow Serving.
NO_FILES = {
    "keras_bert/text/tokenizer_json.py": 1,
    "keras_bert/data/sources.py": 1,
    "keras_bert/training/program.py": 2,
    "keras_bert/data/in_memory.py": 1,
    "keras_bert/serving/server/rest.py": 1,
    "keras_bert/serving/rest_client.py": 1,
}


def test_all_json_is_written_by_one_function():
    """So that no file ever holds `NaN` or `Infinity`. Who calls `json` refuses them as well, or writes no file."""
    root = pathlib.Path(__file__).parents[1]
    found = {}
    for folder in ("keras_bert", "pipelines", "research"):
        for path in (root / folder).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            count = sum(may_write_nan(node) for node in nodes)
            if count:
                found[path.relative_to(root).as_posix()] = count
    assert found == NO_FILES


def may_write_nan(node):
    """Whether a part of a program writes JSON, or imports what does, without refusing numbers that are not finite."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "json"
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    writes = node.func.attr in ("dump", "dumps", "JSONEncoder", "to_json", "iterencode")
    of_json = isinstance(node.func.value, ast.Name) and node.func.value.id == "json"
    finite = any(keyword.arg == "allow_nan" and keyword.value.value is False for keyword in node.keywords)
    return writes and of_json and not finite

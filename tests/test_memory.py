"""Freed memory is kept, available memory is known, and errors of memory say what to lower."""

import os
import subprocess
import sys

import keras
import pytest

import keras_bert
from keras_bert import memory
from pipelines import command
from pipelines.arguments import CommandArguments


def test_freed_memory_is_reused():
    """Arrays of 40 MB need new pages once, instead of each time; what the user has set stays."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    assert faults_of_the_third_array("keep", environment) < 10
    assert faults_of_the_third_array("return", environment) > 10
    environment["GLIBC_TUNABLES"] = "glibc.malloc.arena_max=2"
    assert faults_of_the_third_array("keep", environment) > 10


FAULTS = """
import resource, sys
import numpy as np
import keras_bert.memory
if sys.argv[1] == "keep":
    keras_bert.memory.keep_freed_memory()
before = 0
for _ in range(3):
    faults, before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, before
    before += faults
    np.ones(40_000_000, "int8")
print(faults)
"""


def faults_of_the_third_array(word, environment):
    """Returns the number of pages that it needs."""
    command = [sys.executable, "-c", FAULTS, word]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    return int(done.stdout)


# Names of files of both versions of control groups: of the limit, of what is used, and of what of it are files.
FIRST = ("limit_in_bytes", "usage_in_bytes", "total_inactive_file")
SECOND = ("max", "current", "inactive_file")


@pytest.mark.parametrize(
    ("groups", "limits", "free"),
    [
        ("0::/", {}, 900),
        ("0::/", {"": (SECOND, "max", 700)}, 900),
        ("0::/user/job", {"user": (SECOND, 800, 250), "user/job": (SECOND, "max", 100)}, 600),
        ("4:memory:/job", {"memory": (FIRST, 500, 450)}, 100),
        ("4:memory:/job\n0::/", {"memory/job": (FIRST, 650, 450), "memory": (FIRST, 2**50, 500)}, 250),
    ],
    ids=["none", "no limit", "second version, above", "first version, from a container", "first version"],
)
def test_available_memory(tmp_path, groups, limits, free):
    """Of the machine and of control groups, with 50 kB of files in memory, in files like those of Linux."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"9:name=systemd:/\n{groups}\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal:  2000 kB\nMemAvailable:   890 kB\nSwapFree:  10 kB\n")
    for path, (names, limit, used) in limits.items():
        limit_name, used_name, cached_name = names
        folder = tmp_path / "sys/fs/cgroup" / path
        folder.mkdir(parents=True, exist_ok=True)
        if limit != "max":
            limit *= 1024
        (folder / f"memory.{limit_name}").write_text(f"{limit}\n")
        (folder / f"memory.{used_name}").write_text(f"{used * 1024}\n")
        (folder / "memory.stat").write_text(f"cache 1\n{cached_name} {50 * 1024}\n")
    kept_free = memory.available_memory(tmp_path) - free * 1024  # That of the C library, which may grow meanwhile.
    assert 0 <= kept_free < memory.available_memory()


def test_available_memory_elsewhere_is_unknown(tmp_path):
    assert memory.available_memory(tmp_path) is None


@pytest.mark.slow  # TensorFlow retries for ten seconds.
def test_an_error_of_the_backend_is_explained():
    length = 1 << 24  # 1 PB of attention scores, more than the address space.
    with (
        pytest.raises(MemoryError, match="of length 16777216"),
        keras_bert.memory.explain_out_of_memory(length=length),
    ):
        keras.ops.ones((length, length)) + 1


class ResourceExhaustedError(Exception):
    """Has the name of TensorFlow's error."""


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), ResourceExhaustedError("model/variables.data; No space left on device")]
)
def test_other_errors_are_unchanged(error):
    with pytest.raises(type(error)), keras_bert.memory.explain_out_of_memory(batch_size=1, length=1):
        raise error


OUT_OF_MEMORY = ResourceExhaustedError("OOM when allocating tensor with shape[8,12,512,512]\n\t [[{{node}}]]")


@pytest.mark.parametrize(
    ("facts", "error", "line"),
    [
        ({"batch_size": 32}, OUT_OF_MEMORY, "out of memory at a batch of 32 sequences. Lower the "),
        ({"batch_size": 32, "length": 512}, MemoryError(), "out of memory at a batch of 32 sequences of length 512. L"),
        ({"length": 512}, OUT_OF_MEMORY, "out of memory at a batch of length 512. Lower the batch "),
        (None, OUT_OF_MEMORY, "out of memory: OOM when allocating tensor with shape[8,12,512,512]. Lo"),
        (None, MemoryError("Unable to allocate 3 PiB"), "Unable to allocate 3 PiB"),
    ],
)
def test_a_command_prints_a_one_line_error(monkeypatch, capsys, facts, error, line):
    """A training step knows the shape of its batch; other code does not."""

    def main(_):
        if facts is None:
            raise error
        with keras_bert.memory.explain_out_of_memory(**facts):
            raise error

    monkeypatch.setattr("sys.argv", ["program"])
    monkeypatch.setattr(command, "show_messages", lambda _: None)
    with pytest.raises(SystemExit) as end:
        command.run("A command.", CommandArguments, main)
    assert end.value.code == 2
    (written,) = capsys.readouterr().err.splitlines()
    assert written.startswith(f"error: {line}")

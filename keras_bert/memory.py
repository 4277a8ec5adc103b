"""Readable out-of-memory errors, and the reuse of memory."""

import contextlib
import ctypes
import os
import pathlib
import re
import sys

__all__ = ["explain_out_of_memory", "keep_freed_memory"]  # The public ones.
_ADVICE = (
    "Lower the batch size (gradient accumulation keeps the effective one) or the length, or build the encoder with "
    "remat=True"
)
_LOADING = 'Load with dtype="bfloat16", or free memory first'

# TensorFlow reports full disks and too many open files as RESOURCE_EXHAUSTED too.
_EXHAUSTED = re.compile(r"OOM|[Oo]ut of memory|alloc")

# Parameters of `mallopt`, see malloc.h of glibc.
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_M_ARENA_MAX = -8


def keep_freed_memory():
    """Lets the process reuse freed memory instead of returning it to the system.

    Each training step allocates the same large tensors. By default, the C library returns them to the system, which has
    to clear the pages of the next ones: up to 40% of the time of a step on a CPU. Only for glibc; the settings of
    `MALLOC_*` and `GLIBC_TUNABLES` and those of other allocators remain as they are.
    """
    if sys.platform != "linux":
        return
    is_set = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if is_set or any(name.startswith("MALLOC_") for name in os.environ):
        return
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return
    library.mallopt(_M_MMAP_MAX, 0)
    library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    if (os.cpu_count() or 1) <= 4:  # With more threads, one arena could keep them waiting.
        library.mallopt(_M_ARENA_MAX, 1)


def available_memory(root="/"):
    """Returns the bytes that this process can still use, without swapping other programs out; `None` if unknown.

    `root` is the path of the file system with `proc` and `sys`.
    """
    root = pathlib.Path(root)
    try:
        kilobytes = dict(re.findall(r"(\w+):\s+(\d+) kB", (root / "proc/meminfo").read_text()))
        free = 1024 * (int(kilobytes["MemAvailable"]) + int(kilobytes["SwapFree"]))
        return min([free, *_left_in_groups(root)]) + _freed_memory()
    except (OSError, KeyError):  # Not Linux.
        return None


def _left_in_groups(root):
    """Yields the bytes left in the control groups of this process, such as those of a container."""
    groups = (root / "proc/self/cgroup").read_text()
    for controller, path in re.findall(r"^\d+:(|memory):/(.*)$", groups, re.MULTILINE):
        if controller:  # Version 1 of control groups.
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            names = ("memory.max", "memory.current")
        group = root / "sys/fs/cgroup" / controller / path
        for folder in (group, *group.parents):
            try:
                left = _left_in_group(folder, *names)
            except (OSError, ValueError):  # A container may see only the folder at the top.
                continue
            yield left


def _left_in_group(folder, limit, usage):
    """Returns the bytes left in a control group, with those that only cache files; raises without a limit."""
    most = int((folder / limit).read_text())  # A `ValueError` for the text "max".
    used = int((folder / usage).read_text())
    statistics = (folder / "memory.stat").read_text()
    cached = re.search(r"^(?:total_)?inactive_file (\d+)", statistics, re.MULTILINE)
    return most - used + int(cached[1])


def _freed_memory():
    """Returns the bytes that the C library has kept for reuse, see `keep_freed_memory`."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return 0
    mallinfo = ctypes.CFUNCTYPE(_MallocInfo)(("mallinfo2", library))
    return mallinfo().fordblks


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


@contextlib.contextmanager
def explain_out_of_memory(*, batch_size=None, length=None, parameters=None):
    """Turns an out-of-memory error of any backend into a `MemoryError` with a one-line message.

    Args:
        batch_size, length: int, the shape of a training or prediction batch, as far as known. Without any arguments,
            the message contains the first line of the error, and a `MemoryError` is not changed.
        parameters: int, the number of weights to load.

    Example:
        with explain_out_of_memory(batch_size=32, length=512):
            model.fit(data)
    """
    try:
        yield
    except Exception as error:
        explained = isinstance(error, MemoryError) and error.__cause__ is not None  # By a nested context.
        known = batch_size or length or parameters
        if explained or not _is_out_of_memory(error) or (isinstance(error, MemoryError) and not known):
            raise
        if known:
            place = _failed_step(batch_size, length, parameters)
        else:
            place = ": " + str(error).partition("\n")[0]
        advice = _ADVICE if parameters is None else _LOADING
        raise MemoryError(f"out of memory{place}. {advice}") from error


def _failed_step(batch_size, length, parameters):
    if parameters is not None:
        return f" while loading {parameters:,} parameters ({parameters * 4 / 1e9:.1f} GB in float32)"
    step = " at a batch"
    if batch_size:
        step += f" of {batch_size} sequences"
    if length:
        step += f" of length {length}"
    return step


def _is_out_of_memory(error):
    # TensorFlow raises ResourceExhaustedError, JAX a RuntimeError that starts with its code, others a MemoryError.
    if isinstance(error, MemoryError):
        return True
    exhausted = type(error).__name__ == "ResourceExhaustedError" or "RESOURCE_EXHAUSTED" in str(error)
    return exhausted and _EXHAUSTED.search(str(error)) is not None

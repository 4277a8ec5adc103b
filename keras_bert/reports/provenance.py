"""Date, machine, versions and command of a study, for the head of its report."""

import datetime
import os
import platform
import shlex
import sys

import keras
import numpy as np
import tensorflow as tf

from keras_bert.version import __version__


def environment(seconds: float, replicas: int = 1):
    """Returns date, machine, versions and command of this process as a dict of texts, for the `ReportHead`.

    Args:
        seconds: float, the duration of all runs, 0 if unknown.
        replicas: int, the number of replicas that the runs were distributed over. Defaults to 1.
    """
    now = datetime.datetime.now().astimezone()
    facts = {"date": f"{now:%Y-%m-%d %H:%M %Z}"}
    if seconds:
        facts["duration of the runs"] = duration(seconds)
    facts["machine"] = machine()
    if replicas > 1:
        facts["machine"] += f"; {replicas} replicas"
    facts["versions"] = versions()
    command_line = command()
    if command_line:
        facts["command"] = command_line
    return facts


def duration(seconds):
    """Formats seconds, such as `2 h 05 min`, `3 min 07 s` or `12.3 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def machine():
    """Describes cores, memory and accelerators."""
    cores = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):  # Not on macOS. A container may have fewer cores than the machine.
        cores = len(os.sched_getaffinity(0))
    unit = "core" if cores == 1 else "cores"
    parts = [f"{cores} {platform.machine()} {unit}"]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        parts.append(f"{memory / 1e9:.0f} GB memory")
    parts.append(_accelerators())
    return ", ".join(parts)


def _accelerators():
    names = _accelerator_names()
    described = []
    for name in dict.fromkeys(names):
        count = names.count(name)
        described.append(name if count == 1 else f"{count} x {name}")
    return ", ".join(described) or "no accelerator"


def _accelerator_names():
    """Returns the name of each device of this process, one entry for each."""
    if keras.backend.backend() == "jax":
        import jax

        return [device.device_kind for device in jax.devices() if device.platform != "cpu"]
    names = []
    for gpu in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpu)
        names.append(details.get("device_name", "GPU"))
    for _ in tf.config.list_logical_devices("TPU"):
        names.append("TPU")
    return names


def versions():
    """Returns the versions that numbers depend on, as one text."""
    found = {
        "keras_bert": __version__,
        "TensorFlow": tf.__version__,
        "Keras": keras.__version__,
        "NumPy": np.__version__,
        "Python": platform.python_version(),
    }
    return ", ".join(f"{name} {version}" for name, version in found.items())


def command():
    """Returns the command line of this process, or "" in an interactive session or a notebook."""
    program, *arguments = sys.argv
    if program in ("", "-c") or "ipykernel" in sys.modules:
        return ""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    if module and " " not in program:  # The console command is "keras-bert NAME".
        start = ["python", "-m", module.name.removesuffix(".__main__")]
    else:
        start = os.path.basename(program).split()
    return shlex.join([*start, *arguments])

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
    """Returns date, machine, versions and command of this process as a dict of texts, for the `Head` of a report.

    Args:
        seconds: float, the duration of all runs, 0 if unknown.
        replicas: int, the number of replicas that the runs were distributed over. Defaults to 1.
    """
    now = datetime.datetime.now().astimezone()
    facts = {
        "date": f"{now:%Y-%m-%d %H:%M %Z}",
        **({"duration of the runs": duration(seconds)} if seconds else {}),
        "machine": machine() + (f"; {replicas} replicas" if replicas > 1 else ""),
        "versions": versions(),
    }
    return {**facts, "command": text} if (text := command()) else facts


def duration(seconds):
    """Formats seconds, such as `2 h 05 min`, `3 min 07 s` or `12.3 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def machine():
    """Describes cores, memory and accelerators."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [f"{cores} {platform.machine()} core{'s' * (cores != 1)}"]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        parts.append(f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB memory")
    return ", ".join([*parts, _accelerators()])


def _accelerators():
    if keras.backend.backend() == "jax":
        import jax

        names = [device.device_kind for device in jax.devices() if device.platform != "cpu"]
    else:
        gpus = tf.config.list_physical_devices("GPU")
        names = [tf.config.experimental.get_device_details(gpu).get("device_name", "GPU") for gpu in gpus]
        names += ["TPU"] * len(tf.config.list_logical_devices("TPU"))
    kinds = [f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    return ", ".join(kinds) or "no accelerator"


def versions():
    found = {"keras_bert": __version__, "TensorFlow": tf.__version__, "Keras": keras.__version__}
    found |= {"NumPy": np.__version__, "Python": platform.python_version()}
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

"""Distribution strategies: one device, the GPUs of one machine, several machines, a TPU."""

import json
import logging
import os
import socket
import time
from typing import Literal

import tensorflow as tf

_LOG = logging.getLogger("keras_bert")
KINDS = ("auto", "one", "mirrored", "multi_worker", "tpu")


def create_strategy(
    kind: Literal["auto", "one", "mirrored", "multi_worker", "tpu"] = "auto",
    *,
    tpu: str | None = None,
    timeout_s: int = 600,
) -> tf.distribute.Strategy:
    """Creates a `tf.distribute` strategy. Call before any other TensorFlow code.

    Args:
        kind: str, "one" device; "mirrored" over all GPUs of this machine, or its logical CPUs if it has none;
            "multi_worker" over the machines in `TF_CONFIG`; "tpu"; or "auto": "multi_worker" if `TF_CONFIG` lists
            workers, "mirrored" if there are several GPUs, else "one". Defaults to "auto".
        tpu: str, name or address of the TPU. Defaults to the TPU of this machine.
        timeout_s: float, seconds to wait for the other workers. Defaults to 600.

    Example:
        trainer = Trainer(..., strategy=create_strategy("mirrored"))
    """
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(KINDS)}. Received: kind={kind!r}")
    if kind == "auto":
        several = len(tf.config.list_physical_devices("GPU")) > 1
        kind = "multi_worker" if _workers()[0] else "mirrored" if several else "one"
    if kind == "one":
        return tf.distribute.get_strategy()
    if kind == "mirrored":
        if not tf.config.list_physical_devices("GPU"):
            _LOG.info("no GPU was found: training runs on the CPU")
        return tf.distribute.MirroredStrategy(
            [device.name for device in tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")]
        )
    if kind == "tpu":
        return _tpu(tpu)
    _wait_for_workers(timeout_s)
    return tf.distribute.MultiWorkerMirroredStrategy()


def is_chief(strategy):
    """Returns whether this process is the one that writes files."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return True
    resolver = strategy.cluster_resolver
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return (resolver.task_type, resolver.task_id) == (first, 0)


def _workers():
    """Returns the addresses of all workers in `TF_CONFIG` and of this one; `([], None)` if it is not set."""
    text = os.environ.get("TF_CONFIG", "").strip()
    if not text:
        return [], None
    try:
        config = json.loads(text)
        workers, kind, index = config["cluster"]["worker"], config["task"]["type"], config["task"]["index"]
        workers = [*config["cluster"].get("chief", []), *workers]
        known = kind in config["cluster"] and 0 <= index < len(config["cluster"][kind])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            "TF_CONFIG is malformed. Expected JSON such as "
            '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}. '
            f"Received: {text!r} ({type(error).__name__}: {error})"
        ) from None
    if not known:
        raise ValueError(f"TF_CONFIG: this task, {kind} {index}, is not in the cluster. Received: {text!r}")
    return workers, config["cluster"][kind][index]


def _wait_for_workers(timeout_s):
    """Waits until the ports of all workers, including this one, respond; TensorFlow would wait forever."""
    workers, own = _workers()
    if not workers:
        raise ValueError("TF_CONFIG is not set. Expected it to name all workers and this one; see the README")
    end = time.monotonic() + timeout_s
    with socket.create_server(("", int(own.rpartition(":")[2]))):
        for worker in workers:
            host, _, port = worker.rpartition(":")
            while True:
                try:
                    socket.create_connection((host, int(port)), timeout=1).close()
                    break
                except OSError as error:
                    if time.monotonic() > end:
                        raise ValueError(
                            f"the worker {worker} of TF_CONFIG did not answer for {timeout_s} s ({error}). Start the "
                            "same command on each machine, with its own `index`, and check that the ports are open"
                        ) from None
                    time.sleep(0.2)


def _tpu(name):
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name or "local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError, RuntimeError) as error:
        raise ValueError(
            f"no TPU was found. Expected a TPU VM, or `tpu` to name one. Received: tpu={name!r} ({error})"
        ) from None
    return tf.distribute.TPUStrategy(resolver)

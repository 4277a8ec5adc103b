"""Strategies: one device, the GPUs of a machine, several machines, a TPU."""

import json
import os
import socket
import time

import tensorflow as tf

KINDS = ("auto", "one", "mirrored", "multi_worker", "tpu")


def create_strategy(kind="auto", tpu=None, timeout_s=600):
    """Creates a `tf.distribute` strategy. Call before any other TensorFlow code.

    Args:
        kind: "one" device; "mirrored" over all GPUs of this machine, or its logical CPUs without one; "multi_worker"
            over the machines of `TF_CONFIG`; "tpu"; or "auto": "multi_worker" where `TF_CONFIG` names workers,
            "mirrored" where there are several GPUs, else "one".
        tpu: name or address of the TPU. Defaults to the one of this machine.
        timeout_s: float, how long to wait for the other workers.

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
        return tf.distribute.MirroredStrategy(
            [device.name for device in tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")]
        )
    if kind == "tpu":
        return _tpu(tpu)
    _wait_for_workers(timeout_s)
    return tf.distribute.MultiWorkerMirroredStrategy()


def is_chief(strategy):
    """Whether this process is the one that writes files."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return True
    resolver = strategy.cluster_resolver
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return (resolver.task_type, resolver.task_id) == (first, 0)


def _workers():
    """The addresses of the workers in `TF_CONFIG`, and of this one; none without it."""
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
        raise ValueError(f"TF_CONFIG: this task, {kind} {index}, is not in its cluster. Received: {text!r}")
    return workers, config["cluster"][kind][index]


def _wait_for_workers(timeout_s):
    """Waits until the port of every worker answers, this one's too; TensorFlow would wait forever."""
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

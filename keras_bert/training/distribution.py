"""Strategies: one device, the GPUs of one machine, several machines, a TPU; the batches and the sums of replicas."""

import functools
import json
import logging
import os
import socket
import time
from typing import Literal

import tensorflow as tf
from tensorflow.python.framework import ops

from keras_bert.checks import check_choice
from keras_bert.training.losses import total_weights

_LOG = logging.getLogger("keras_bert")
KINDS = ("auto", "one", "mirrored", "multi_worker", "tpu")
_PREFIX = "CustomGradient-"  # Of names in TensorFlow's table of gradients.


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
    check_choice("kind", kind, KINDS)
    if kind == "auto":
        kind = _kind_of_machine()
    if kind == "one":
        return tf.distribute.get_strategy()
    if kind == "mirrored":
        return _mirrored_strategy()
    if kind == "tpu":
        return _tpu_strategy(tpu)
    _wait_for_workers(timeout_s)
    return tf.distribute.MultiWorkerMirroredStrategy()


def _kind_of_machine():
    """Returns the kind of strategy for this machine and `TF_CONFIG`."""
    workers, _ = _workers()
    if workers:
        return "multi_worker"
    if len(tf.config.list_physical_devices("GPU")) > 1:
        return "mirrored"
    return "one"


def _mirrored_strategy():
    """Returns a strategy over all GPUs of this machine, or its logical CPUs if it has none."""
    devices = tf.config.list_logical_devices("GPU")
    if not devices:
        _LOG.warning("the strategy mirrored found no GPU: training runs on the CPU")
        devices = tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


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
        cluster = config["cluster"]
        workers = [*cluster.get("chief", []), *cluster["worker"]]
        kind = config["task"]["type"]
        index = config["task"]["index"]
        is_known = kind in cluster and 0 <= index < len(cluster[kind])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            "TF_CONFIG is malformed. Expected JSON such as "
            '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}. '
            f"Received: {text!r} ({type(error).__name__}: {error})"
        ) from None
    if not is_known:
        raise ValueError(f"TF_CONFIG: this task, {kind} {index}, is not in the cluster. Received: {text!r}")
    return workers, cluster[kind][index]


def _wait_for_workers(timeout_s):
    """Waits until the ports of all workers, including this one, respond; TensorFlow would wait forever."""
    workers, own = _workers()
    if not workers:
        raise ValueError("TF_CONFIG is not set. Expected it to name all workers and this one; see the README")
    deadline = time.monotonic() + timeout_s
    own_port = int(own.rpartition(":")[2])
    with socket.create_server(("", own_port)):
        for worker in workers:
            _wait_for_worker(worker, timeout_s, deadline)


def _wait_for_worker(worker, timeout_s, deadline):
    """Waits until the port of a worker responds, at most until the deadline."""
    host, _, port = worker.rpartition(":")
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"the worker {worker} of TF_CONFIG did not answer for {timeout_s} s ({error}). Start the "
                    "same command on each machine, with its own `index`, and check that the ports are open"
                ) from None
            time.sleep(0.2)


def _tpu_strategy(name):
    """Returns the strategy of a TPU, by default that of this machine."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name or "local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError, RuntimeError) as error:
        raise ValueError(
            f"no TPU was found. Expected a TPU VM, or `tpu` to name one. Received: tpu={name!r} ({error})"
        ) from None
    return tf.distribute.TPUStrategy(resolver)


def all_reduce(tensors):
    """Sums each tensor of a list over all replicas. Call in a replica context. The sum cannot be differentiated."""
    # `tf.distribute` registers a custom gradient for the sum in a global table, whose closure has the graph and with it
    # the model: without removing it, the memory of every finished run of a grid is kept until the process ends. It can
    # go once TensorFlow stores such gradients in the operation, or frees them with the graph.
    registry = ops.gradient_registry._registry
    before = {name for name in registry if name.startswith(_PREFIX)}
    try:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tensors)
    finally:
        for name in list(registry):
            if name.startswith(_PREFIX) and name not in before:
                registry.pop(name, None)  # Another replica may have removed it.


def gather_rows(tree):
    """Returns tensors with the rows of all replicas, equally many each. Call in a replica context.

    Gradients stop at a sum over replicas; the tensors of a single replica are returned as they are.
    """
    replica = tf.distribute.get_replica_context()
    count = replica.num_replicas_in_sync
    index = replica.replica_id_in_sync_group
    if count == 1:
        return tree

    def placed(tensor):
        """Returns the rows at this replica's place among zeros."""
        padding = [[index, count - 1 - index]] + [[0, 0]] * tensor.shape.rank
        return tf.pad(tensor[None], padding)

    def joined(tensor, total):
        return tf.reshape(tf.cast(total, tensor.dtype), tf.concat([[-1], tf.shape(tensor)[1:]], 0))

    tensors = tf.nest.flatten(tree)
    # A sum over devices takes tensors of one type: floats, int64, or a single one of int32; there is none of bool or
    # int8. So all but floats travel as int64, and `joined` gives them their own type again.
    wide = []
    for tensor in tensors:
        if not tensor.dtype.is_floating:
            tensor = tf.cast(tensor, tf.int64)
        wide.append(tensor)
    gathered = [None] * len(tensors)
    for dtype in sorted({tensor.dtype.name for tensor in wide}):
        places = [place for place, tensor in enumerate(wide) if tensor.dtype.name == dtype]
        totals = all_reduce([placed(wide[place]) for place in places])
        for place, total in zip(places, totals, strict=True):
            gathered[place] = joined(tensors[place], total)
    return tf.nest.pack_sequence_as(tree, gathered)


def own_rows(tree):
    """Returns this replica's rows of tensors with the rows of all replicas. Call in a replica context."""
    replica = tf.distribute.get_replica_context()

    def own(tensor):
        rows = tf.shape(tensor)[0] // replica.num_replicas_in_sync
        start = replica.replica_id_in_sync_group * rows
        return tensor[start : start + rows]

    return tf.nest.map_structure(own, tree)


def sum_over_replicas(strategy, number):
    """Returns the sum over all replicas of one number per worker; workers wait for each other."""
    numbers = strategy.run(tf.constant, [float(number)])
    return float(strategy.reduce(tf.distribute.ReduceOp.SUM, numbers, axis=None))


def replica_dataset(strategy, make_dataset, divide):
    """Distributes a dataset of global batches over the replicas of a strategy; `divide` is from `dividing`.

    Each worker reads the whole dataset and takes its own rows of every batch, so batches do not depend on the number of
    workers. `make_dataset` returns a dataset of `(inputs, targets, weights)`, this function a distributed one of
    `(inputs, targets, weights, totals)`; `targets` is `()` if there are none, `totals` are `total_weights`.
    """
    replicas = strategy.num_replicas_in_sync

    def make(context):
        here = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * here
        split = functools.partial(divide, replicas=replicas, first=first, here=here)
        dataset = make_dataset().map(split, num_parallel_calls=2, deterministic=True)
        if here > 1:
            dataset = dataset.unbatch()
        options = tf.data.Options()
        # The thread that tunes a pipeline sleeps for up to a minute, and the end of an iterator may wait for it: an
        # epoch of a few seconds could take a minute. The numbers of threads and of prefetched batches are set here
        # instead. It can go once the thread is woken when its iterator ends.
        options.autotune.enabled = False
        return dataset.prefetch(2 * here).with_options(options)

    return strategy.distribute_datasets_from_function(make)


def dividing(losses=(), micro_batches: int = 1):
    """Returns the function that divides a global batch over replicas, traced once for the datasets of all epochs.

    If rows cannot be divided evenly, copies of the last row are added with weight 0; a replica may receive only filler.
    The rows of a replica are a multiple of `micro_batches`.
    """

    @tf.function(autograph=False)
    def divide(inputs, targets, weights, replicas, first, here):
        totals = total_weights(losses, targets, weights)
        if targets is None:
            targets = ()
        divided = _divided((inputs, targets, weights), replicas, micro_batches)
        totals_of_replicas = tf.broadcast_to(totals, [replicas, len(losses) or 1])
        own = slice(first, first + here) if here > 1 else first
        return tf.nest.map_structure(lambda value: value[own], (*divided, totals_of_replicas))

    return divide


def _divided(batch, replicas, micro_batches):
    """Reshapes `(rows, ...)` to `(replicas, rows of each, ...)`, the weights last; packed rows have several texts."""
    sizes = {value.shape[0] for value in tf.nest.flatten(batch)}
    rows = tf.shape(batch[-1])[0] if None in sizes else min(sizes)
    is_known = isinstance(rows, int)
    parts = replicas * micro_batches
    each = (rows + parts - 1) // parts * micro_batches
    place = tf.range(each * replicas)
    is_uneven = not is_known or each * replicas != rows

    def divide(value, filler_value=None):
        texts = value.shape[0] // rows if is_known else 1
        if is_uneven:
            value = tf.reshape(value, tf.concat([[rows, texts], tf.shape(value)[1:]], 0))
            value = tf.gather(value, tf.minimum(place, rows - 1))
            if filler_value is not None:
                value = tf.where((place < rows)[:, None], value, filler_value)
            value = tf.reshape(value, tf.concat([[-1], tf.shape(value)[2:]], 0))
        return tf.reshape(value, tf.concat([[replicas, each * texts], tf.shape(value)[1:]], 0))

    inputs, targets = tf.nest.map_structure(divide, batch[:-1])
    return inputs, targets, divide(batch[-1], filler_value=0.0)
